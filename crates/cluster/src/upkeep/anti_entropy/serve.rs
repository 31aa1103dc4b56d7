//! Answers to another node's pass.

use std::sync::Arc;

use archipel_base::codec::{self, Versioned};
use archipel_base::{NodeId, PartitionId, Stamp, Writer};
use archipel_storage::rows::Granularity;
use archipel_storage::{Error, Row, RowKey, RowReader, Value};
use bytes::Bytes;

use super::digests;
use super::wire::{
    CompareCall, CompareReply, MAX_PARTITIONS, MAX_ROWS, MAX_WINDOWS, Part, ROWS_BYTES, RowsCall,
    RowsReply, STAMPS_BYTES, Scope, StampsCall, StampsReply, WindowsCall, WindowsReply,
};
use crate::node::epochs::{Check, Under};
use crate::node::replica::weight;
use crate::node::wire::method;
use crate::register::Version;
use crate::upkeep::Upkeep;

impl Upkeep {
    /// Answers a call of another node's pass.
    pub(crate) async fn serve_anti_entropy(
        self: &Arc<Upkeep>,
        from: NodeId,
        name: &str,
        request: Bytes,
    ) -> Result<Bytes, String> {
        match name {
            method::COMPARE => answer(self.serve_compare(from, decode(&request)?).await?),
            method::WINDOWS => answer(self.serve_windows(from, decode(&request)?).await?),
            method::STAMPS => answer(self.serve_stamps(from, decode(&request)?).await?),
            method::PULL => answer(self.serve_rows(from, decode(&request)?).await?),
            method::FLOOR => answer(self.serve_floor(from, decode(&request)?).await?),
            method::PURGED => answer(self.serve_purged(from, decode(&request)?).await?),
            method::WAKE => {
                self.serve_wake(from, &request)?;
                Ok(Bytes::new())
            }
            method::PAST => answer(self.serve_past(from, decode(&request)?).await?),
            other => Err(format!("no such method: {other}")),
        }
    }

    /// Checks that a request is for this replica, in its epoch and incarnation, and that it asks
    /// for `count` things, at most `most`. Returns the epoch, for the view that answers it.
    async fn check_scope(
        &self,
        from: NodeId,
        scope: Scope,
        (count, most): (usize, usize),
        mut partitions: impl Iterator<Item = PartitionId>,
    ) -> Result<Under, String> {
        if count > most {
            return Err(format!("more than {most} at once"));
        }
        let learnt = self.keep_up(from, scope.epoch).await;
        learnt.map_err(|error| error.to_string())?;
        let other = partitions.find_map(|p| match self.epochs.check(&scope.of(p)) {
            Check::Pass => None,
            other => Some(other),
        });
        match other {
            None => Ok(self.epochs.under(scope.epoch)),
            Some(Check::Superseded(epoch)) => Err(format!("this node knows epoch {epoch}")),
            Some(_) => Err("a partition is not held here".into()),
        }
    }

