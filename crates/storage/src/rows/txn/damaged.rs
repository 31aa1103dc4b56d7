//! Replacement of a row that cannot be decoded, from the entries that other trees have for it.

use std::collections::BTreeMap;
use std::ops::Bound;

use archipel_base::{Id, PartitionId, Stamp};
use bytes::Bytes;

use super::{OldRow, RowTxn};
use crate::engine::{Edit, Flow, ReadTxn, Result, Tree};
use crate::row::RowKey;
use crate::rows::codec::{self, Counter, StoredPayload, StoredRow};
use crate::rows::derived;

/// The number of log entries that are read at once.
const BATCH: usize = 1000;

impl RowTxn<'_> {
    /// Recovers the rest of a damaged row: its stamp from the log, and its separate payload. Reads the
    /// partition's log.
    pub(super) fn recover_damaged(&self, key: &RowKey, bytes: &[u8], why: &str) -> Result<OldRow> {
        tracing::error!(partition = %key.partition, key = %key.key.escape_ascii(), why, "a damaged row is replaced");
        let stamp = self.logged_stamp(key)?;
        let is_apart = self.overlay.get(Tree::Payloads, bytes)?.is_some();
        let (payload, blocks) = if is_apart {
            (StoredPayload::Apart, self.old_blocks(bytes, stamp)?)
        } else {
            (StoredPayload::Empty, Vec::new())
        };
        let row = StoredRow {
            stamp,
            payload,
            ..StoredRow::default()
        };
        Ok(OldRow {
            row,
            blocks,
            was_damaged: true,
        })
    }

    /// Returns the stamp under which the log names a row; [`Stamp::ZERO`] if the log does not name
    /// it.
    fn logged_stamp(&self, key: &RowKey) -> Result<Stamp> {
        let mut after = (Stamp::ZERO, Bytes::new());
        loop {
            let behind = (after.0, &after.1[..]);
            let page = self.reader().log(key.partition, behind, u64::MAX, BATCH)?;
            if let Some((stamp, _)) = page.iter().find(|(_, logged)| *logged == key.key) {
                return Ok(*stamp);
            }
            match page.last() {
                Some(last) if page.len() == BATCH => after = last.clone(),
                _ => return Ok(Stamp::ZERO),
            }
        }
    }

    /// Recounts a partition's counters from its rows. Reads all of them.
    pub(super) fn recount_partition(&mut self, partition: PartitionId) -> Result<()> {
        let mut counters: BTreeMap<Id, Counter> = BTreeMap::new();
        self.reader()
            .scan_metadata(partition, &[], Bound::Unbounded, &mut |_, metadata| {
                if let Some(usage) = metadata.and_then(|metadata| metadata.usage) {
                    let counter = counters.entry(usage.group).or_default();
                    counter.objects += u64::from(usage.objects);
                    counter.bytes += usage.bytes;
                }
                Ok(Flow::Continue)
            })?;
        for key in derived::counter_keys(&self.overlay, partition)? {
            self.overlay.delete(Tree::Derived, &key)?;
        }
        for (group, counter) in &counters {
            let key = codec::counter_key(partition, *group);
            if *counter != Counter::default() {
                self.overlay
                    .put(Tree::Derived, &key, &codec::encode_counter(&key, counter))?;
            }
        }
        Ok(())
    }
}
