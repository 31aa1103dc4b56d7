//! The reasons why a requested placement is impossible.

use archipel_base::NodeId;

/// The reason why a requested placement is impossible, with the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// There are fewer nodes than replicas.
    #[error(
        "{replicas} replicas need {replicas} storage nodes, and there are only {nodes}; fix: assign more nodes, or ask for at most {nodes} replicas"
    )]
    TooFewNodes {
        /// The number requested.
        replicas: usize,
        /// The number of storage nodes.
        nodes: usize,
    },
    /// There are more nodes than indices can count.
    #[error("{nodes} storage nodes are more than {most}; fix: remove some", most = u16::MAX)]
    TooManyNodes {
        /// The number of storage nodes.
        nodes: usize,
    },
    /// There are fewer zones than requested.
    #[error(
        "replicas must span at least {asked} zones, and there are only {zones}; fix: assign nodes in more zones, or ask for at most {zones}"
    )]
    TooFewZones {
        /// The number requested.
        asked: usize,
        /// The number of zones.
        zones: usize,
    },
    /// The request names more zones than replicas.
    #[error(
        "{replicas} replicas cannot span {asked} zones; fix: ask for at most {replicas} zones, or for more replicas"
    )]
    MoreZonesThanReplicas {
        /// The number of zones requested.
        asked: usize,
        /// The number of replicas requested.
        replicas: usize,
    },
    /// A number is 0 that must not be 0.
    #[error("the number of {what} is 0; fix: ask for at least 1")]
    Zero {
        /// The name of the number.
        what: &'static str,
    },
    /// A storage node can hold nothing.
    #[error("node {node} has a capacity of 0; fix: give it one, or make it a gateway")]
    NoCapacity {
        /// The node.
        node: NodeId,
    },
    /// A node is given twice.
    #[error("node {node} is given twice; fix: assign it once")]
    Twice {
        /// The node.
        node: NodeId,
    },
    /// The capacity is less than a byte for each replica.
    #[error(
        "{capacity_bytes} bytes of capacity are too little for {partitions} partitions with {replicas} replicas; fix: capacities are in bytes, give larger ones"
    )]
    TooSmall {
        /// The capacity of all nodes together.
        capacity_bytes: u64,
        /// The number of partitions requested.
        partitions: u64,
        /// The number of replicas requested.
        replicas: usize,
    },
    /// The number of partitions is not that of the previous layout.
    #[error(
        "the previous layout has {before} partitions, and {now} are requested; fix: keep {before}, because the number never changes"
    )]
    Partitions {
        /// The number in the previous layout.
        before: usize,
        /// The number requested.
        now: u16,
    },
    /// The capacity allows an assignment, and none was found. This is a defect.
    #[error(
        "no assignment was found for {missing} replicas, although one exists; fix: please report this with `layout show`"
    )]
    NotFound {
        /// The number of missing replicas.
        missing: usize,
    },
}
