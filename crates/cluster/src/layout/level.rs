//! Feature levels: what all nodes of a cluster understand.
//!
//! A release speaks all levels up to its own. The cluster's level is part of the epoch. It is
//! raised once every node of the layout speaks more, and never lowered. Rows, messages and settings
//! of a later level exist only from then on. A node that does not speak the cluster's level serves
//! nothing. `docs/internals/cluster.md` tells how a release adds a level.

use super::Epoch;
use archipel_base::NodeId;

/// The highest feature level that this release speaks.
///
/// | level | what it adds |
/// |---|---|
/// | 1 | everything up to now |
pub const LEVEL: u32 = 1;

/// Returns the level to which the cluster may be raised: the lowest that its nodes speak. `spoken`
/// is the highest level that a node speaks, or 0 if it is not known. Returns `None` if the cluster
/// has that level already, or while a layout change is under way.
pub fn next_level(epoch: &Epoch, spoken: impl Fn(&NodeId) -> u32) -> Option<u32> {
    let nodes = epoch.newest().roles.iter().map(|role| role.store.node);
    let lowest = nodes.map(|node| spoken(&node)).min()?;
    (lowest > epoch.level && !epoch.is_changing()).then_some(lowest)
}

#[cfg(test)]
mod tests {
    use archipel_base::Id;

    use super::*;
    use crate::layout::{Layout, Role, StoreName};

    /// Returns an epoch of level 1 with this many nodes. The last one is a gateway.
    fn epoch(nodes: u8) -> Epoch {
        let role = |n: u8| Role {
            store: StoreName {
                node: NodeId([n; 32]),
                store: Id([n; 16]),
            },
            zone: "a".into(),
            capacity_bytes: u64::from(nodes - n),
        };
        let layout = Layout {
            roles: (1..=nodes).map(role).collect(),
            ..Layout::single(role(1).store, "a", 1)
        };
        Epoch::first(Id([9; 16]), layout)
    }

    fn next(epoch: &Epoch, spoken: &[u32]) -> Option<u32> {
        next_level(epoch, |node| spoken[usize::from(node.0[0]) - 1])
    }

    #[test]
    fn cluster_is_raised_to_the_lowest_level_that_its_nodes_speak() {
        let first = epoch(3);
        for (spoken, expected) in [
            ([1, 1, 1], None),
            ([3, 2, 1], None),
            ([3, 3, 0], None),
            ([3, 2, 4], Some(2)),
            ([5, 5, 5], Some(5)),
        ] {
            assert_eq!(next(&first, &spoken), expected, "{spoken:?}");
        }
        let second = first.with_level(2);
        assert_eq!((second.number(), second.level), (2, 2));
        assert_eq!(second.layouts, first.layouts);
        assert_eq!(second.config.live, first.config.live);
        assert_eq!(next(&second, &[2, 2, 2]), None);
        assert_eq!(next(&second, &[1, 3, 3]), None, "it is never lowered");
        assert_eq!(next(&second, &[3, 3, 3]), Some(3));
    }

    #[test]
    fn level_stays_through_layout_changes_and_is_not_raised_during_one() {
        let first = epoch(2).with_level(2);
        let changing = first.with_next(epoch(3).newest().clone());
        assert_eq!((changing.level, next(&changing, &[9, 9, 9])), (2, None));
        let after = changing.without_oldest().unwrap();
        assert_eq!((after.level, next(&after, &[9, 9, 9])), (2, Some(9)));
    }

    #[test]
    fn level_is_part_of_the_stored_epoch() {
        let epoch = epoch(2).with_level(7);
        assert_eq!(Epoch::decode(&epoch.encode()), Ok(epoch.clone()));
        let without = Epoch { level: 0, ..epoch };
        assert!(Epoch::decode(&without.encode()).is_err());
    }
}
