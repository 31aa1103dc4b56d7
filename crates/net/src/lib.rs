//! Streams of frames between nodes, and calls on top of them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`transport`] | the trait: streams with a class, connections on demand |
//! | [`rpc`] | calls: a method by name, a deadline, one frame or a stream each way |
//! | [`identity`] | keys, and the cluster's secret |
//! | [`quic`] | streams over QUIC |
//! | [`tcp`] | streams over TCP with TLS, where UDP does not pass |
//! | [`dual`] | both on one port; an address says how a node is reached |
//! | `pool` | connections on demand, for both |
//! | `handshake`, `frames` | the secret's proof, frames in bytes |
//! | [`simulated`] | nodes in one process, for simulation and tests |
//! | [`error`] | what can go wrong |

pub mod dual;
pub mod error;
mod frames;
mod handshake;
pub mod identity;
mod pool;
pub mod quic;
pub mod rpc;
pub mod simulated;
pub mod tcp;
pub mod transport;

pub use error::Error;
pub use transport::{
    Class, Incoming, MAX_FRAME_BYTES, Peer, PeerStatistics, ReceiveFrames, SendFrames, Stream,
    Transport,
};
