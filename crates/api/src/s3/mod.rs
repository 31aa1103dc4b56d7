//! The S3 API: our own protocol layer on hyper.
//!
//! # Invariants
//! - A handler only ever gets what [`auth`] permitted; only verified signatures get there.
//! - Every `x-amz-*` header and `host` is signed, or the request is refused.
//! - Not a byte of a signed chunk reaches storage before its signature was checked; an object
//!   becomes visible only after all of its checksums were.
//! - What is not implemented answers 501, also as a query parameter or a header.
//! - Everything that a client sends is bounded in size and time.
//!
//! | module | what it holds |
//! |---|---|
//! | [`server`], `connection`, `stall`, [`config`] | listeners, connections, limits |
//! | [`service`] | from a request to an answer |
//! | `target`, `route`, `call` | what is addressed, which operation, one request |
//! | `sigv4`, `auth` | signatures, permissions |
//! | `body`, `chunked`, `transfer`, `checksum` | bodies, their encoding, their way to storage |
//! | `handlers` | the operations |
//! | `cors`, `post`, `precondition`, `range`, `metadata` | rules of their own |
//! | `xml`, `uri`, `respond`, `slow`, [`error`] | formats, answers |
//! | [`metrics`] | counters |

mod auth;
mod body;
mod call;
mod checksum;
mod chunked;
pub mod config;
mod connection;
mod cors;
pub mod error;
mod handlers;
mod metadata;
pub mod metrics;
mod post;
mod precondition;
mod range;
mod respond;
mod route;
pub mod server;
pub mod service;
mod sigv4;
mod slow;
mod stall;
mod target;
mod transfer;
mod uri;
mod xml;

pub use config::{Limits, S3Config};
pub use metrics::Metrics;
pub use server::serve;
pub use service::S3;

#[cfg(test)]
mod tests;
