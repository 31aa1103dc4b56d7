//! Verification: recomputes from the rows all that is derived from them, and compares.
//!
//! Partition by partition, so memory is bounded by one partition's windows and counters; besides
//! those, the references of all blocks are counted in memory (about 50 bytes a block).

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use archipel_base::{BlockHash, Id, PartitionId, Stamp};

use super::codec::{self, Counter, Part, StoredBody, StoredRow};
use super::reader::{self, PrefixRange, RowReader};
use super::window::{Fingerprint, Granularity, Window};
use crate::engine::{Direction, Flow, KeyRange, ReadTxn, Result, Tree};
use crate::row::{Body, RowKey};

/// How many problems are told one by one.
const MAX_TOLD: usize = 100;
/// How many blocks are named that the index lacks.
const MAX_LACKING: usize = 10_000;
/// How many damaged rows are named.
const MAX_DAMAGED: usize = 1_000;

/// What a verification found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Rows looked at: live ones, tombstones and promises.
    pub rows: u64,
    /// References of bodies to blocks.
    pub references: u64,
    /// Blocks in the index.
    pub blocks: u64,
    /// How many inconsistencies there are.
    pub problems: u64,
    /// The first hundred of them, in words.
    pub told: Vec<String>,
    /// Blocks that bodies mention and the index does not have, or counts too few references of: what mending
    /// restores. The first ten thousand.
    pub lacking: Vec<BlockHash>,
    /// Blocks of which the index counts more references than bodies make: what
    /// [`release_surplus`](super::RowTxn::release_surplus) corrects. The first ten thousand; none if a body is damaged, which may mention them.
    pub surplus: Vec<BlockHash>,
    /// Rows that are damaged, or whose body is or is missing. The first thousand.
    pub damaged: Vec<RowKey>,
}

impl Report {
    /// Whether all is as it should be.
    pub fn is_clean(&self) -> bool {
        self.problems == 0
    }

    fn lacks(&mut self, hash: BlockHash) {
        if self.lacking.len() < MAX_LACKING {
            self.lacking.push(hash);
        }
    }

    fn damaged(&mut self, key: &[u8]) {
        if self.damaged.len() < MAX_DAMAGED
            && let Ok(row) = codec::row_of_key(key)
        {
            self.damaged.push(row);
        }
    }

    fn problem(&mut self, what: impl FnOnce() -> String) {
        self.problems += 1;
        if self.told.len() < MAX_TOLD {
            self.told.push(what());
        }
    }
}

impl RowReader<'_> {
    /// Recomputes all that is derived and compares. Reads everything.
    pub fn verify(&self) -> Result<Report> {
        self.verify_with(&mut |_| {})
    }

    /// The same; tells each partition once it is done.
    pub fn verify_with(&self, progress: &mut dyn FnMut(PartitionId)) -> Result<Report> {
        let mut verifier = Verifier {
            txn: self.txn(),
            report: Report::default(),
            references: HashMap::new(),
        };
        let mut next = verifier.partition_from(0)?;
        while let Some(partition) = next {
            verifier.partition(partition)?;
            progress(partition);
            next = match partition.0.checked_add(1) {
                Some(following) => verifier.partition_from(following)?,
                None => None,
            };
        }
        verifier.blocks()?;
        Ok(verifier.report)
    }

    /// The rows of a partition that are damaged, or whose body is or is missing, and how many bytes were read for that: all of them.
    pub fn damaged_rows(&self, partition: PartitionId) -> Result<(Vec<RowKey>, u64)> {
        let range = PrefixRange::new(partition, &[], Bound::Unbounded);
        let (txn, mut damaged, mut bytes) = (self.txn(), Vec::new(), 0);
        txn.scan(
            Tree::Rows,
            range.bounds(),
            Direction::Ascending,
            &mut |key, value| {
                bytes += value.len() as u64;
                let is_whole = match codec::decode_head(value) {
                    Ok(row) if row.body == StoredBody::Apart => {
                        let body = txn.get(Tree::Bodies, key)?;
                        bytes += body.as_ref().map_or(0, |body| body.len() as u64);
                        body.is_some_and(|body| codec::decode_body(&body).is_ok())
                    }
                    row => row.is_ok(),
                };
                if !is_whole {
                    damaged.push(codec::row_of_key(key)?);
                }
                Ok(Flow::Continue)
            },
        )?;
        Ok((damaged, bytes))
    }
}

