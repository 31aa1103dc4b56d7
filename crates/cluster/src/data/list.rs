//! Listings and scans over the replicas of partitions: pages of a quorum, merged.
//!
//! A node is asked once for all partitions of which it holds a replica. Local replicas are read
//! first. The other replicas are asked with a digest of the local page. Mostly they have the same
//! page, and say so instead of sending it.
//!
//! | module | what it holds |
//! |---|---|
//! | `ask` | requests to nodes, this one too, for pages |
//! | `serve` | answers to such requests |
//! | `fenced` | finds out if there are rows behind a closed write fence |
//! | `settled` | listings of which each row is as a quorum holds it |
//! | `scanned` | a live row without its payload |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{NodeId, PartitionId, boxed};
use archipel_storage::{ListEntry, ListQuery, ListStart, Listing, RowKey};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::Data;
use crate::error::Error;
use crate::merge::{ListMerge, ListOutput, Page};
use crate::node::group::Group;
use crate::register::ReplicaSet;
use ask::{PageRequest, ask_node, pages_here};

mod ask;
mod fenced;
mod scanned;
mod serve;
mod settled;

pub use scanned::Scanned;

pub(crate) use ask::ask;

/// The number of attempts at a listing while the layout changes.
const RETRIES: usize = 5;

impl Data {
    /// Returns a page of a listing. It contains every row whose write was acknowledged before the
    /// call.
    #[boxed]
    pub async fn list(self: &Arc<Data>, query: ListQuery) -> Result<Listing, Error> {
        // There is one page for each query.
        Ok(self.list_all(&[query]).await?.swap_remove(0))
    }

    /// Returns pages of several partitions, in the order of the queries: for each query what
    /// [`list`](Self::list) returns. All together take no more messages than one.
    #[boxed]
    pub async fn list_all(self: &Arc<Data>, queries: &[ListQuery]) -> Result<Vec<Listing>, Error> {
        let pages = self.pages(queries).await?.into_iter();
        Ok(pages.map(|page| page.listing).collect())
    }

    async fn pages(self: &Arc<Data>, queries: &[ListQuery]) -> Result<Vec<MergedPage>, Error> {
        for _ in 0..RETRIES {
            if let Some(pages) = merged(self, queries, None).await? {
                return Ok(pages);
            }
            self.epochs.settled().await?;
        }
        Err(Error::Unavailable("the layout changes too often".into()))
    }

    /// Returns live rows of a partition whose keys begin with `prefix`, after `after`, at most
    /// `limit`.
    ///
    /// # Errors
    /// [`archipel_storage::Error::Damaged`] if there may be a row that too few replicas can read.
    #[boxed]
    pub async fn scan(
        self: &Arc<Data>,
        partition: PartitionId,
        prefix: &Bytes,
        after: Option<Bytes>,
        limit: usize,
    ) -> Result<Vec<Scanned>, Error> {
        let found = self.scan_some(partition, prefix, after, limit).await?;
        found.damaged.map_or(Ok(found.rows), Err)
    }

    /// Returns all live rows of a partition whose keys begin with `prefix`, in order. Passes over
    /// rows that too few replicas can read: for work in which one of them must not hold up the
    /// rest.
    #[boxed]
    pub async fn scan_all(
        self: &Arc<Data>,
        partition: PartitionId,
        prefix: &Bytes,
    ) -> Result<Vec<Scanned>, Error> {
        Ok(self.scan_to_the_end(partition, prefix).await?.rows)
    }

    /// Returns live rows of a partition as [`scan`](Data::scan) does, and passes over rows that too
    /// few replicas can read. If there are fewer than `limit`, no more follow.
    #[boxed]
    pub async fn scan_readable(
        self: &Arc<Data>,
        partition: PartitionId,
        prefix: &Bytes,
        after: Option<Bytes>,
        limit: usize,
    ) -> Result<Vec<Scanned>, Error> {
        Ok(self.scan_some(partition, prefix, after, limit).await?.rows)
    }

