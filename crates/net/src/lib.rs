//! Streams of frames between nodes, and calls on top of them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`transport`] | the `Transport` trait: streams with a class, connections on demand |
//! | [`rpc`] | calls: a method by name, a deadline, one frame or a stream each way |
//! | [`identity`] | node keys and the cluster's secret |
//! | [`quic`] | streams over QUIC |
//! | [`tcp`] | streams over TCP with TLS, for networks that drop UDP |
//! | [`dual`] | QUIC and TCP on one port; the scheme of an address selects one |
//! | `pool` | connections on demand, for both QUIC and TCP |
//! | [`lookup`] | lookups of host names, which never take all threads for blocking work |
//! | `handshake`, `frames` | the proof of the secret; the encoding of frames |
//! | `rooms` | limits of what is done at once for members and for strangers |
//! | [`simulated`] | nodes in one process, for simulation and tests |
//! | [`error`] | the errors, one kind for each reaction of the caller |

pub mod dual;
pub mod error;
mod frames;
mod handshake;
pub mod identity;
pub mod lookup;
mod pool;
pub mod quic;
mod rooms;
pub mod rpc;
pub mod simulated;
pub mod tcp;
pub mod transport;

pub use error::Error;
pub use transport::{
    Class, Incoming, MAX_FRAME_BYTES, Peer, PeerStatistics, ReceiveFrames, SendFrames, Stream,
    Transport,
};
