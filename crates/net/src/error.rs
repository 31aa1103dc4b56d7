//! What can go wrong between nodes, named by what the caller should do.

/// Why a stream or a call failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// No connection could be made: try another replica.
    #[error("{0} cannot be reached: {1}")]
    Unreachable(archipel_base::NodeId, String),
    /// Nobody answers at an address, or nobody who knows the cluster's secret.
    #[error("no node of the cluster answers at {0}")]
    NotFound(String),
    /// The connection or the stream broke: what was asked may or may not have happened.
    #[error("the connection to {0} broke: {1}")]
    Broken(archipel_base::NodeId, String),
    /// No answer came in time: as if broken.
    #[error("{0} did not answer in time")]
    TimedOut(archipel_base::NodeId),
    /// The peer answered with an error of its own: what was asked did not happen.
    #[error("{0} refuses: {1}")]
    Refused(archipel_base::NodeId, String),
    /// The peer says what the protocol does not allow; the stream is over.
    #[error("{0} broke the protocol: {1}")]
    Protocol(archipel_base::NodeId, String),
    /// This node is closing.
    #[error("this node is closing its connections")]
    Closed,
}
