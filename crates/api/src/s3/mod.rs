//! The S3 API: our own protocol layer on hyper.
//!
//! # Invariants
//! - Handlers get only resources that [`auth`] permitted, after a signature, if there is one, was
//!   verified. An anonymous client learns nothing that was not allowed to everybody.
//! - Every `x-amz-*` header and `host` is signed, or the request is refused.
//! - An `x-amz-*` parameter of a signed query means the same as the header of that name.
//! - No byte of a signed chunk reaches storage before its signature was checked. No object becomes
//!   visible before all of its checksums were.
//! - Missing features answer 501, also those that a query parameter or a header asks for.
//! - Everything that a client sends is bounded in size and time.
//!
//! | module | what it holds |
//! |---|---|
//! | `endpoint`, [`service`], [`config`] | from a request to an answer: of all endpoints, of S3; settings |
//! | `target`, `hoisted`, `route`, `call` | address, headers in the query, operation, request |
//! | `s3_control` | another API: tags of buckets by ARN, and a block that is not there |
//! | `signer`, `signed`, `sigv4`, `sigv2`, `auth`, `owner` | signatures, the decision, names of owners |
//! | `body`, `chunked`, `transfer`, `checksum` | bodies, their encoding, their way to storage |
//! | `handlers` | the operations |
//! | `acl`, `copy_source`, `cors`, `post`, `precondition`, `range`, `metadata` | rules of their own |
//! | `tagging`, `lifecycle`, `lock`, `date` | tags, lifecycle rules, object lock: headers and documents |
//! | `website` | website configurations: documents |
//! | `notification`, [`record`] | event notifications: documents, events as JSON |
//! | `sse` | headers about encryption |
//! | `health` | health checks, without a signature |
//! | `xml`, `uri`, `respond`, `slow`, [`error`], `explain` | formats, answers |

mod acl;
pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod call;
mod checksum;
mod chunked;
pub mod config;
mod copy_source;
pub(crate) mod cors;
mod date;
pub(crate) mod endpoint;
pub mod error;
mod explain;
pub(crate) mod handlers;
mod health;
pub(crate) mod hoisted;
pub mod lifecycle;
mod lock;
pub(crate) mod metadata;
pub(crate) mod notification;
mod owner;
mod post;
mod precondition;
mod range;
pub mod record;
pub(crate) mod respond;
pub(crate) mod route;
pub(crate) mod s3_control;
pub mod service;
pub(crate) mod signed;
pub(crate) mod signer;
mod sigv2;
pub(crate) mod sigv4;
mod slow;
mod sse;
pub mod tagging;
pub(crate) mod target;
mod transfer;
pub(crate) mod uri;
pub(crate) mod website;
pub(crate) mod xml;

pub use config::S3Config;
pub(crate) use handlers::policy::read as read_bucket_policy;
pub use health::{HealthCheck, HealthSource};
pub use service::S3;

#[cfg(test)]
pub(crate) mod tests;
