//! Why there is no placement as asked for.

use archipel_base::NodeId;

/// Why there is no placement as asked for: the value, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Fewer nodes than replicas.
    #[error(
        "{replicas} replicas need as many storage nodes, and there are {nodes}; fix: assign more nodes, or ask for at most {nodes} replicas"
    )]
    TooFewNodes {
        /// As asked for.
        replicas: usize,
        /// As given.
        nodes: usize,
    },
    /// More nodes than places can be numbered.
    #[error("{nodes} storage nodes are more than {most}; fix: remove some", most = u16::MAX)]
    TooManyNodes {
        /// As given.
        nodes: usize,
    },
    /// Fewer zones than asked for.
    #[error(
        "replicas shall be in at least {asked} zones, and there are {zones}; fix: assign nodes in more zones, or ask for at most {zones}"
    )]
    TooFewZones {
        /// As asked for.
        asked: usize,
        /// As given.
        zones: usize,
    },
    /// More zones than replicas.
    #[error(
        "{replicas} replicas cannot be in {asked} zones; fix: ask for at most {replicas} zones, or for more replicas"
    )]
    MoreZonesThanReplicas {
        /// As asked for.
        asked: usize,
        /// As asked for.
        replicas: usize,
    },
    /// A number that must not be 0.
    #[error("the number of {what} is 0; fix: ask for at least 1")]
    Zero {
        /// Which.
        what: &'static str,
    },
    /// A storage node that can hold nothing.
    #[error("node {node} has a capacity of 0; fix: give it one, or make it a gateway")]
    NoCapacity {
        /// Which.
        node: NodeId,
    },
    /// A node that is given twice.
    #[error("node {node} is given twice; fix: assign it once")]
    Twice {
        /// Which.
        node: NodeId,
    },
    /// Too little for a byte in each replica.
    #[error(
        "{capacity_bytes} bytes of capacity are too little for {partitions} partitions with {replicas} replicas; fix: capacities are in bytes, give larger ones"
    )]
    TooSmall {
        /// All nodes together.
        capacity_bytes: u64,
        /// As asked for.
        partitions: u64,
        /// As asked for.
        replicas: usize,
    },
    /// The number of partitions is not that of the previous layout.
    #[error(
        "the layout before has {before} partitions, and {now} are asked for; fix: the number never changes"
    )]
    Partitions {
        /// Of the previous layout.
        before: usize,
        /// As asked for.
        now: u16,
    },
    /// Exists by the capacity, and was not found: a defect.
    #[error(
        "no assignment was found for {missing} replicas, though one exists; fix: please report this with `layout show`"
    )]
    NotFound {
        /// How many are missing.
        missing: usize,
    },
}
