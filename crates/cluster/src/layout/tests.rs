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
