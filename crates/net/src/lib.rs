//! Streams of frames between nodes, and calls on top of them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`transport`] | the trait: streams with a class, connections on demand |
//! | [`rpc`] | calls: a method by name, a deadline, one frame or a stream each way |
//! | [`identity`] | keys, and the cluster's secret |
//! | [`quic`] | streams over QUIC |
//! | [`simulated`] | nodes in one process, for simulation and tests |
//! | [`error`] | what can go wrong |

pub mod error;
pub mod identity;
pub mod quic;
pub mod rpc;
pub mod simulated;
pub mod transport;

pub use error::Error;
pub use transport::{
    Class, Incoming, MAX_FRAME_BYTES, Peer, PeerStatistics, ReceiveFrames, SendFrames, Stream,
    Transport,
};
