//! Access control: one decision for every endpoint, and the documents that it reads.
//!
//! [`decide`] takes a [`Request`] and the [`Inputs`] of one bucket and answers with a
//! [`Decision`], which names its reason. It is pure and total: no clock, no I/O, no panic.
//!
//! Source: AWS, "Policy evaluation logic", "IAM JSON policy elements reference" and "Actions,
//! resources, and condition keys for Amazon S3".
//!
//! # Invariants
//! - An explicit deny wins over everything but one rule: no policy of a bucket keeps its owners
//!   from managing that policy.
//! - A session does nothing that its policies do not allow, unless a bucket's policy names the
//!   session itself.
//! - A request that nothing allows is denied.
//! - A stored policy that cannot be read denies everything.
//! - Text that can be read in two ways is no policy: unknown elements, repeated members, unknown
//!   operators, actions and principals are refused, with the place.
//!
//! | module | what it holds |
//! |---|---|
//! | [`action`] | the actions of S3, IAM and STS, their resources, the grant that includes each |
//! | [`principal`] | who asks, and how policies name principals |
//! | [`context`] | the condition keys of a request |
//! | [`resource`] | the ARNs of buckets and objects |
//! | [`policy`] | policies: reading and matching |
//! | `json` | JSON without repeated members |
//! | `pattern` | wildcards and policy variables |
//! | `condition` | condition operators |
//! | [`malformed`] | why a text is no policy |
//! | [`acl`] | access control lists, object ownership, Public Access Block |
//! | [`identity`] | the policies of a principal |
//! | [`alone`] | decisions about users, policies and roles |
//! | [`decision`] | the decision |

pub mod acl;
pub mod action;
pub mod alone;
mod condition;
pub mod context;
pub mod decision;
pub mod identity;
mod json;
pub mod malformed;
mod pattern;
pub mod policy;
pub mod principal;
pub mod resource;

#[cfg(test)]
mod tests;

pub use acl::{Acl, Ownership, PublicAccessBlock};
pub use action::{Action, Level, ResourceKind};
pub use alone::{IdentityRequest, decide_for_identity, decide_to_assume};
pub use context::Context;
pub use decision::{Decision, Grants, Inputs, Reason, Request, decide};
pub use identity::Identity;
pub use malformed::Malformed;
pub use policy::Policy;
pub use principal::{ACCOUNT, Principal};
pub use resource::{bucket_arn, resource_arn, resource_of_arn};
