//! A metadata disk that is nearly full: growing transactions are refused, shrinking ones run.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::engine::{self, Durability, EngineKind, EngineOptions};
use crate::error::Error;
use crate::store::Transact;

fn store_with_space(free: &Arc<AtomicU64>) -> Store {
    let free = free.clone();
    let mut options = Parts::new().options();
    options.limits.metadata_reserve_bytes = 1000;
    options.metadata_space = Some(Arc::new(move || match free.load(Ordering::SeqCst) {
        u64::MAX => Err(Error::Io("statvfs".into())),
        free => Ok(free),
    }));
    Store::open(options).unwrap()
}

fn write(store: &Store, how: Transact) -> Result<bool> {
    block_on(store.transact(how, |txn| {
        txn.set(&key("a"), &row(1, "metadata"))?;
        Ok(txn.may_grow())
    }))
}

#[test]
fn growing_transactions_are_refused_below_the_reserve() {
    let free = Arc::new(AtomicU64::new(1000));
    let store = store_with_space(&free);
    let grows = Transact::new(Durability::Fsync);
    assert!(write(&store, grows).unwrap());
    free.store(999, Ordering::SeqCst);
    assert!(matches!(write(&store, grows), Err(Error::Full(_))));
    assert!(!write(&store, grows.shrinking()).unwrap());
    assert!(metadata_of(&store, "a").unwrap().is_some());
    assert!(!block_on(store.status()).unwrap().has_room);
    free.store(1000, Ordering::SeqCst);
    assert!(write(&store, grows).unwrap());
}

#[test]
fn an_unknown_free_space_refuses_nothing() {
    let free = Arc::new(AtomicU64::new(u64::MAX));
    let store = store_with_space(&free);
    assert!(write(&store, Transact::new(Durability::Fsync)).unwrap());
}

fn fill_rows(store: &Store, name: &str, how: Transact) -> Result<()> {
    let name = name.to_owned();
    block_on(store.transact(how, move |txn| {
        for i in 0..256 {
            let metadata = format!("{i:0400}");
            txn.set(&key(&format!("{name}/{i}")), &row(1, &metadata))?;
        }
        Ok(())
    }))
}

/// LMDB with its journal: growing transactions are refused early enough that everything can be
/// deleted, and the space can be used again.
#[test]
fn a_nearly_full_map_refuses_growth_and_has_room_for_deletions() {
    let folder = tempfile::tempdir().unwrap();
    let engine_options = EngineOptions {
        map_bytes: Some(16 << 20),
        ..EngineOptions::default()
    };
    let open = || {
        let mut options = Parts::new().options();
        options.engine = engine::open(EngineKind::Lmdb, folder.path(), &engine_options).unwrap();
        Store::open(options).unwrap()
    };
    let grows = Transact::new(Durability::Fsync);
    for _ in 0..2 {
        let store = open();
        let mut filled = 0;
        let refused = loop {
            match fill_rows(&store, &filled.to_string(), grows) {
                Ok(()) => filled += 1,
                Err(error) => break error,
            }
        };
        assert!(filled > 20, "{filled}");
        assert!(
            matches!(&refused, Error::Full(why) if why.contains("metadata_map_size")),
            "{refused:?}"
        );
        assert!(!block_on(store.status()).unwrap().has_room);
        for group in 0..filled {
            block_on(store.transact(grows.shrinking(), move |txn| {
                (0..256).try_for_each(|i| txn.forget(&key(&format!("{group}/{i}"))))
            }))
            .unwrap();
        }
        block_on(store.close()).unwrap();
    }
}
