//! The HTTP endpoints: S3, IAM, STS, K2V, websites and the admin API.
//!
//! S3, K2V and websites share one request path, `s3::endpoint`. IAM and STS are served on the
//! address of S3.
//!
//! | module | what it holds |
//! |---|---|
//! | [`s3`] | the S3 API, and the request path that S3, K2V and websites share |
//! | [`k2v`], [`web`] | the K2V API; buckets as websites |
//! | `iam`, `sts` | AWS's IAM and STS |
//! | [`admin`] | the admin API |
//! | [`serve`] | listeners, TLS, limits of connections |
//! | [`audit`] | the audit log |
//! | [`fetch`], [`webhook`] | gets documents of other services; posts messages to them |
//! | [`times`], `json` | formats times; reads documents |

pub mod admin;
pub mod audit;
pub mod fetch;
mod iam;
mod json;
pub mod k2v;
pub mod s3;
pub mod serve;
mod sts;
pub mod times;
pub mod web;
pub mod webhook;
