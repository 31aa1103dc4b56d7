//! Pages of local partitions, for other nodes.

use std::sync::Arc;

use archipel_base::{BlockHash, NodeId, PartitionId, Stamp};
use archipel_storage as storage;
use archipel_storage::{ListQuery, RowKey, RowReader, Store};
use bytes::Bytes;

use crate::data::Data;
use crate::merge::{Page, wire};
use crate::node::epochs::{Check, Under};
use crate::node::floors;
use crate::node::options::Hooks;
use crate::node::wire::{ListCall, ListReply, PageReply};

/// The most pages that one call may ask for.
pub(super) const MAX_PAGES: usize = 64;

/// Reads a page of this store's rows, with the floor that was agreed for them.
pub(super) fn read_page(rows: &RowReader<'_>, query: &ListQuery) -> Result<Page, storage::Error> {
    let floors = floors::read(rows, query.partition)?;
    Ok(Page {
        listing: rows.list(query)?,
        agreed: floors.map_or(Stamp::ZERO, |floors| floors.agreed),
    })
}

/// A page that another node asks for.
struct Asked {
    under: Under,
    query: ListQuery,
    known: Option<BlockHash>,
    fence: Option<Bytes>,
}

/// Refuses a page unless its write fence is closed here, in the transaction that reads the page.
/// A replica whose fence is still open may accept a write after the page was read.
pub(super) fn check_fence(
    rows: &RowReader<'_>,
    partition: PartitionId,
    fence: Option<&Bytes>,
    hooks: Hooks,
) -> Result<(), storage::Error> {
    let Some(key) = fence else { return Ok(()) };
    let fence = RowKey {
        partition,
        key: key.clone(),
    };
    let metadata = rows.metadata(&fence)?.and_then(|row| row.metadata);
    if metadata.is_some_and(|metadata| !(hooks.holds)(&fence, &metadata, &[])) {
        return Ok(());
    }
    Err(storage::Error::Busy(
        "the write fence is not closed here yet".into(),
    ))
}

/// Reads the pages ahead if the store is cold, so that they are in memory.
pub(super) async fn warm(store: &Store, queries: impl Iterator<Item = &ListQuery>) {
    let touch = |rows: &RowReader<'_>, query: &ListQuery| rows.list(query).map(drop);
    store.warm(queries.cloned(), touch).await;
}

impl Data {
    /// Answers with pages of some partitions.
    pub(crate) async fn serve_list(
        self: &Arc<Data>,
        from: NodeId,
        call: ListCall,
    ) -> Result<ListReply, String> {
        if call.0.is_empty() || call.0.len() > MAX_PAGES {
            return Err(format!("{} pages at once", call.0.len()));
        }
        let mut asked = Vec::with_capacity(call.0.len());
        for request in call.0 {
            let address = request.address;
            let learnt = self.keep_up(from, address.epoch).await;
            learnt.map_err(|error| error.to_string())?;
            match self.epochs.check(&address) {
                Check::Pass => {}
                Check::Superseded(epoch) => return Ok(ListReply::Superseded(epoch)),
                Check::Learn | Check::NotHere | Check::TooOld | Check::Unconfirmed => {
                    return Err("the partition is not held here".into());
                }
            }
            let query = wire::decode_query(&request.query).map_err(|error| error.to_string())?;
            if query.partition != address.partition {
                return Err("a query for another partition".into());
            }
            asked.push(Asked {
                under: self.epochs.under(address.epoch),
                query,
                known: request.known,
                fence: request.fence,
            });
        }
        warm(self.store(), asked.iter().map(|asked| &asked.query)).await;
        let (hooks, most) = (self.replica.hooks(), self.options.sizes.listed_bytes);
        let answer = move |rows: &RowReader<'_>| replies(rows, &asked, hooks, most);
        let reply = self.store().read(answer).await;
        reply.map_err(|error| error.to_string())
    }
}

/// Returns the answers to the first requests, as many as fit. Rows of an epoch that was superseded
/// meanwhile may be gone.
fn replies(
    rows: &RowReader<'_>,
    asked: &[Asked],
    hooks: Hooks,
    most: usize,
) -> Result<ListReply, storage::Error> {
    let (mut replies, mut bytes) = (Vec::with_capacity(asked.len()), 0);
    for asked in asked {
        let query = &asked.query;
        if let Some(epoch) = asked.under.superseded() {
            return Ok(ListReply::Superseded(epoch));
        }
        check_fence(rows, query.partition, asked.fence.as_ref(), hooks)?;
        let page = read_page(rows, query)?;
        if asked
            .known
            .is_some_and(|known| known == wire::digest(&page))
        {
            replies.push(PageReply::Same);
            continue;
        }
        let page = wire::encode_page(&page);
        bytes += page.len();
        replies.push(PageReply::Page(page.into()));
        if bytes > most {
            break;
        }
    }
    Ok(ListReply::Pages(replies))
}
