//! The steps of a random run, and the contents in it.

use proptest::prelude::*;

use super::*;

const CONTENTS: u64 = 10;
pub const DISKS: usize = 2;

#[derive(Clone, Debug)]
pub enum Step {
    /// Uploads contents.
    BlockAppender(Vec<u64>),
    /// Drops an upload.
    Abort(usize),
    /// Commits one transaction: a row refers to an upload's blocks, and rows release contents.
    Commit {
        upload: Option<usize>,
        release: Vec<u64>,
        durable: bool,
        roll_back: bool,
    },
    /// Makes buffered commits durable.
    Sync,
    Pin(Vec<u64>),
    Unpin(usize),
    /// Drains a disk for some steps, then lets it take blocks again.
    Drain(u16),
    Scrub,
    /// Simulates a power cut. Unsynced blocks are lost or torn, and the first few unsynced commits
    /// survive.
    Crash(Option<u64>, usize),
    /// Kills the process. All writes survive. The next one collects garbage before it serves.
    Kill,
    /// Kills the process. The next one serves first.
    KillAndServe,
    /// Runs some batches of the garbage collection, or begins one.
    StartupGc(usize),
    /// Closes and opens the store.
    Restart,
}

pub fn step() -> impl Strategy<Value = Step> {
    let contents = || prop::collection::vec(0..CONTENTS, 1..4);
    let commit = (
        prop::option::weighted(0.8, 0..4usize),
        prop::collection::vec(0..CONTENTS, 0..3),
        prop::bool::weighted(0.6),
        prop::bool::weighted(0.15),
    );
    prop_oneof![
        6 => contents().prop_map(Step::BlockAppender),
        1 => (0..4usize).prop_map(Step::Abort),
        8 => commit.prop_map(|(upload, release, durable, roll_back)| {
            Step::Commit { upload, release, durable, roll_back }
        }),
        1 => Just(Step::Sync),
        2 => contents().prop_map(Step::Pin),
        2 => (0..4usize).prop_map(Step::Unpin),
        1 => (1..=DISKS as u16).prop_map(Step::Drain),
        1 => Just(Step::Scrub),
        2 => (prop::option::of(any::<u64>()), 0..4usize)
            .prop_map(|(torn, kept)| Step::Crash(torn, kept)),
        1 => Just(Step::Kill),
        1 => Just(Step::KillAndServe),
        3 => (1..6usize).prop_map(Step::StartupGc),
        1 => Just(Step::Restart),
    ]
}

/// Returns content of various sizes: tiny, a page, several pages, compressible.
pub fn content(number: u64) -> Bytes {
    match number % 5 {
        0 => noise(number, 1 + number as usize),
        1 => noise(number, 4096 - 64),
        2 => noise(number, 13_000),
        3 => text(number, 20_000),
        _ => noise(number, 30_000),
    }
}

pub fn block(number: u64) -> BlockRef {
    let content = content(number);
    BlockRef {
        hash: BlockHash::of(&content),
        len: content.len() as u32,
    }
}
