//! Listings and scans over the replicas of a partition: pages of a quorum, merged.
//!
//! Where a replica is here, its page is read first, and the others are asked with a digest of it: mostly they have the same page,
//! and say so instead of sending it.

use std::sync::Arc;

use archipel_base::{BlockHash, PartitionId, Stamp};
use archipel_net::Class;
use archipel_storage as storage;
use archipel_storage::{ListEntry, ListQuery, ListStart, Listing, RowKey, RowReader};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::cluster::Cluster;
use crate::drive::waiting::again_if_it_fails;
use crate::error::Error;
use crate::group::Group;
use crate::heal::record;
use crate::inner::Inner;
use crate::merge::{ListMerge, ListOutput, Page, wire};
use crate::scan::Scanned;
use crate::wire::{ListCall, ListReply, method};

/// How many rows of a scan are read in one go.
const SCAN_BATCH: usize = 1000;
/// How often a listing begins anew because the layout changed under it.
const RETRIES: usize = 5;

/// A page that is here, and what others are asked whether they have it too.
struct Known {
    page: Page,
    digest: BlockHash,
}

/// What came of asking one replica.
pub(crate) enum Asked {
    Page(Page),
    /// It knows a newer layout.
    Superseded,
    Failed(Error),
}

impl Cluster {
    /// A page of a listing: every row whose write was acknowledged before is in it.
    pub async fn list(&self, query: ListQuery) -> Result<Listing, Error> {
        for _ in 0..RETRIES {
            let group = self.0.group(query.partition)?;
            if group.is_local_alone() {
                return Ok(self.store().read(move |rows| rows.list(&query)).await?);
            }
            if let Some(listing) = merged(&self.0, &group, query.clone()).await? {
                return Ok(listing);
            }
            self.0.epochs.settled().await;
        }
        Err(Error::Unavailable("the layout changes too often".into()))
    }

    /// Live rows of a partition whose keys begin with `prefix`, behind `after`, at most `limit`.
    pub async fn scan(
        &self,
        partition: PartitionId,
        prefix: &Bytes,
        after: Option<Bytes>,
        limit: usize,
    ) -> Result<Vec<Scanned>, Error> {
        let mut query = ListQuery::new(partition, prefix.clone());
        if let Some(after) = after {
            query.start = ListStart::Behind(after);
        }
        let mut rows = Vec::new();
        loop {
            query.limit = limit - rows.len();
            let page = self.list(query.clone()).await?;
            rows.extend(
                page.entries
                    .into_iter()
                    .filter_map(|e| scanned(partition, e)),
            );
            match page.next {
                Some(next) if rows.len() < limit => query.start = next,
                _ => return Ok(rows),
            }
        }
    }

    /// All live rows of a partition whose keys begin with `prefix`, in order.
    pub async fn scan_all(
        &self,
        partition: PartitionId,
        prefix: &Bytes,
    ) -> Result<Vec<Scanned>, Error> {
        let mut all: Vec<Scanned> = Vec::new();
        loop {
            let after = all.last().map(|row| row.key.key.clone());
            let rows = self.scan(partition, prefix, after, SCAN_BATCH).await?;
            let full = rows.len() == SCAN_BATCH;
            all.extend(rows);
            if !full {
                return Ok(all);
            }
        }
    }
}

fn scanned(partition: PartitionId, entry: ListEntry) -> Option<Scanned> {
    match entry {
        ListEntry::Row { key, head } => Some(Scanned {
            key: RowKey { partition, key },
            stamp: head.stamp,
            head: head.head?,
        }),
        ListEntry::Prefix { .. } => None,
    }
}

/// `None` if the layout changed meanwhile.
async fn merged(
    inner: &Arc<Inner>,
    group: &Group,
    query: ListQuery,
) -> Result<Option<Listing>, Error> {
    let (mut merge, mut todo) = ListMerge::new(group.quorums.clone(), query);
    let mut asked = FuturesUnordered::new();
    let mut why = None;
    loop {
        // The replica here is the nearest, so it comes first of those that are asked the same.
        let mut known = None;
        for output in std::mem::take(&mut todo) {
            match output {
                ListOutput::Done(listing) => return Ok(Some(listing)),
                ListOutput::Ask {
                    replica,
                    round,
                    query,
                } => {
                    if group.is_local(replica) {
                        known = known_here(inner, group, &query).await;
                    }
                    let known = known.clone();
                    asked.push(async move {
                        let came = match known {
                            Some(known) if group.is_local(replica) => {
                                Asked::Page(known.page.clone())
                            }
                            known => ask_knowing(inner, group, replica, query, known).await,
                        };
                        (replica, round, came)
                    });
                }
                ListOutput::Failed => return Err(why.unwrap_or_else(too_few)),
            }
        }
        match asked.next().await {
            Some((replica, round, Asked::Page(page))) => todo = merge.on_page(replica, round, page),
            Some((_, _, Asked::Superseded)) => return Ok(None),
            Some((replica, round, Asked::Failed(error))) => {
                why = Some(error);
                todo = merge.on_failure(replica, round);
            }
            None => return Err(why.unwrap_or_else(too_few)),
        }
    }
}