    async fn scan_to_the_end(
        self: &Arc<Data>,
        partition: PartitionId,
        prefix: &Bytes,
    ) -> Result<Found, Error> {
        let mut all = Found::default();
        let batch = self.options.sizes.scanned_rows;
        loop {
            let after = all.rows.last().map(|row| row.key.key.clone());
            let some = self.scan_some(partition, prefix, after, batch).await?;
            let full = some.rows.len() == batch;
            all.rows.extend(some.rows);
            all.damaged = all.damaged.or(some.damaged);
            if !full {
                return Ok(all);
            }
        }
    }

    async fn scan_some(
        self: &Arc<Data>,
        partition: PartitionId,
        prefix: &Bytes,
        after: Option<Bytes>,
        limit: usize,
    ) -> Result<Found, Error> {
        let mut query = ListQuery::new(partition, prefix.clone());
        if let Some(after) = after {
            query.start = ListStart::After(after);
        }
        let mut found = Found::default();
        loop {
            query.limit = limit - found.rows.len();
            let pages = self.pages(std::slice::from_ref(&query)).await?;
            let Some(MergedPage {
                listing: page,
                unsettled,
            }) = pages.into_iter().next()
            else {
                return Ok(found);
            };
            if !page.damaged.is_empty() {
                found.damaged = found.damaged.or(Some(damaged(&page)));
            }
            let rows = page.entries.into_iter();
            found
                .rows
                .extend(rows.filter_map(|entry| scanned(partition, entry, &unsettled)));
            match page.next {
                Some(next) if found.rows.len() < limit => query.start = next,
                _ => return Ok(found),
            }
        }
    }
}

/// The result of a scan.
#[derive(Default)]
struct Found {
    rows: Vec<Scanned>,
    /// Names a row that too few replicas can read.
    damaged: Option<Error>,
}

/// Returns the error of a scan that must find everything, and meets rows that cannot be read.
pub(in crate::data) fn damaged(page: &Listing) -> Error {
    let first = page
        .damaged
        .first()
        .map(|key| key.escape_ascii().to_string());
    let count = page.damaged.len();
    let first = first.unwrap_or_default();
    let why = format!("{count} rows cannot be read, the first of them {first}");
    Error::Storage(archipel_storage::Error::Damaged(why))
}

fn scanned(partition: PartitionId, entry: ListEntry, unsettled: &[Bytes]) -> Option<Scanned> {
    match entry {
        ListEntry::Row { key, metadata } => Some(Scanned {
            is_settled: unsettled.binary_search(&key).is_err(),
            key: RowKey { partition, key },
            stamp: metadata.stamp,
            metadata: metadata.metadata?,
        }),
        ListEntry::Prefix { .. } => None,
    }
}

/// The listings of several partitions, in progress.
struct Merging {
    parts: Vec<Part>,
    /// The next steps, each with the number of its part.
    todo: Vec<(usize, ListOutput)>,
    /// The write fence that must be closed where a page is read.
    fence: Option<Bytes>,
}

/// The listing of one partition.
struct Part {
    group: Group,
    merge: ListMerge,
    page: Option<MergedPage>,
}

/// A page of a quorum.
struct MergedPage {
    listing: Listing,
    /// The keys of the rows whose version a minority showed, sorted.
    unsettled: Vec<Bytes>,
}

/// Requests by the time for which they are deferred and by the node that they go to. Requests about
/// this node's own replicas have neither.
type PageRequests = BTreeMap<(Option<Duration>, Option<NodeId>), Vec<PageRequest>>;

/// The key of the requests that this node answers itself.
const HERE: (Option<Duration>, Option<NodeId>) = (None, None);

