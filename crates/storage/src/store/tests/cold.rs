//! Waits of the committer for the disk.

use std::cell::Cell;

use super::*;
use crate::engine::Durability;
use crate::rows::RowTxn;
use crate::store::batch::Core;
use crate::store::job::{Call, Job};
use crate::store::read_path::ReadPath;

thread_local! {
    static WAITS: Cell<u64> = const { Cell::new(0) };
}

/// Runs a batch of one transaction that waits for the disk so often.
fn run(core: &Core, waits: u64) {
    let closure = move |_: &mut RowTxn<'_>| {
        WAITS.set(WAITS.get() + waits);
        Ok(())
    };
    let (call, _answer) = Call::new(Durability::Fsync.into(), closure);
    let mut jobs: Vec<Box<dyn Job>> = vec![Box::new(call)];
    core.run(&mut || jobs.pop());
}

/// While the store is cold, other threads read the rows of transactions before the committer does.
#[test]
fn batch_that_waits_for_the_disk_makes_the_store_cold() {
    let parts = Parts::new();
    let store = parts.open();
    let of_store = &store.0.core;
    let mut core = Core::new(
        of_store.engine.clone(),
        of_store.blocks.clone(),
        of_store.clock.clone(),
        None,
        Limits::default(),
    );
    core.read_path = ReadPath::counting(|| WAITS.get());
    run(&core, 0);
    assert!(!core.read_path.is_cold());
    run(&core, 1);
    assert!(core.read_path.is_cold());
}
