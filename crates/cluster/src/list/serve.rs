//! Pages of the partitions that are here, for other nodes.

use std::sync::Arc;

use archipel_base::{BlockHash, NodeId, Stamp};
use archipel_storage as storage;
use archipel_storage::{ListQuery, RowReader, Store};

use crate::epochs::Check;
use crate::heal::record;
use crate::inner::Inner;
use crate::merge::{Page, wire};
use crate::wire::{ListCall, ListReply, PageReply};

/// The most pages that are asked for at once.
pub(super) const MAX_QUESTIONS: usize = 64;
/// When an answer is so long, the questions that are left are to be asked again: one more page, which may take 768 KiB
/// and what goes with it, would not surely go into the same frame.
const FULL_BYTES: usize = 128 << 10;

/// A page of this store's rows, with the floor that was agreed for them.
pub(super) fn read_page(rows: &RowReader<'_>, query: &ListQuery) -> Result<Page, storage::Error> {
    let floors = record::read(rows, query.partition)?;
    Ok(Page {
        listing: rows.list(query)?,
        agreed: floors.map_or(Stamp::ZERO, |floors| floors.agreed),
    })
}

/// Brings what these pages are made of into memory, if it seems not to be there.
pub(super) async fn warm(store: &Store, queries: impl Iterator<Item = &ListQuery>) {
    let touch = |rows: &RowReader<'_>, query: &ListQuery| rows.list(query).map(drop);
    store.warm(queries.cloned(), touch).await;
}

impl Inner {
    /// Pages of what is here of some partitions.
    pub(crate) async fn serve_list(
        self: &Arc<Inner>,
        from: NodeId,
        call: ListCall,
    ) -> Result<ListReply, String> {
        if call.0.is_empty() || call.0.len() > MAX_QUESTIONS {
            return Err(format!("{} pages at once", call.0.len()));
        }
        let mut asked = Vec::with_capacity(call.0.len());
        for question in call.0 {
            let address = question.address;
            let learnt = self.keep_up(from, address.epoch).await;
            learnt.map_err(|error| error.to_string())?;
            match self.epochs.check(&address) {
                Check::Pass => {}
                Check::Superseded(epoch) => return Ok(ListReply::Superseded(epoch)),
                Check::Learn | Check::NotHere => {
                    return Err("the partition is not kept here".into());
                }
            }
            let query = wire::decode_query(&question.query).map_err(|error| error.to_string())?;
            if query.partition != address.partition {
                return Err("a query for another partition".into());
            }
            asked.push((query, question.known));
        }
        warm(self.store(), asked.iter().map(|(query, _)| query)).await;
        let answer = move |rows: &RowReader<'_>| replies(rows, &asked);
        let pages = self.store().read(answer).await;
        pages
            .map(ListReply::Pages)
            .map_err(|error| error.to_string())
    }
}

/// What the first questions ask for, as much as has room.
fn replies(
    rows: &RowReader<'_>,
    asked: &[(ListQuery, Option<BlockHash>)],
) -> Result<Vec<PageReply>, storage::Error> {
    let (mut replies, mut bytes) = (Vec::with_capacity(asked.len()), 0);
    for (query, known) in asked {
        let page = read_page(rows, query)?;
        if known.is_some_and(|known| known == wire::digest(&page)) {
            replies.push(PageReply::Same);
            continue;
        }
        let page = wire::encode_page(&page);
        bytes += page.len();
        replies.push(PageReply::Page(page.into()));
        if bytes > FULL_BYTES {
            break;
        }
    }
    Ok(replies)
}
