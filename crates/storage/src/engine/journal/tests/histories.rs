//! Random histories: commits, checkpoints, faults, killed processes, power cuts.

use super::segments::check_segments;
use super::*;

/// A random history. `states` are the contents after each commit from the last durable one on: a
/// power cut may leave any of them.
struct History<'r> {
    world: World,
    engine: Option<Journaled>,
    states: Vec<Map>,
    random: &'r SeededRandom,
}

impl History<'_> {
    fn engine(&self) -> &Journaled {
        self.engine.as_ref().unwrap()
    }

    fn now(&self) -> &Map {
        self.states.last().unwrap()
    }

    fn mark_durable(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    fn commit(&mut self) {
        let mut next = self.now().clone();
        let durability = match below_u64(self.random, 3) {
            0 => Durability::Buffered,
            _ => Durability::Fsync,
        };
        let outcome = (|| {
            let mut txn = self.engine().write()?;
            for _ in 0..below_u64(self.random, 6) {
                let tree = Tree::ALL[below_u64(self.random, 3) as usize];
                let key =
                    vec![below_u64(self.random, 24) as u8; 1 + self.random.next_u64() as usize % 3];
                if below_u64(self.random, 3) == 0 {
                    let found = next.remove(&(tree, key.clone())).is_some();
                    assert_eq!(txn.delete(tree, &key)?, found);
                } else {
                    let value =
                        vec![self.random.next_u64() as u8; below_u64(self.random, 3000) as usize];
                    txn.put(tree, &key, &value)?;
                    next.insert((tree, key), value);
                }
            }
            txn.commit(durability)
        })();
        match outcome {
            Ok(()) => {
                self.states.push(next);
                if durability == Durability::Fsync {
                    self.mark_durable();
                }
            }
            // It happened or not, and only a restart tells.
            Err(Error::Failed(_)) => {
                self.states.push(next);
                self.power_cut();
            }
            Err(_) => {}
        }
    }

    fn sync(&mut self) {
        match self.engine().sync() {
            Ok(()) => self.mark_durable(),
            Err(_) => self.power_cut(),
        }
    }

    fn checkpoint(&mut self) {
        let mut tail = self.engine().core.tail.lock();
        let frozen = self.engine().core.freeze(&mut tail);
        drop(tail);
        let done = frozen.and_then(|_| self.engine().core.checkpoint());
        if matches!(done, Err(Error::Failed(_))) {
            self.power_cut();
        } else {
            self.engine().core.free_space();
        }
    }

    fn inject(&self) {
        if below_u64(self.random, 2) == 0 {
            self.world.below.inject(Fault {
                after_commits: below_u64(self.random, 4),
                error: match below_u64(self.random, 3) {
                    0 => Error::Failed("injected".into()),
                    1 => Error::Full("injected".into()),
                    _ => Error::Io("injected".into()),
                },
            });
        } else {
            self.world.disk.inject(DiskFault {
                op: [Some(DiskOp::Write), Some(DiskOp::Sync), None]
                    [below_u64(self.random, 3) as usize],
                after: below_u64(self.random, 6),
                errno: [libc::EIO, libc::ENOSPC][below_u64(self.random, 2) as usize],
            });
        }
    }

    fn power_cut(&mut self) {
        self.world
            .power_cut(self.engine.take().unwrap(), self.random);
        self.reopen();
    }

    /// Opens the journal after its end. Its content must be one of the possible states.
    fn reopen(&mut self) {
        self.world.disk.clear_fault();
        let engine = match self.world.try_open() {
            // A fault of the engine below may still be due. The start is repeated.
            Err(_) => {
                self.world.disk.crash(Some(self.random));
                self.world.below.crash_keeping(self.random);
                self.world.open()
            }
            Ok(engine) => engine,
        };
        let found = contents(&engine);
        let Some(state) = self.states.iter().find(|state| **state == found) else {
            panic!(
                "{} entries are none of {} possible states",
                found.len(),
                self.states.len()
            );
        };
        self.states = vec![state.clone()];
        check_segments(&engine);
        self.engine = Some(engine);
    }

    fn step(&mut self) {
        match below_u64(self.random, 24) {
            0..12 => self.commit(),
            12..14 => self.sync(),
            14..17 => self.checkpoint(),
            17..19 => self.inject(),
            19 => self.power_cut(),
            20 => {
                // The kernel has what a killed process wrote.
                World::kill(self.engine.take().unwrap());
                self.world.below.inject(never());
                self.states.drain(..self.states.len() - 1);
                self.reopen();
            }
            21 => {
                drop(self.engine.take());
                self.reopen();
            }
            _ => {
                self.world.disk.clear_fault();
                assert!(contents(self.engine()) == *self.now());
                check_segments(self.engine());
            }
        }
    }
}

#[test]
fn random_histories_lose_nothing_that_was_synced() {
    let mut moved = 0;
    for seed in 0..150 {
        let random = &SeededRandom::new(seed);
        let world = World::new(JournalLimits {
            rest: Duration::ZERO,
            memory_bytes: 1000 + below_u64(random, 20_000) as usize,
            batch_bytes: 100 + below_u64(random, 8000) as usize,
            file_bytes: 1 << 20,
            growth_bytes: GROWTH_BYTES,
            segment_bytes: 2000 + below_u64(random, 20_000),
            idle: Duration::MAX,
        });
        let mut history = History {
            engine: Some(world.open()),
            world,
            states: vec![Map::new()],
            random,
        };
        let steps = std::panic::AssertUnwindSafe(|| (0..120).for_each(|_| history.step()));
        if let Err(panic) = std::panic::catch_unwind(steps) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
        moved += history.engine().core.moved.load(Ordering::Relaxed);
    }
    assert!(moved > 0, "no history moved a value");
}
