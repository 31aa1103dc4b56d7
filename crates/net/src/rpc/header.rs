//! The first frame of a stream.

use std::time::Duration;

use archipel_base::codec::Versioned;
use archipel_traces::{Context, Span};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::transport::Class;

/// The header of a call or a stream.
#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    #[serde(rename = "m")]
    pub method: String,
    /// The time that the caller of a plain call waits for the answer.
    #[serde(rename = "t", default)]
    pub timeout_ms: u64,
    #[serde(rename = "p", default)]
    pub plain: bool,
    /// The caller's class, so that the answer is equally urgent: see [`Class`]. Unknown values mean
    /// small.
    #[serde(rename = "c", default)]
    class: u8,
    /// For content: the bytes that remain to be sent.
    #[serde(rename = "r", default)]
    remaining: u64,
    /// The caller's span, if the call is made for a request that is sampled: see
    /// [`Context::to_bytes`].
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Bytes>,
}

const CONTROL: u8 = 1;
pub(super) const DATA: u8 = 2;
const BACKGROUND: u8 = 3;

impl Header {
    pub fn new(method: &str, class: Class, plain: Option<Duration>, span: &Span) -> Header {
        let (class, remaining) = match class {
            Class::Small => (0, 0),
            Class::Control => (CONTROL, 0),
            Class::Data { remaining } => (DATA, remaining),
            Class::Background => (BACKGROUND, 0),
        };
        Header {
            method: method.to_owned(),
            timeout_ms: plain.map_or(0, |timeout| timeout.as_millis() as u64),
            plain: plain.is_some(),
            class,
            remaining,
            span: span
                .context()
                .map(|context| Bytes::copy_from_slice(&context.to_bytes())),
        }
    }

    /// Returns the caller's span, if it tells one.
    pub fn caller(&self) -> Option<Context> {
        self.span.as_deref().and_then(Context::from_bytes)
    }

    pub fn class(&self) -> Class {
        match self.class {
            CONTROL => Class::Control,
            DATA => Class::Data {
                remaining: self.remaining,
            },
            BACKGROUND => Class::Background,
            _ => Class::Small,
        }
    }
}

impl Versioned for Header {
    const VERSION: u8 = 1;
}
