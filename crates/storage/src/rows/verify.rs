//! Verification: recomputes all derived data from the rows and compares.
//!
//! It works partition by partition, so memory is bounded by one partition's windows and counters.
//! References to blocks are compared by sums (`references`), and one by one where these differ.

use std::collections::BTreeMap;
use std::ops::Bound;

use archipel_base::{BlockHash, Id, PartitionId, Stamp};

use super::codec::{self, Counter, Part, StoredPayload, StoredRow};
use super::reader::{self, PrefixRange, RowReader};
use super::references::{self, Difference, Ranges};
use super::window::{Granularity, Window, WindowDigest};
use crate::engine::{Direction, Flow, KeyRange, ReadTxn, Result, Tree};
use crate::error::Error;
use crate::row::RowKey;

/// The number of problems that are described one by one.
const MAX_TOLD: usize = 100;
/// The number of blocks that are named because the index lacks them.
const MAX_LACKING: usize = 10_000;
/// The number of damaged rows that are named.
const MAX_DAMAGED: usize = 1_000;
/// The number of hashes that are compared in memory at once, about 100 bytes each.
const MAX_HASHES: u64 = 1 << 19;
/// The number of times that all payloads are read again for blocks that differ. Then enough blocks are
/// named, and the rest is counted by ranges of hashes.
const MAX_PASSES: usize = 64;

/// The result of a verification.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The number of rows that were read: live rows, tombstones and promises.
    pub rows: u64,
    /// The number of references of payloads to blocks.
    pub references: u64,
    /// The number of blocks in the index, with those whose entry is damaged.
    pub blocks: u64,
    /// The number of inconsistencies.
    pub problems: u64,
    /// The first hundred inconsistencies, in words.
    pub told: Vec<String>,
    /// Blocks that payloads mention and that the index lacks or counts too few references of. Repair
    /// restores them. The first ten thousand.
    pub lacking: Vec<BlockHash>,
    /// Blocks of which the index counts more references than payloads make.
    /// [`release_surplus`](super::RowTxn::release_surplus) corrects them. The first ten thousand;
    /// none if a payload is damaged, because that payload may mention them.
    pub surplus: Vec<BlockHash>,
    /// Rows that are damaged, or whose payload is damaged or missing. The first thousand.
    pub damaged: Vec<RowKey>,
}

impl Report {
    /// Returns true if there are no problems.
    pub fn is_clean(&self) -> bool {
        self.problems == 0
    }

    fn add_lacking(&mut self, hash: BlockHash) {
        if self.lacking.len() < MAX_LACKING {
            self.lacking.push(hash);
        }
    }

    /// Adds a block whose counts differ, or that nothing refers to. Unless the payloads are whole, it may
    /// be that a damaged one refers to the block.
    fn add_block(&mut self, block: &Difference, is_whole: bool) {
        let Difference {
            hash,
            wanted,
            counted,
        } = *block;
        let found = counted.unwrap_or(0);
        if found < wanted {
            self.add_lacking(hash);
        } else if found > wanted && is_whole && self.surplus.len() < MAX_LACKING {
            self.surplus.push(hash);
        }
        self.add_problem(|| match counted {
            Some(found) => format!("block {hash}: {found} references, not {wanted}"),
            None => format!("block {hash}: {wanted} references, not in the index"),
        });
    }

    fn add_damaged(&mut self, key: &[u8]) {
        if self.damaged.len() < MAX_DAMAGED
            && let Ok(row) = codec::row_of_key(key)
        {
            self.damaged.push(row);
        }
    }

    fn add_problem(&mut self, what: impl FnOnce() -> String) {
        self.problems += 1;
        if self.told.len() < MAX_TOLD {
            self.told.push(what());
        }
    }
}

impl RowReader<'_> {
    /// Recomputes all derived data and compares. Reads everything.
    ///
    /// # Errors
    /// [`Error::Newer`] if a newer release wrote a value. The references of that value are unknown,
    /// so nothing could be said of the rest.
    pub fn verify(&self) -> Result<Report> {
        self.verify_with(&mut |_| {})
    }

    /// Does the same and calls `progress` after each partition.
    pub fn verify_with(&self, progress: &mut dyn FnMut(PartitionId)) -> Result<Report> {
        let mut verifier = Verifier {
            txn: self.txn(),
            report: Report::default(),
            references: Ranges::new(),
        };
        let mut next = verifier.partition_from(0)?;
        while let Some(partition) = next {
            verifier.check_partition(partition)?;
            progress(partition);
            next = match partition.0.checked_add(1) {
                Some(following) => verifier.partition_from(following)?,
                None => None,
            };
        }
        verifier.check_blocks()?;
        Ok(verifier.report)
    }
}

