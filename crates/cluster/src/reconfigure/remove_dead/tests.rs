use archipel_base::Id;

use super::*;
use crate::layout::{Layout, Redundancy, Role};
use crate::reconfigure::rebalance::moved;
use crate::register::ReplicaSet;
use crate::register::epoch::reduced;

fn store(n: u8) -> StoreName {
    StoreName {
        node: NodeId([n; 32]),
        store: Id([n; 16]),
    }
}

/// Returns a layout with each partition on consecutive nodes, `replicas` of them.
fn layout(version: u64, replicas: u8, nodes: &[u8]) -> Layout {
    let each = |p: u16| (0..u16::from(replicas)).map(move |n| (p + n) % nodes.len() as u16);
    Layout {
        version,
        redundancy: Redundancy {
            replicas,
            zones: None,
        },
        assignment: (0..PARTITIONS).flat_map(each).collect(),
        control: (0..3).collect(),
        roles: nodes
            .iter()
            .map(|n| Role {
                store: store(*n),
                zone: format!("zone{n}"),
                capacity_bytes: 1,
            })
            .collect(),
    }
}

/// Returns an epoch of four nodes in which the fourth is being removed.
fn without_the_fourth(replicas: u8) -> Epoch {
    let first = Epoch::first(Id([9; 16]), layout(1, replicas, &[1, 2, 3, 4]));
    first.with_next(layout(2, replicas, &[1, 2, 3]))
}

fn all_but(dead: &'static [u8]) -> impl Fn(&StoreName) -> bool {
    move |store| !dead.contains(&store.node.0[0])
}

#[test]
fn one_of_two_copies_may_be_removed_without_loss() {
    let risk = risk(&without_the_fourth(2), store(4), &all_but(&[4]));
    let position = Position {
        copies: 2,
        left: 1,
        answering: 1,
        kept: false,
    };
    assert_eq!(risk.partitions, BTreeMap::from([(position, 512)]));
    assert!(!risk.may_lose() && position.goes_on());
    let lines = risk.explain().join("\n");
    let expected = "512 partitions: 1 of 2 copies are left, 1 of them answer: \
                    nothing that was acknowledged is lost";
    assert!(lines.contains(expected), "{lines}");
}

#[test]
fn explanation_names_a_lost_majority_and_nodes_that_are_still_awaited() {
    let epoch = without_the_fourth(3);
    let one = risk(&epoch, store(4), &all_but(&[3, 4]));
    assert!(!one.may_lose());
    assert!(one.partitions.keys().any(|p| !p.goes_on()));
    let first = Epoch::first(Id([9; 16]), layout(1, 3, &[1, 2, 3, 4]));
    let both = first.with_next(layout(2, 2, &[1, 2]));
    let skipped = both.skipping(&store(4)).unwrap();
    let two = risk(&skipped, store(3), &all_but(&[3, 4]));
    assert!(two.may_lose());
    assert!(two.partitions.keys().any(|p| (p.copies, p.left) == (3, 1)));
    assert!(two.explain().iter().any(|line| line.contains("are lost")));
    let only = Epoch::first(Id([9; 16]), layout(1, 1, &[1, 2, 3, 4]));
    let only = only.with_next(layout(2, 1, &[1, 2, 3]));
    let lost = risk(&only, store(4), &all_but(&[4])).explain().join("\n");
    let expected = "256 partitions: 0 of 1 copies are left, 0 of them answer: \
                    rows that have not moved yet are lost";
    assert!(lost.contains(expected), "{lost}");
}

/// Its copies are those of a version to which data still moved.
#[test]
fn nothing_is_lost_while_an_older_version_has_all_rows() {
    let first = Epoch::first(Id([9; 16]), layout(1, 3, &[1, 2, 3]));
    let stuck = first.with_next(layout(2, 3, &[1, 4, 5]));
    assert!(skippable(&stuck, &store(4).node).is_err());
    let third = stuck.with_next(layout(3, 3, &[1, 2, 3]));
    let one = risk(&third, store(4), &all_but(&[4, 5]));
    assert_eq!((one.version, one.may_lose()), (2, false));
    assert!(one.partitions.keys().all(|p| p.kept && !p.goes_on()));
    let skipped = third.skipping(&store(4)).unwrap();
    let two = risk(&skipped, store(5), &all_but(&[4, 5]));
    assert!(!two.may_lose(), "{two:?}");
    assert!(two.partitions.keys().all(|p| p.left == 1 && p.goes_on()));
    let lines = two.explain().join("\n");
    assert!(
        lines.contains("an older layout version has all rows"),
        "{lines}"
    );
    // The oldest version has lost a majority itself.
    let older = third
        .skipping(&store(2))
        .and_then(|next| next.skipping(&store(3)));
    assert_eq!(older, None, "they are in the newest version");
    let fourth = stuck.with_next(layout(3, 3, &[1, 6, 7]));
    let lost = [2, 3, 4].map(store);
    let lost = lost
        .iter()
        .fold(fourth, |epoch, store| epoch.skipping(store).unwrap());
    assert!(risk(&lost, store(5), &all_but(&[])).may_lose());
}

#[test]
fn only_a_dead_node_outside_the_newest_layout_is_removed() {
    let epoch = without_the_fourth(2);
    assert_eq!(skippable(&epoch, &store(4).node).unwrap(), store(4));
    for (epoch, node) in [
        (&epoch, 1),
        (&epoch, 7),
        (&epoch.skipping(&store(4)).unwrap(), 4),
    ] {
        assert!(skippable(epoch, &store(node).node).is_err(), "{node}");
    }
    assert_eq!(epoch.skipping(&store(1)), None);
}