struct Verifier<'t> {
    txn: &'t dyn ReadTxn,
    report: Report,
    /// How often bodies mention each block.
    references: HashMap<BlockHash, u64>,
}

/// What a partition's rows lead to.
#[derive(Default)]
struct Expected {
    windows: BTreeMap<Vec<u8>, Window>,
    counters: BTreeMap<Vec<u8>, Counter>,
    written: u64,
    bodies: u64,
}

impl Verifier<'_> {
    /// The first partition from `first` on that any tree has an entry of.
    fn partition_from(&self, first: u16) -> Result<Option<PartitionId>> {
        let from = first.to_be_bytes();
        let range: KeyRange<'_> = (Bound::Included(&from), Bound::Unbounded);
        let mut lowest: Option<PartitionId> = None;
        for tree in [Tree::Rows, Tree::Bodies, Tree::Derived] {
            self.txn
                .scan(tree, range, Direction::Ascending, &mut |key, _| {
                    let (found, _) = codec::split_partition(key)?;
                    lowest = Some(lowest.map_or(found, |lowest| lowest.min(found)));
                    Ok(Flow::Stop)
                })?;
        }
        Ok(lowest)
    }

    fn partition(&mut self, partition: PartitionId) -> Result<()> {
        let mut expected = Expected::default();
        let (txn, range) = (self.txn, PrefixRange::new(partition, &[], Bound::Unbounded));
        txn.scan(
            Tree::Rows,
            range.bounds(),
            Direction::Ascending,
            &mut |key, value| {
                match codec::decode_head(value) {
                    Ok(row) => self.row(partition, key, &row, &mut expected)?,
                    Err(error) => {
                        self.report.damaged(key);
                        self.report.problem(|| format!("{}: {error}", name(key)));
                    }
                }
                Ok(Flow::Continue)
            },
        )?;
        let bodies = self.count(Tree::Bodies, &range)?;
        self.counted("bodies", bodies, expected.bodies);
        let (mut log, mut of_no_part) = (0, 0);
        txn.scan(
            Tree::Derived,
            range.bounds(),
            Direction::Ascending,
            &mut |key, _| {
                match Part::of(key) {
                    Some(Part::Log) => log += 1,
                    Some(Part::Windows | Part::Counters) => {}
                    None => of_no_part += 1,
                }
                Ok(Flow::Continue)
            },
        )?;
        self.counted("log", log, expected.written);
        self.counted("derived, of no part", of_no_part, 0);
        self.derived(
            partition,
            Part::Windows,
            expected.windows,
            codec::decode_window,
        )?;
        self.derived(
            partition,
            Part::Counters,
            expected.counters,
            codec::decode_counter,
        )
    }

    fn row(
        &mut self,
        partition: PartitionId,
        key: &[u8],
        row: &StoredRow,
        expected: &mut Expected,
    ) -> Result<()> {
        self.report.rows += 1;
        let (_, row_key) = codec::split_partition(key)?;
        if row.head.is_some() && row.stamp == Stamp::ZERO {
            self.report
                .problem(|| format!("{}: a value without a stamp", name(key)));
        }
        if row.stamp != Stamp::ZERO {
            expected.written += 1;
            let log_key = codec::log_key(partition, row.stamp, row_key);
            if self.txn.get(Tree::Derived, &log_key)?.is_none() {
                self.report
                    .problem(|| format!("{}: not in the log at {}", name(key), row.stamp));
            }
            expected.add_to_windows(partition, row_key, row.stamp);
        }
        if let Some(tally) = row.tally {
            let counter = expected.counter(partition, tally.group);
            counter.objects += u64::from(tally.objects);
            counter.bytes += tally.bytes;
        }
        if row.body == StoredBody::Apart {
            expected.bodies += 1;
            self.body(key)?;
        }
        Ok(())
    }

    fn body(&mut self, key: &[u8]) -> Result<()> {
        let body = reader::stored_body(self.txn, key).unwrap_or_else(|error| {
            self.report.damaged(key);
            self.report.problem(|| format!("{}: {error}", name(key)));
            Body::Empty
        });
        for block in body.blocks() {
            self.report.references += 1;
            *self.references.entry(block.hash).or_default() += 1;
        }
        Ok(())
    }

    fn count(&self, tree: Tree, range: &PrefixRange) -> Result<u64> {
        let mut found = 0;
        let bounds = range.bounds();
        self.txn
            .scan(tree, bounds, Direction::Ascending, &mut |_, _| {
                found += 1;
                Ok(Flow::Continue)
            })?;
        Ok(found)
    }

    /// Each row accounts for one entry, so a different number means that there are strays.
    fn counted(&mut self, what: &str, found: u64, expected: u64) {
        if found != expected {
            self.report
                .problem(|| format!("{what}: {found} entries, the rows make {expected}"));
        }
    }

    fn derived<T: PartialEq + std::fmt::Debug + Default>(
        &mut self,
        partition: PartitionId,
        part: Part,
        mut expected: BTreeMap<Vec<u8>, T>,
        decode: impl Fn(&[u8]) -> Result<T>,
    ) -> Result<()> {
        // What is nothing has no entry.
        expected.retain(|_, value| *value != T::default());
        let report = &mut self.report;
        let (what, range) = (part.name(), of(partition, part));
        self.txn.scan(
            Tree::Derived,
            range.bounds(),
            Direction::Ascending,
            &mut |key, value| {
                let wanted = expected.remove(key);
                let found = match decode(value) {
                    Ok(found) => found,
                    Err(error) => {
                        report.problem(|| format!("{what} {}: {error}", hex::encode(key)));
                        return Ok(Flow::Continue);
                    }
                };
                if wanted.as_ref() != Some(&found) {
                    report.problem(|| {
                        format!("{what} {}: {found:?}, not {wanted:?}", hex::encode(key))
                    });
                }
                Ok(Flow::Continue)
            },
        )?;
        for (key, wanted) in expected {
            self.report
                .problem(|| format!("{what} {}: missing, not {wanted:?}", hex::encode(key)));
        }
        Ok(())
    }

    /// Each block of the index has exactly the references that bodies make.
    fn blocks(&mut self) -> Result<()> {
        let (report, references) = (&mut self.report, &mut self.references);
        let is_whole = report.damaged.is_empty();
        crate::blocks::scan_references(self.txn, &mut |hash, found| {
            report.blocks += 1;
            let wanted = references.remove(&hash).unwrap_or(0);
            if found < wanted {
                report.lacks(hash);
            } else if found > wanted && is_whole && report.surplus.len() < MAX_LACKING {
                report.surplus.push(hash);
            }
            if found != wanted || wanted == 0 {
                report.problem(|| format!("block {hash}: {found} references, not {wanted}"));
            }
            Ok(Flow::Continue)
        })?;
        let mut left: Vec<_> = self.references.drain().collect();
        left.sort_unstable();
        for (hash, wanted) in left {
            self.report.lacks(hash);
            self.report
                .problem(|| format!("block {hash}: {wanted} references, not in the index"));
        }
        let report = &mut self.report;
        crate::blocks::check_places(self.txn, report.blocks, &mut |what| report.problem(|| what))
    }
}

impl Expected {
    fn add_to_windows(&mut self, partition: PartitionId, key: &[u8], stamp: Stamp) {
        for granularity in Granularity::ALL {
            let number = granularity.window_of(stamp);
            let entry = codec::window_key(partition, granularity, number);
            let window = self.windows.entry(entry).or_default();
            window.rows += 1;
            window.fingerprint.toggle(Fingerprint::of(key, stamp));
        }
    }

    fn counter(&mut self, partition: PartitionId, group: Id) -> &mut Counter {
        let entry = codec::counter_key(partition, group);
        self.counters.entry(entry).or_default()
    }
}

fn of(partition: PartitionId, part: Part) -> PrefixRange {
    PrefixRange::new(partition, &[part as u8], Bound::Unbounded)
}

fn name(key: &[u8]) -> String {
    match codec::split_partition(key) {
        Ok((partition, key)) => format!("row {partition}/{}", key.escape_ascii()),
        Err(_) => format!("row {}", hex::encode(key)),
    }
}
