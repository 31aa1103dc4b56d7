//! The K2V API: small values with causality, as Garage speaks it.
//!
//! It shares the listener, the signatures, the permissions and the bodies of requests with
//! [`s3`](crate::s3). Errors have S3's codes and are JSON.
//!
//! # Invariants
//! - A handler gets only a bucket that the caller may use so, after the signature was verified.
//! - Everything that a client sends is bounded in size and time, and so is what it is sent.
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`] | from a request to an answer |
//! | `route` | the operation of a request |
//! | `items`, `batch`, `index`, `range` | the operations |
//! | [`sign`] | signs requests, for clients of our own |
//! | `answer` | documents and errors as JSON; tokens and values as text |
//!
//! Source: the specification of the K2V API in Garage's documentation (`k2v-spec.md`).

mod answer;
mod batch;
mod index;
mod items;
mod range;
mod route;
pub mod service;
pub mod sign;
#[cfg(test)]
mod tests;

pub use service::{K2v, K2vConfig};
