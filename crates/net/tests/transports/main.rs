//! What every transport must do, asked of all of them: a function for each property.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by panicking"
)]

mod calls;
mod dual;
mod pairs;
mod peers;
mod streams;