/// The node came back with new disks, and the newest version has them.
#[test]
fn a_store_is_removed_although_the_newest_layout_has_another_one_of_its_node() {
    let new = StoreName {
        store: Id([99; 16]),
        ..store(4)
    };
    let mut with_new = layout(2, 2, &[1, 2, 3, 4]);
    with_new.roles[3].store = new;
    let first = Epoch::first(Id([9; 16]), layout(1, 2, &[1, 2, 3, 4]));
    let epoch = first.with_next(with_new);
    assert_eq!(skippable(&epoch, &store(4).node).unwrap(), store(4));
    let one = risk(&epoch, store(4), &|store| *store != self::store(4));
    assert_eq!((one.version, one.may_lose()), (1, false));
    assert!(one.partitions.keys().all(|position| position.goes_on()));
    let skipped = epoch.skipping(&store(4)).unwrap();
    assert!(skippable(&skipped, &store(4).node).is_err());
    assert!(skipped.incarnation_of(&new).is_some());
}

/// All of it happens while one change is stuck.
#[test]
fn a_store_that_was_let_in_again_and_lost_again_is_removed_again() {
    let removed = without_the_fourth(2).skipping(&store(4)).unwrap();
    assert!(removed.is_skipped(&store(4)));
    let back = removed.with_next(layout(3, 2, &[1, 2, 3, 4]));
    assert!(!back.is_skipped(&store(4)));
    let lost = back.with_next(layout(4, 2, &[1, 2, 3]));
    assert_eq!(skippable(&lost, &store(4).node).unwrap(), store(4));
    assert_eq!(risk(&lost, store(4), &all_but(&[4])).version, 3);
    let again = lost.skipping(&store(4)).unwrap();
    assert!(again.is_skipped(&store(4)));
    assert!(skippable(&again, &store(4).node).is_err());
}

/// The remaining copies of five are the three of the newer version. A write that one of them and
/// the two lost ones had acknowledged is on no majority of the three, so the version may not retire
/// before each key was read and written back.
#[test]
fn a_partition_moves_also_if_the_newer_version_names_what_is_left() {
    let before = Layout {
        control: (0..5).collect(),
        ..layout(1, 3, &[1, 2, 3, 4, 5])
    };
    let after = layout(2, 3, &[1, 2, 3]);
    let changing = Epoch::first(Id([9; 16]), before).with_next(after);
    let lost = [4, 5].map(store);
    let skipped = lost
        .iter()
        .fold(changing, |epoch, store| epoch.skipping(store).unwrap());
    let control = skipped.replicas(PartitionId::CONTROL);
    assert_eq!(control[0], control[1]);
    assert!(moved(&skipped).contains(&PartitionId::CONTROL));
    let same = Epoch::first(Id([9; 16]), layout(1, 3, &[1, 2, 3]));
    let same = same.with_next(layout(2, 3, &[1, 2, 3]));
    assert_eq!(moved(&same), []);
}

#[test]
fn removed_store_never_counts_again() {
    let epoch = without_the_fourth(2).skipping(&store(4)).unwrap();
    assert_eq!(Epoch::decode(&epoch.encode()), Ok(epoch.clone()));
    assert_eq!((epoch.number(), epoch.layouts.len()), (3, 2));
    assert_eq!(epoch.incarnation_of(&store(4)), None);
    let replicas = |p| epoch.replicas(PartitionId(p)).into_iter().flatten();
    assert!((0..PARTITIONS).all(|p| replicas(p).all(|member| member.node != store(4))));
    // If the node is assigned again, even at once, it is another incarnation.
    let before = without_the_fourth(2).incarnation_of(&store(4));
    let back = epoch.with_next(layout(3, 2, &[1, 2, 3, 4]));
    assert!(back.incarnation_of(&store(4)) > before);
    let last = epoch.without_oldest().unwrap();
    assert!(!last.is_skipped(&store(4)));
}

/// For all sizes, a quorum of what is left meets every other quorum, and every earlier majority if
/// that is possible.
#[test]
fn quorums_of_the_remaining_copies_meet_every_earlier_majority() {
    for of in 1..=7_usize {
        for left in 0..of {
            let rest = ReplicaSet::first(left);
            let quorums: Vec<ReplicaSet> = subsets(left)
                .filter(|set| reduced(of, rest).iter().all(|v| holds_majority(*v, *set)))
                .collect();
            let majorities = || subsets(of).filter(|set| 2 * set.len() > of);
            let meets = |quorum: &ReplicaSet| {
                majorities().all(|majority| !majority.intersection(*quorum).is_empty())
            };
            assert_eq!(
                quorums.iter().all(meets),
                !may_lose(of, left),
                "{left} of {of}"
            );
            let smallest = quorums.iter().map(|quorum| quorum.len()).min();
            assert_eq!(smallest, Some(quorum_of(of, left)), "{left} of {of}");
            let pairs = quorums
                .iter()
                .flat_map(|one| quorums.iter().map(move |other| (one, other)));
            let mut apart = pairs.filter(|(one, other)| one.intersection(**other).is_empty());
            assert!(left == 0 || apart.next().is_none(), "{left} of {of}");
        }
    }
}

fn holds_majority(of: ReplicaSet, set: ReplicaSet) -> bool {
    2 * of.intersection(set).len() > of.len()
}

fn subsets(of: usize) -> impl Iterator<Item = ReplicaSet> {
    (0..1_u32 << of).map(move |bits| (0..of).filter(|n| bits & 1 << n != 0).collect())
}
