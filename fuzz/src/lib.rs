//! Targets of fuzzing: each runs one input, any bytes, and panics if the server did what it must not do.
//!
//! | module | its inputs |
//! |---|---|
//! | [`policy`] | texts of policies, and policies with requests, compared with a slow reference |
//! | [`s3`] | requests to S3: signed ones of all operations, documents, chunked bodies, forms, and any bytes |
//! | [`iam`] | requests to IAM and STS |
//! | [`k2v`] | requests to K2V |
//! | [`node`] | calls of other nodes |
//! | [`store`] | stored values, and damaged disks below a store |
//! | [`endpoints`], [`source`] | endpoints on a model in memory; choices from the bytes of an input |
//!
//! `cargo xtask fuzz` lets libFuzzer invent the inputs. The tests run those of `corpus`, and variants of them.

pub mod endpoints;
pub mod iam;
pub mod k2v;
pub mod node;
pub mod policy;
pub mod s3;
pub mod source;
pub mod store;

use source::Source;

/// Runs one input.
pub type Target = fn(&[u8]);

/// The targets by their names.
pub const TARGETS: [(&str, Target); 6] = [
    ("policy", policy::run),
    ("s3", s3::run),
    ("iam", iam::run),
    ("k2v", k2v::run),
    ("node", node::run),
    ("store", store::run),
];
