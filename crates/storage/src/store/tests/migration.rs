//! Migration at the start of a store, with steps that only these tests know.

use std::cell::RefCell;

use super::*;
use crate::engine::memory::Fault;
use crate::engine::{Direction, Durability, Flow, Tree};
use crate::error::Error;
use crate::store::boot::FORMAT;
use crate::store::migrate::{Step, migrate};

const ENTRIES: u8 = 10;

fn format_of(engine: &dyn Engine) -> u64 {
    let txn = engine.read().unwrap();
    let format = txn.get(Tree::Meta, b"format").unwrap().unwrap();
    u64::from_be_bytes(format.as_ref().try_into().unwrap())
}

fn set_format(engine: &dyn Engine, format: u64) {
    let mut txn = engine.write().unwrap();
    txn.put(Tree::Meta, b"format", &format.to_be_bytes())
        .unwrap();
    txn.commit(Durability::Fsync).unwrap();
}

/// Appends `mark` to each entry of the segments' tree that lacks it, one commit each.
fn append(engine: &dyn Engine, mark: u8) -> Result<()> {
    for (key, mut value) in entries(engine) {
        if value.last() != Some(&mark) {
            value.push(mark);
            let mut txn = engine.write()?;
            txn.put(Tree::Segments, &key, &value)?;
            txn.commit(Durability::Buffered)?;
        }
    }
    Ok(())
}

fn entries(engine: &dyn Engine) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut found, all) = (
        Vec::new(),
        (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded),
    );
    let txn = engine.read().unwrap();
    txn.scan(Tree::Segments, all, Direction::Ascending, &mut |k, v| {
        found.push((k.to_vec(), v.to_vec()));
        Ok(Flow::Continue)
    })
    .unwrap();
    found
}

fn old_store() -> Parts {
    let parts = Parts::new();
    block_on(parts.open().close()).unwrap();
    let mut txn = parts.engine.write().unwrap();
    for key in 0..ENTRIES {
        txn.put(Tree::Segments, &[key], &[0]).unwrap();
    }
    txn.commit(Durability::Fsync).unwrap();
    parts
}

/// Each commit of the two steps fails once, and each is followed by a power cut.
#[test]
fn interrupted_steps_run_again_in_order() {
    let commits = 2 * (u64::from(ENTRIES) + 1);
    for after_commits in 0..commits {
        let parts = old_store();
        let engine = &*parts.engine;
        let ran = RefCell::new(Vec::new());
        let step = |mark: u8| {
            let ran = &ran;
            move |engine: &dyn Engine| {
                ran.borrow_mut().push(mark);
                append(engine, mark)
            }
        };
        let run = |first: &dyn Fn(&dyn Engine) -> Result<()>,
                   second: &dyn Fn(&dyn Engine) -> Result<()>| {
            // The order of the list does not matter.
            let steps = [
                Step {
                    from: FORMAT + 1,
                    run: second,
                },
                Step {
                    from: FORMAT,
                    run: first,
                },
            ];
            migrate(engine, FORMAT + 2, &steps)
        };
        engine.inject(Fault {
            after_commits,
            error: Error::Io("a power cut".into()),
        });
        let (first, second) = (step(1), step(2));
        assert!(run(&first, &second).is_err());
        engine.crash();
        let in_second = after_commits > u64::from(ENTRIES);
        assert_eq!(format_of(engine), FORMAT + u64::from(in_second));
        run(&first, &second).unwrap();
        engine.crash();
        assert_eq!(format_of(engine), FORMAT + 2);
        let order = if in_second {
            vec![1, 2, 2]
        } else {
            vec![1, 1, 2]
        };
        assert_eq!(*ran.borrow(), order);
        for (key, value) in entries(engine) {
            assert_eq!(value, [0, 1, 2], "entry {key:?}, failure {after_commits}");
        }
        run(&first, &second).unwrap();
        assert_eq!(ran.borrow().len(), 3, "nothing is left to do");
    }
}

/// The messages name the format found, the one supported, and what to do.
#[test]
fn a_format_without_steps_is_refused_and_unchanged() {
    let never = |_: &dyn Engine| -> Result<()> { panic!("a step ran") };
    let steps = [Step {
        from: FORMAT - 2,
        run: &never,
    }];
    let expected = [
        (
            FORMAT - 2,
            format!("has no step from format {}", FORMAT - 1),
        ),
        (
            FORMAT - 1,
            "start the release that wrote it, or a new store in an empty folder".into(),
        ),
        (
            FORMAT + 1,
            "a newer Archipel wrote it, so start that release or a later one".into(),
        ),
    ];
    for (found, advice) in expected {
        let parts = old_store();
        set_format(&*parts.engine, found);
        let refused = migrate(&*parts.engine, FORMAT, &steps);
        let Err(Error::Refused(why)) = &refused else {
            panic!("{refused:?}");
        };
        let formats = format!("the store has format {found}; this release reads format {FORMAT}");
        assert!(why.contains(&formats) && why.contains(&advice), "{why}");
        assert_eq!(format_of(&*parts.engine), found);
        let opened = Store::open(parts.options()).map(|_| ());
        assert!(matches!(opened, Err(Error::Refused(_))), "{opened:?}");
    }
}

#[test]
fn a_store_without_its_format_number_is_damaged_not_new() {
    let parts = old_store();
    let mut txn = parts.engine.write().unwrap();
    txn.delete(Tree::Meta, b"format").unwrap();
    txn.commit(Durability::Fsync).unwrap();
    let opened = Store::open(parts.options()).map(|_| ());
    assert!(matches!(opened, Err(Error::Damaged(_))), "{opened:?}");
}

/// A store of another node is refused before it is changed.
#[test]
fn a_store_of_another_node_is_not_migrated() {
    let parts = old_store();
    set_format(&*parts.engine, FORMAT - 1);
    let options = StoreOptions {
        identity: Some(Id([8; 16])),
        ..parts.options()
    };
    let refused = Store::open(options).map(|_| ());
    assert!(
        matches!(&refused, Err(Error::Refused(why)) if why.contains("belongs to")),
        "{refused:?}"
    );
}