/// Returns the pages; `None` if the layout changed meanwhile.
async fn merged(
    inner: &Arc<Data>,
    queries: &[ListQuery],
    fence: Option<Bytes>,
) -> Result<Option<Vec<MergedPage>>, Error> {
    let mut merging = Merging::new(inner, queries)?;
    merging.fence = fence;
    let (mut asked, mut why) = (FuturesUnordered::new(), None);
    loop {
        let Some(mut requests) = merging.requests(inner)? else {
            return Err(why.unwrap_or_else(too_few));
        };
        if merging.is_done() {
            return Ok(Some(merging.pages()));
        }
        merging.look_here(inner, &mut requests).await;
        asked.extend(requests.into_iter().map(async |((defer, node), requests)| {
            // Mostly the listing has ended by then.
            if let Some(time) = defer {
                tokio::time::sleep(time).await;
            }
            let pages = ask_node(inner, node, &requests).await;
            (requests, pages)
        }));
        if !merging.todo.is_empty() {
            continue;
        }
        match asked.next().await {
            Some((requests, Ok(Some(pages)))) => {
                let answers = requests.iter().zip(pages);
                answers.for_each(|(request, page)| merging.answered(request, page));
            }
            Some((_, Ok(None))) => return Ok(None),
            Some((requests, Err(error))) => {
                why = Some(error);
                requests.iter().for_each(|q| merging.failed(q));
            }
            None => return Err(why.unwrap_or_else(too_few)),
        }
    }
}

impl Merging {
    fn new(inner: &Data, queries: &[ListQuery]) -> Result<Merging, Error> {
        let (mut parts, mut todo) = (Vec::with_capacity(queries.len()), Vec::new());
        for (number, query) in queries.iter().enumerate() {
            let group = inner.group(query.partition)?;
            let (merge, outputs) = ListMerge::new(group.quorums.clone(), query.clone());
            parts.push(Part {
                group,
                merge,
                page: None,
            });
            todo.extend(outputs.into_iter().map(|output| (number, output)));
        }
        Ok(Merging {
            parts,
            todo,
            fence: None,
        })
    }

    /// Returns the next requests; `None` if too few replicas answer.
    fn requests(&mut self, inner: &Data) -> Result<Option<PageRequests>, Error> {
        let mut requests = PageRequests::new();
        let mut asked: BTreeMap<(usize, u32), ReplicaSet> = BTreeMap::new();
        for (number, output) in std::mem::take(&mut self.todo) {
            let part = &mut self.parts[number];
            match output {
                ListOutput::Done { listing, unsettled } => {
                    part.page = Some(MergedPage { listing, unsettled });
                }
                ListOutput::Ask {
                    replica,
                    round,
                    query,
                } => {
                    let asked = asked.entry((number, round)).or_default();
                    let defer = part.group.defer_time(inner.peers.as_ref(), *asked);
                    asked.insert(replica);
                    let request = PageRequest::new(&part.group, number, replica, round, query)?;
                    let request = request.fenced(self.fence.clone());
                    let batch = requests.entry((defer, request.node));
                    batch.or_default().push(request);
                }
                ListOutput::Failed => return Ok(None),
            }
        }
        Ok(Some(requests))
    }

    /// Answers the requests about this node's own replicas, unless that would take too long, and
    /// adds the digests to the same requests to other nodes.
    async fn look_here(&mut self, inner: &Data, requests: &mut PageRequests) {
        let Some(here) = requests.remove(&HERE) else {
            return;
        };
        let Ok(Some(pages)) = pages_here(inner, &here).await else {
            requests.insert(HERE, here);
            return;
        };
        for (request, known) in here.iter().zip(pages) {
            let same = requests.values_mut().flatten();
            same.filter(|other| other.is_same(request))
                .for_each(|other| other.known = Some(known.clone()));
            self.answered(request, known.page);
        }
    }

    fn answered(&mut self, request: &PageRequest, page: Arc<Page>) {
        let merge = &mut self.parts[request.part].merge;
        let outputs = merge.on_page(request.replica, request.round, page);
        self.note(request, outputs);
    }

    fn failed(&mut self, request: &PageRequest) {
        let merge = &mut self.parts[request.part].merge;
        let outputs = merge.on_failure(request.replica, request.round);
        self.note(request, outputs);
    }

    fn note(&mut self, request: &PageRequest, outputs: Vec<ListOutput>) {
        let outputs = outputs.into_iter();
        self.todo.extend(outputs.map(|todo| (request.part, todo)));
    }

    fn is_done(&self) -> bool {
        self.parts.iter().all(|part| part.page.is_some())
    }

    fn pages(self) -> Vec<MergedPage> {
        let pages = self.parts.into_iter().filter_map(|part| part.page);
        pages.collect()
    }
}

fn too_few() -> Error {
    Error::Unavailable("too few replicas answer a listing".into())
}

#[cfg(test)]
mod tests;
