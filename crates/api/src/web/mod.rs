//! Websites: buckets as web servers, for everybody.
//!
//! The host of a request names the bucket: `bucket.<root domain>`, or a bucket whose name is the
//! whole host. A bucket that has a website configuration is readable by everybody through this
//! endpoint, and through no other.
//!
//! # Invariants
//! - Nobody can write through this endpoint, and no request is signed.
//! - A host without a website gets one answer, whether its bucket exists or not.
//! - Strangers cause no lookup of names in other nodes: the cached buckets decide.
//! - A redirect that the configuration does not send elsewhere stays on its host.
//!
//! A page takes one round trip between nodes. The redirect to a folder and an error page take two:
//! the page is looked for first, then the folder and the error document together.
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`] | from a request to an answer |
//! | `host` | the bucket that a host names |
//! | `pages` | the pages of a website, and errors |
//! | `redirect` | addresses of redirects |
//! | `html` | the error pages of websites without one |

mod host;
mod html;
mod pages;
mod redirect;
pub mod service;
#[cfg(test)]
mod tests;

pub use service::{Web, WebConfig};
