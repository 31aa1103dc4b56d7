//! The conformance suite of the transports: a test for each property, run on all of them.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by panicking"
)]

mod calls;
mod dual;
mod pairs;
mod peers;
mod streams;
