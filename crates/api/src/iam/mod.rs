//! AWS's IAM API, as far as users, groups, roles, policies and access keys go; and the way from a
//! request to an answer that [`crate::sts`] shares.
//!
//! Requests are forms (`Action=...&Version=2010-05-08`) that clients post to `/` on the address of
//! S3, with a signature for the service `iam` (or `sts`). Answers are XML.
//!
//! # Invariants
//! - One place decides whether the caller may do what it asks for, before the handler runs.
//! - A parameter that an action does not know is refused, not ignored.
//! - The answer to a change names the nodes that did not confirm it, in a header.
//!
//! Source: AWS, "Identity and Access Management API Reference".
//!
//! | module | what it holds |
//! |---|---|
//! | `service` | from a request to an answer: form, signature, decision |
//! | `form`, `error`, `reply` | parameters, errors, documents |
//! | `actions`, `resource` | the table of actions and their parameters; what they act on |
//! | `account` | the account's counts and aliases |
//! | `users`, `keys`, `groups`, `roles`, `policies`, `providers` | the actions on each |
//! | `inline`, `attached`, `paths`, `tags` | what users, groups and roles share |

mod account;
mod actions;
mod attached;
mod error;
mod form;
mod groups;
mod inline;
mod keys;
mod paths;
mod policies;
mod providers;
mod reply;
mod resource;
mod roles;
pub(crate) mod service;
mod tags;
#[cfg(test)]
pub(crate) mod tests;
mod users;

pub(crate) use error::{IamError, IamResult};
pub(crate) use resource::Resource;
pub(crate) use service::Ask;
