//! Listings and scans over the replicas of a partition: pages of a quorum, merged.

use std::sync::Arc;

use archipel_base::PartitionId;
use archipel_net::Class;
use archipel_storage::{ListEntry, ListQuery, ListStart, Listing, RowKey};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::cluster::Cluster;
use crate::drive::waiting::again_if_it_fails;
use crate::error::Error;
use crate::group::Group;
use crate::inner::Inner;
use crate::merge::{ListMerge, ListOutput, wire};
use crate::scan::Scanned;
use crate::wire::{ListCall, ListReply, method};

/// How many rows of a scan are read in one go.
const SCAN_BATCH: usize = 1000;
/// How often a listing begins anew because the layout changed under it.
const RETRIES: usize = 5;

/// What came of asking one replica.
pub(crate) enum Asked {
    Page(Listing),
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
        for output in std::mem::take(&mut todo) {
            match output {
                ListOutput::Done(listing) => return Ok(Some(listing)),
                ListOutput::Ask {
                    replica,
                    round,
                    query,
                } => {
                    asked.push(
                        async move { (replica, round, ask(inner, group, replica, query).await) },
                    );
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

fn too_few() -> Error {
    Error::Unavailable("too few replicas answer a listing".into())
}

/// Asks one replica for a page; again for a while if that fails, as others are waited for meanwhile.
pub(crate) async fn ask(
    inner: &Arc<Inner>,
    group: &Group,
    place: usize,
    query: ListQuery,
) -> Asked {
    let node = group.members.get(place).map(|member| member.node.node);
    let is_away = || node.is_some_and(|node| group.is_away(inner.peers.as_ref(), &node));
    let asked = || ask_page(inner, group, place, query.clone());
    match again_if_it_fails(is_away, asked).await {
        Ok(Some(page)) => Asked::Page(page),
        Ok(None) => Asked::Superseded,
        Err(error) => Asked::Failed(error),
    }
}

async fn ask_page(
    inner: &Arc<Inner>,
    group: &Group,
    place: usize,
    query: ListQuery,
) -> Result<Option<Listing>, Error> {
    if group.is_local(place) {
        if !inner
            .epochs
            .current()
            .is_some_and(|e| inner.epochs.may_answer(&e))
        {
            return Err(Error::Unavailable(
                "this node has not heard the others yet".into(),
            ));
        }
        let page = inner.store().read(move |rows| rows.list(&query)).await?;
        // Read under an epoch that was superseded meanwhile, it may lack what was written since.
        return Ok((inner.epochs.number() == group.epoch).then_some(page));
    }
    let unknown = || Error::Unavailable("the replica is not known".into());
    let member = group.members.get(place).ok_or_else(unknown)?;
    let peers = inner.peers.as_ref().ok_or_else(unknown)?;
    let call = ListCall {
        address: group.address(place).ok_or_else(unknown)?,
        query: wire::encode_query(&query).into(),
    };
    let node = &member.node.node;
    match peers.call(node, method::LIST, Class::Small, &call).await? {
        ListReply::Page(bytes) => {
            let page = wire::decode_page(&bytes);
            page.map(Some)
                .map_err(|error| Error::Unavailable(format!("{} lists: {error}", node.short())))
        }
        ListReply::Superseded(_) => {
            inner.learn_from(node).await?;
            Ok(None)
        }
    }
}
