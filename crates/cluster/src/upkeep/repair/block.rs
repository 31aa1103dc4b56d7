//! Repairing one block: which rows refer to it, whether they need it, where a good copy is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use archipel_base::{BlockHash, PartitionId};
use archipel_net::Class;
use archipel_storage as storage;
use archipel_storage::engine::Durability;
use archipel_storage::rows::Mention;
use archipel_storage::store::Transact;
use archipel_storage::{RowReader, RowTxn};
use bytes::Bytes;

use super::{Outcome, RepairRound, Trouble};
use crate::data::block_reader::BlockStream;
use crate::error::Error;
use crate::upkeep::Upkeep;

/// The rows of blocks.
pub(super) struct FoundRows {
    pub mentions: BTreeMap<BlockHash, Mention>,
    /// Blocks that no row refers to.
    pub unneeded: Vec<BlockHash>,
    /// Blocks with references in the index, although no row that can be read refers to them. The
    /// payload of their row is damaged, or the index counts too many.
    pub unknown: Vec<BlockHash>,
}

/// Returns true if the index counts references of a block, or if its entry is damaged.
fn is_counted(rows: &RowReader<'_>, hash: &BlockHash) -> Result<bool, storage::Error> {
    match rows.references(hash) {
        Err(storage::Error::Damaged(_)) => Ok(true),
        references => Ok(references? > 0),
    }
}