    async fn serve_compare(&self, from: NodeId, call: CompareCall) -> Result<CompareReply, String> {
        let partitions = call.digests.iter().map(|(partition, _)| *partition);
        let size = (call.digests.len(), MAX_PARTITIONS);
        let under = self.check_scope(from, call.scope, size, partitions);
        let under = under.await?;
        let compare = move |rows: &RowReader<'_>| {
            let (mut differ, mut digests) = (Vec::new(), digests::Digests::new(rows));
            for (partition, theirs) in call.digests {
                if digests.of(partition)? != theirs {
                    differ.push(partition);
                }
            }
            Ok(CompareReply(differ))
        };
        self.read_for_pull(under, compare).await
    }

    async fn serve_windows(&self, from: NodeId, call: WindowsCall) -> Result<WindowsReply, String> {
        let partitions = call.spans.iter().map(|span| span.partition);
        let size = (call.spans.len(), MAX_WINDOWS);
        let under = self.check_scope(from, call.scope, size, partitions);
        let under = under.await?;
        let look = move |rows: &RowReader<'_>| {
            let mut parts = Vec::new();
            for (of, span) in call.spans.iter().enumerate() {
                let Some(window) = span.id() else {
                    return Err(Error::Refused("windows of another length".into()));
                };
                let found = digests::parts(rows, span.partition, window)?;
                parts.extend(found.into_iter().map(|(number, window)| Part {
                    of: of as u16,
                    number,
                    rows: window.rows,
                    digest: digests::shortened(&window),
                }));
            }
            Ok(WindowsReply(parts))
        };
        self.read_for_pull(under, look).await
    }

    async fn serve_stamps(&self, from: NodeId, call: StampsCall) -> Result<StampsReply, String> {
        let partitions = call.hours.iter().map(|(partition, _)| *partition);
        let size = (call.hours.len(), MAX_WINDOWS);
        let under = self.check_scope(from, call.scope, size, partitions);
        let under = under.await?;
        let most = self.options.sizes.stamps;
        self.read_for_pull(under, move |rows| stamps(rows, &call, most))
            .await
    }

    async fn serve_rows(&self, from: NodeId, call: RowsCall) -> Result<RowsReply, String> {
        let partitions = call.keys.iter().map(|(partition, _)| *partition);
        let size = (call.keys.len(), MAX_ROWS);
        let under = self.check_scope(from, call.scope, size, partitions);
        let under = under.await?;
        let look = move |rows: &RowReader<'_>| {
            let (mut found, mut bytes) = (Vec::new(), 0);
            for (partition, key) in call.keys {
                let row = match rows.row(&RowKey { partition, key }) {
                    // A damaged row counts as missing, because it must not keep the other rows from
                    // the other node.
                    Err(Error::Damaged(_)) => Row::default(),
                    row => row?.unwrap_or_default(),
                };
                bytes += row.value.as_ref().map_or(64, weight);
                found.push(version_of(row));
                if bytes > ROWS_BYTES {
                    break;
                }
            }
            Ok(RowsReply(found))
        };
        self.read_for_pull(under, look).await
    }

    async fn read_for_pull<T, F>(&self, under: Under, read: F) -> Result<T, String>
    where
        T: Send + 'static,
        F: FnOnce(&RowReader<'_>) -> Result<T, Error> + Send + 'static,
    {
        let in_force = move |rows: &RowReader<'_>| match under.superseded() {
            None => read(rows),
            Some(epoch) => Err(Error::Busy(format!("this node knows epoch {epoch}"))),
        };
        let read = self.store().read(in_force).await;
        read.map_err(|error| error.to_string())
    }
}

/// Returns stamps and keys of the rows of the hours, as many as fit.
fn stamps(rows: &RowReader<'_>, call: &StampsCall, most: usize) -> Result<StampsReply, Error> {
    let mut found = Vec::new();
    let mut bytes = 0;
    for (index, (partition, hour)) in call.hours.iter().enumerate() {
        let (first, _) = Granularity::Hour.span(*hour);
        let mut after = (Stamp::new(first, 0, Writer(0)), Bytes::new());
        if let Some(given) = call.after.clone().filter(|_| index == 0) {
            after = given;
        }
        let left = most - found.len();
        let from = (after.0, &after.1[..]);
        let page = rows.log_of_window(*partition, Granularity::Hour, *hour, from, left)?;
        for (stamp, key) in page {
            bytes += key.len() + 32;
            found.push((index as u16, stamp, key));
            if bytes > STAMPS_BYTES || found.len() == most {
                return Ok(StampsReply {
                    rows: found,
                    more: true,
                });
            }
        }
    }
    Ok(StampsReply {
        rows: found,
        more: false,
    })
}

fn version_of(row: Row) -> Version<Value> {
    Version {
        stamp: row.stamp,
        write: row.write,
        value: row.value,
    }
}

fn decode<T: Versioned>(bytes: &[u8]) -> Result<T, String> {
    codec::decode(bytes).map_err(|error| error.to_string())
}

fn answer(answer: impl Versioned) -> Result<Bytes, String> {
    Ok(codec::encode(&answer).into())
}
