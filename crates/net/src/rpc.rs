//! Calls on top of streams: a method by name, a deadline, frames both ways.
//!
//! The first frame of a stream is a [`Header`] (versioned; unknown fields are skipped): which method,
//! and how long the caller waits. A plain call sends one frame more and gets one back. A failed
//! call gets a frame that says why.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Error;
use crate::transport::{Class, Peer, Stream, Transport};

/// Answers the calls of peers.
#[async_trait]
pub trait Service: Send + Sync + 'static {
    /// Answers a plain call. `Err` is told to the caller, who gets [`Error::Refused`].
    async fn call(&self, from: NodeId, method: &str, request: Bytes) -> Result<Bytes, String>;

    /// Serves a stream to its end. `Err` is told to the caller as far as that is still possible.
    async fn stream(&self, from: NodeId, method: &str, stream: Stream) -> Result<(), String>;
}
