use super::*;

fn store(n: u8) -> StoreName {
    StoreName {
        node: NodeId([n; 32]),
        store: Id([n; 16]),
    }
}

fn epoch() -> Epoch {
    let first = Epoch::first(Id([9; 16]), Layout::single(store(1), "a", 1 << 40));
    let mut next = Layout::single(store(2), "b", 1 << 40);
    next.version = 2;
    first.with_next(next)
}

#[test]
fn an_epoch_survives_encoding() {
    let epoch = epoch();
    assert_eq!(Epoch::decode(&epoch.encode()), Ok(epoch.clone()));
    assert_eq!(epoch.number(), 2);
    let replicas = epoch.replicas(PartitionId(7));
    assert_eq!(replicas.len(), 2);
    assert_eq!(replicas[0][0].node, store(1));
    assert_eq!(replicas[1][0].node, store(2));
    let last = epoch.without_oldest().unwrap();
    assert_eq!((last.number(), last.layouts.len()), (3, 1));
    assert_eq!(Epoch::decode(&last.encode()), Ok(last));
}

#[test]
fn an_inconsistent_epoch_is_refused() {
    let mut epoch = epoch();
    let mut layout = (*epoch.layouts[1]).clone();
    layout.assignment[3] = 5;
    epoch.layouts[1] = Arc::new(layout);
    assert!(Epoch::decode(&epoch.encode()).is_err());
    assert!(Epoch::decode(&[]).is_err());
    assert!(Epoch::decode(&[1, 0x80]).is_err());
}

#[test]
fn admissions_survive_encoding_and_end_when_a_layout_has_the_node() {
    let first = Epoch::first(Id([9; 16]), Layout::single(store(1), "a", 1 << 40));
    let node = store(2).node;
    assert!(first.admits(&store(1).node) && !first.admits(&node));
    let admitted = first.admitting(node).unwrap();
    assert_eq!(admitted.number(), 2);
    assert_eq!(Epoch::decode(&admitted.encode()), Ok(admitted.clone()));
    assert!(admitted.admits(&node) && !admitted.has_member(&node));
    assert_eq!(admitted.admitting(node), None);
    let dismissed = admitted.dismissing(&node).unwrap();
    assert!(!dismissed.admits(&node) && dismissed.dismissing(&node).is_none());
    let mut layout = Layout::single(store(2), "b", 1 << 40);
    layout.version = 2;
    let assigned = admitted.with_next(layout);
    assert!(assigned.has_member(&node) && assigned.admitted.is_empty());
    let moved = assigned.without_oldest().unwrap();
    assert!(!moved.admits(&store(1).node));
}
