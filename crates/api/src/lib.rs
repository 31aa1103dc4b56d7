//! The endpoints: [`s3`] and [`k2v`] for users' clients, [`web`] for the visitors of websites, [`admin`]
//! for operators. Requests to `s3`, `k2v` and `web` go the same way, `s3::endpoint`. `web` answers with the
//! parts of `s3` that read objects, and `k2v` builds on what `s3` has for any signed request; else they do not
//! know one another. `iam` and `sts` manage users and give out temporary credentials; they are behind the
//! address of `s3`.
//! [`fetch`] gets small documents of other services; [`webhook`] posts messages to them.
//! [`serve`] opens endpoints for users on listeners. [`audit`] writes down the requests of all endpoints;
//! [`times`] writes times.

pub mod admin;
pub mod audit;
pub mod fetch;
mod iam;
pub mod k2v;
pub mod s3;
pub mod serve;
mod sts;
pub mod times;
pub mod web;
pub mod webhook;