impl Upkeep {
    /// Looks up the rows of the blocks that are due.
    pub(super) async fn find_rows(
        &self,
        due: &[(BlockHash, Option<PartitionId>)],
    ) -> Result<FoundRows, Error> {
        let mut places: BTreeMap<PartitionId, BTreeSet<BlockHash>> = BTreeMap::new();
        for (hash, partition) in due {
            if let Some(partition) = partition {
                places.entry(*partition).or_default().insert(*hash);
            }
        }
        let all: BTreeSet<BlockHash> = due.iter().map(|(hash, _)| *hash).collect();
        // If a block is missing, if no row of the searched partition refers to it, and if the index
        // counts no reference, then nobody needs it: a row was replaced.
        let is_searched = |(hash, partition): &&(BlockHash, Option<PartitionId>)| {
            partition.is_none() || self.store().blocks().is_damaged(hash)
        };
        let searched: BTreeSet<_> = due.iter().filter(is_searched).map(|due| due.0).collect();
        let find = move |rows: &RowReader<'_>| {
            let mut found = BTreeMap::new();
            for (partition, wanted) in places {
                found.append(&mut rows.mentions(Some(partition), &wanted)?);
            }
            let mut counted = BTreeSet::new();
            for hash in all.iter().filter(|hash| !found.contains_key(hash)) {
                if is_counted(rows, hash)? {
                    counted.insert(*hash);
                }
            }
            let left = all.iter().filter(|hash| {
                !found.contains_key(hash) && (searched.contains(hash) || counted.contains(hash))
            });
            let left: BTreeSet<BlockHash> = left.copied().collect();
            if !left.is_empty() {
                found.append(&mut rows.mentions(None, &left)?);
            }
            let lost = all.into_iter().filter(|hash| !found.contains_key(hash));
            let (unknown, unneeded) = lost.partition(|hash| counted.contains(hash));
            Ok(FoundRows {
                mentions: found,
                unneeded,
                unknown,
            })
        };
        Ok(self.store().read(find).await?)
    }

    /// Replaces a block by a good copy, if it needs one.
    pub(super) async fn repair_block(
        self: &Arc<Upkeep>,
        mention: &Mention,
    ) -> Result<Outcome, Error> {
        let block = mention.block;
        let store = self.store();
        let _pin = store.pin(&[block]);
        let lacks_references = self.lacks_references(mention).await?;
        let content = match store.read_block(&block).await {
            Ok(_) if !lacks_references && !store.blocks().is_damaged(&block.hash) => {
                return Ok(Outcome::Settled);
            }
            // Only the header of the record is damaged: the content is good.
            Ok(content) => content,
            Err(storage::Error::Damaged(_) | storage::Error::NoBlock(_)) => {
                self.fetch_from_others(mention).await?
            }
            Err(error) => return Err(error.into()),
        };
        let upload = store.appender();
        upload.append(content).await?;
        upload.sync().await?;
        if lacks_references {
            let restore = move |txn: &mut RowTxn<'_>| txn.restore_references(&[block]);
            let how = Transact::new(Durability::Fsync).bounded();
            store.transact(how, restore).await?;
        }
        store.read_block(&block).await?;
        Ok(Outcome::RepairRound)
    }

    /// Returns true if the index counts fewer references than rows make.
    async fn lacks_references(&self, mention: &Mention) -> Result<bool, Error> {
        let (hash, wanted) = (mention.block.hash, mention.times);
        let count = move |rows: &RowReader<'_>| Ok(rows.references(&hash)? < wanted);
        Ok(self.store().read(count).await?)
    }

    /// Fetches a block's content from another replica of one of its rows' partitions.
    async fn fetch_from_others(self: &Arc<Upkeep>, mention: &Mention) -> Result<Bytes, Error> {
        let mut partitions: Vec<_> = mention.rows.iter().map(|row| row.partition).collect();
        partitions.dedup();
        let mut why = Error::Unavailable("no row refers to it".into());
        for partition in partitions {
            let blocks = vec![mention.block];
            let stream = BlockStream::new(Arc::clone(self), partition, blocks, false);
            let mut stream = stream.in_class(Some(Class::Background));
            match stream.next().await {
                Some(Ok(content)) => return Ok(content),
                Some(Err(error)) => why = error,
                None => {}
            }
        }
        Err(why)
    }

    /// Asks for a comparison soon. A block that no other replica has may belong to a row that was
    /// replaced there and that this replica missed.
    fn compare_soon(&self, mention: &Mention) {
        for row in &mention.rows {
            let members = self.group(row.partition).map(|group| group.members);
            let members = members.iter().flatten();
            members.for_each(|member| self.anti_entropy.hurry(&member.node.node));
        }
    }

    pub(super) fn note_outcome(
        &self,
        outcome: Result<Outcome, Error>,
        mention: Mention,
        total: &mut RepairRound,
    ) {
        let hash = mention.block.hash;
        match outcome {
            Ok(Outcome::RepairRound) => {
                tracing::info!(%hash, "a damaged block was replaced by a good copy");
                self.repair.repaired.fetch_add(1, Ordering::Relaxed);
                self.repair.queue().settle(&hash);
                total.repaired += 1;
            }
            Ok(Outcome::Settled) => {
                self.repair.queue().settle(&hash);
                total.settled += 1;
            }
            Err(error) => {
                self.compare_soon(&mention);
                let trouble = Trouble {
                    hash,
                    why: error.to_string(),
                    rows: mention.rows,
                };
                self.note_trouble(trouble, total);
            }
        }
    }

    /// Notes blocks whose rows cannot be read. They are tried again later, because the payload of
    /// such a row is repaired by itself.
    pub(super) fn note_unknown(&self, blocks: Vec<BlockHash>, total: &mut RepairRound) {
        for hash in blocks {
            let why = "no row that can be read refers to it: the payload of its row is damaged, or a verification is due";
            let trouble = Trouble {
                hash,
                why: why.into(),
                rows: Vec::new(),
            };
            self.note_trouble(trouble, total);
        }
    }

    fn note_trouble(&self, trouble: Trouble, total: &mut RepairRound) {
        self.repair.failed.fetch_add(1, Ordering::Relaxed);
        total.failed += 1;
        let rows = trouble.rows.iter();
        let rows: Vec<String> = rows
            .map(|row| format!("{}/{}", row.partition, row.key.escape_ascii()))
            .collect();
        let (hash, why) = (trouble.hash, &trouble.why);
        tracing::error!(%hash, why, ?rows, "a damaged block cannot be repaired yet");
        let now_ms = self.options.wall.now_millis();
        self.repair.queue().fail(trouble, now_ms);
    }
}
