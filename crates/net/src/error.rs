//! Errors between nodes, named by what the caller should do.

/// The reason why a stream or a call failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// No connection could be made. The caller tries another replica.
    #[error("{0} cannot be reached: {1}")]
    Unreachable(archipel_base::NodeId, String),
    /// No node with the cluster's secret answers at an address.
    #[error("no node of the cluster answers at {0}")]
    NotFound(String),
    /// The connection or the stream broke. The request may or may not have been executed.
    #[error("the connection to {0} broke: {1}")]
    Broken(archipel_base::NodeId, String),
    /// No answer arrived in time. The request may or may not have been executed.
    #[error("{0} did not answer in time")]
    TimedOut(archipel_base::NodeId),
    /// The peer answered with an error. The request was not executed.
    #[error("{0} refuses: {1}")]
    Refused(archipel_base::NodeId, String),
    /// The peer violated the protocol. The stream has ended.
    #[error("{0} broke the protocol: {1}")]
    Protocol(archipel_base::NodeId, String),
    /// This node is closing.
    #[error("this node is closing its connections")]
    Closed,
}