struct Verifier<'t> {
    txn: &'t dyn ReadTxn,
    report: Report,
    /// The references of payloads, less those that the index counts.
    references: Ranges,
}

/// The derived data that a partition's rows should have.
#[derive(Default)]
struct Expected {
    windows: BTreeMap<Vec<u8>, Window>,
    counters: BTreeMap<Vec<u8>, Counter>,
    written: u64,
    payloads: u64,
}

impl Verifier<'_> {
    /// Returns the first partition at or after `first` that has an entry in any tree.
    fn partition_from(&self, first: u16) -> Result<Option<PartitionId>> {
        let from = first.to_be_bytes();
        let range: KeyRange<'_> = (Bound::Included(&from), Bound::Unbounded);
        let mut lowest: Option<PartitionId> = None;
        for tree in [Tree::Rows, Tree::Payloads, Tree::Derived] {
            self.txn
                .scan(tree, range, Direction::Ascending, &mut |key, _| {
                    let (found, _) = codec::split_partition(key)?;
                    lowest = Some(lowest.map_or(found, |lowest| lowest.min(found)));
                    Ok(Flow::Stop)
                })?;
        }
        Ok(lowest)
    }

    fn check_partition(&mut self, partition: PartitionId) -> Result<()> {
        let mut expected = Expected::default();
        let (txn, range) = (self.txn, PrefixRange::new(partition, &[], Bound::Unbounded));
        txn.scan(
            Tree::Rows,
            range.bounds(),
            Direction::Ascending,
            &mut |key, value| {
                match codec::decode_metadata(key, value) {
                    Ok(row) => self.check_row(partition, key, &row, &mut expected)?,
                    Err(error) => self.note_damaged(key, error)?,
                }
                Ok(Flow::Continue)
            },
        )?;
        let payloads = self.count(Tree::Payloads, &range)?;
        self.compare_count("payloads", payloads, expected.payloads);
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
        self.compare_count("log", log, expected.written);
        self.compare_count("derived, of no part", of_no_part, 0);
        self.check_derived(
            partition,
            Part::Windows,
            expected.windows,
            codec::decode_window,
        )?;
        self.check_derived(
            partition,
            Part::Counters,
            expected.counters,
            codec::decode_counter,
        )
    }

    fn check_row(
        &mut self,
        partition: PartitionId,
        key: &[u8],
        row: &StoredRow,
        expected: &mut Expected,
    ) -> Result<()> {
        self.report.rows += 1;
        let (_, row_key) = codec::split_partition(key)?;
        if row.metadata.is_some() && row.stamp == Stamp::ZERO {
            self.report
                .add_problem(|| format!("{}: a value without a stamp", describe(key)));
        }
        if row.stamp != Stamp::ZERO {
            expected.written += 1;
            let log_key = codec::log_key(partition, row.stamp, row_key);
            if self.txn.get(Tree::Derived, &log_key)?.is_none() {
                self.report
                    .add_problem(|| format!("{}: not in the log at {}", describe(key), row.stamp));
            }
            expected.add_to_windows(partition, row_key, row.stamp);
        }
        if let Some(usage) = row.usage {
            let counter = expected.counter(partition, usage.group);
            counter.objects += u64::from(usage.objects);
            counter.bytes += usage.bytes;
        }
        if row.payload == StoredPayload::Apart {
            expected.payloads += 1;
            self.check_payload(key, row.stamp)?;
        }
        Ok(())
    }

    /// Notes a row that is damaged, or whose payload is. Any other error ends the verification.
    fn note_damaged(&mut self, key: &[u8], error: Error) -> Result<()> {
        let Error::Damaged(_) = error else {
            return Err(error);
        };
        self.report.add_damaged(key);
        self.report
            .add_problem(|| format!("{}: {error}", describe(key)));
        Ok(())
    }

    fn check_payload(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        let payload = match reader::stored_payload(self.txn, key, stamp) {
            Ok(payload) => payload,
            Err(error) => return self.note_damaged(key, error),
        };
        for block in payload.blocks() {
            self.report.references += 1;
            self.references.add_mention(&block.hash);
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

    /// Compares two counts. Each row accounts for one entry, so a difference shows entries without
    /// rows.
    fn compare_count(&mut self, what: &str, found: u64, expected: u64) {
        if found != expected {
            self.report
                .add_problem(|| format!("{what}: {found} entries, the rows make {expected}"));
        }
    }

    fn check_derived<T: PartialEq + std::fmt::Debug + Default>(
        &mut self,
        partition: PartitionId,
        part: Part,
        mut expected: BTreeMap<Vec<u8>, T>,
        decode: impl Fn(&[u8], &[u8]) -> Result<T>,
    ) -> Result<()> {
        // A value of zero has no entry.
        expected.retain(|_, value| *value != T::default());
        let report = &mut self.report;
        let (what, range) = (part.name(), part_range(partition, part));
        self.txn.scan(
            Tree::Derived,
            range.bounds(),
            Direction::Ascending,
            &mut |key, value| {
                let wanted = expected.remove(key);
                let found = match decode(key, value) {
                    Ok(found) => found,
                    Err(error @ Error::Newer(_)) => return Err(error),
                    Err(error) => {
                        report.add_problem(|| format!("{what} {}: {error}", hex::encode(key)));
                        return Ok(Flow::Continue);
                    }
                };
                if wanted.as_ref() != Some(&found) {
                    report.add_problem(|| {
                        format!("{what} {}: {found:?}, not {wanted:?}", hex::encode(key))
                    });
                }
                Ok(Flow::Continue)
            },
        )?;
        for (key, wanted) in expected {
            self.report
                .add_problem(|| format!("{what} {}: missing, not {wanted:?}", hex::encode(key)));
        }
        Ok(())
    }

    /// Checks that each block of the index has exactly the references that payloads make.
    fn check_blocks(&mut self) -> Result<()> {
        let (report, references) = (&mut self.report, &mut self.references);
        crate::blocks::scan_references(self.txn, &(0..=u16::MAX), &mut |key, entry| {
            report.blocks += 1;
            match entry {
                Ok((hash, counted)) => references.subtract_counted(&hash, counted),
                Err(error @ Error::Damaged(_)) => report.add_problem(|| {
                    let block = hex::encode(key);
                    format!("block {block}: {error}; fix: archipel metadata rebuild-blocks")
                }),
                Err(error) => return Err(error),
            }
            Ok(Flow::Continue)
        })?;
        let is_whole = report.damaged.is_empty();
        let differing = references.differing(MAX_HASHES);
        let passes = differing.len().min(MAX_PASSES);
        let (compared, rest) = differing.split_at(passes);
        for part in compared {
            references::compare(self.txn, part, &mut |difference| {
                report.add_block(&difference, is_whole);
            })?;
        }
        for part in rest {
            let (from, to) = (part.start(), part.end());
            report.add_problem(|| {
                format!("blocks {from:04x} to {to:04x}: references differ, too many to name")
            });
        }
        crate::blocks::check_locations(self.txn, report.blocks, &mut |what| {
            report.add_problem(|| what)
        })
    }
}

impl Expected {
    fn add_to_windows(&mut self, partition: PartitionId, key: &[u8], stamp: Stamp) {
        for granularity in Granularity::ALL {
            let number = granularity.window_of(stamp);
            let entry = codec::window_key(partition, granularity, number);
            let window = self.windows.entry(entry).or_default();
            window.rows += 1;
            window.digest.toggle(WindowDigest::of(key, stamp));
        }
    }

    fn counter(&mut self, partition: PartitionId, group: Id) -> &mut Counter {
        let entry = codec::counter_key(partition, group);
        self.counters.entry(entry).or_default()
    }
}

fn part_range(partition: PartitionId, part: Part) -> PrefixRange {
    PrefixRange::new(partition, &[part as u8], Bound::Unbounded)
}

fn describe(key: &[u8]) -> String {
    match codec::split_partition(key) {
        Ok((partition, key)) => format!("row {partition}/{}", key.escape_ascii()),
        Err(_) => format!("row {}", hex::encode(key)),
    }
}
