//! The commits per second of each engine: `cargo test -p archipel-storage --release --test engines
//! speed -- --ignored --nocapture`. The folder is temporary: set `TMPDIR` to the disk to measure.

use std::time::Duration;

use archipel_storage::engine::{Durability, EngineKind, Tree};

use crate::fixture::Fixture;

const KEY_BYTES: usize = 40;
const VALUE_BYTES: usize = 200;
const ROUND: Duration = Duration::from_secs(3);

#[test]
#[ignore = "a measurement"]
fn commits_per_second() {
    for durability in [Durability::Fsync, Durability::Buffered] {
        for puts in [1, 64] {
            for kind in EngineKind::ALL {
                measure(kind, durability, puts);
            }
        }
    }
}

fn measure(kind: EngineKind, durability: Durability, puts: u64) {
    let fixture = Fixture::new(kind);
    let engine = fixture.open();
    let started = now();
    let (mut commits, mut slowest) = (0_u64, Duration::ZERO);
    while started.elapsed() < ROUND {
        let began = now();
        let mut txn = engine.write().unwrap();
        for i in 0..puts {
            txn.put(Tree::Rows, &key(commits * puts + i), &[7; VALUE_BYTES])
                .unwrap();
        }
        txn.commit(durability).unwrap();
        slowest = slowest.max(began.elapsed());
        commits += 1;
    }
    let rate = commits as f64 / started.elapsed().as_secs_f64();
    let total = rate * puts as f64;
    println!(
        "{kind:6} {durability:?}, {puts:2} puts: {rate:8.0} commits/s {total:9.0} puts/s, slowest {slowest:.1?}"
    );
}

// A measurement needs a clock, and no simulation ever runs it.
#[allow(clippy::disallowed_methods)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Returns keys in no order, as hashes are.
fn key(i: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key[8..16].copy_from_slice(&i.to_be_bytes());
    key
}
