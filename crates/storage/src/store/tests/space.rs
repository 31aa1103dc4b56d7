//! A metadata disk that is nearly full: growing transactions are refused, shrinking ones run.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::engine::Durability;
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