impl Inner {
    /// A page of this store's rows, with the floor that was agreed for them.
    pub(crate) async fn read_page(&self, query: ListQuery) -> Result<Page, storage::Error> {
        let read = move |rows: &RowReader<'_>| {
            let floors = record::read(rows, query.partition)?;
            Ok(Page {
                listing: rows.list(&query)?,
                agreed: floors.map_or(Stamp::ZERO, |floors| floors.agreed),
            })
        };
        self.store().read(read).await
    }
}

fn too_few() -> Error {
    Error::Unavailable("too few replicas answer a listing".into())
}

/// The page of the replica here, unless it cannot be had at once.
async fn known_here(inner: &Inner, group: &Group, query: &ListQuery) -> Option<Arc<Known>> {
    let page = page_here(inner, group, query.clone()).await.ok()??;
    let digest = wire::digest(&page);
    Some(Arc::new(Known { page, digest }))
}

/// Asks one replica for a page; again for a while if that fails, as others are waited for meanwhile.
pub(crate) async fn ask(
    inner: &Arc<Inner>,
    group: &Group,
    place: usize,
    query: ListQuery,
) -> Asked {
    ask_knowing(inner, group, place, query, None).await
}

async fn ask_knowing(
    inner: &Arc<Inner>,
    group: &Group,
    place: usize,
    query: ListQuery,
    known: Option<Arc<Known>>,
) -> Asked {
    let node = group.members.get(place).map(|member| member.node.node);
    let is_away = || node.is_some_and(|node| group.is_away(inner.peers.as_ref(), &node));
    let asked = || ask_page(inner, group, place, query.clone(), known.as_deref());
    match again_if_it_fails(is_away, asked).await {
        Ok(Some(page)) => Asked::Page(page),
        Ok(None) => Asked::Superseded,
        Err(error) => Asked::Failed(error),
    }
}

async fn ask_page(
    inner: &Inner,
    group: &Group,
    place: usize,
    query: ListQuery,
    known: Option<&Known>,
) -> Result<Option<Page>, Error> {
    if group.is_local(place) {
        return page_here(inner, group, query).await;
    }
    let unknown = || Error::Unavailable("the replica is not known".into());
    let member = group.members.get(place).ok_or_else(unknown)?;
    let peers = inner.peers.as_ref().ok_or_else(unknown)?;
    let call = ListCall {
        address: group.address(place).ok_or_else(unknown)?,
        query: wire::encode_query(&query).into(),
        known: known.map(|known| known.digest),
    };
    let node = &member.node.node;
    match peers.call(node, method::LIST, Class::Small, &call).await? {
        ListReply::Page(bytes) => {
            let page = wire::decode_page(&bytes);
            page.map(Some)
                .map_err(|error| Error::Unavailable(format!("{} lists: {error}", node.short())))
        }
        ListReply::Same => {
            let same = known.map(|known| Some(known.page.clone()));
            same.ok_or_else(|| {
                Error::Unavailable(format!("{} lists what nobody asked about", node.short()))
            })
        }
        ListReply::Superseded(_) => {
            inner.learn_from(node).await?;
            Ok(None)
        }
    }
}

/// `None` if the layout changed meanwhile.
async fn page_here(inner: &Inner, group: &Group, query: ListQuery) -> Result<Option<Page>, Error> {
    let epoch = inner.epochs.current();
    if !epoch.is_some_and(|epoch| inner.epochs.may_answer(&epoch)) {
        return Err(Error::Unavailable(
            "this node has not heard the others yet".into(),
        ));
    }
    let page = inner.read_page(query).await?;
    // Read under an epoch that was superseded meanwhile, it may lack what was written since.
    Ok((inner.epochs.number() == group.epoch).then_some(page))
}

#[cfg(test)]
mod tests;
