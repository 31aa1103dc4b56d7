//! The rows of a partition, as its replicas list them: one range of keys after another.

use std::sync::Arc;
use std::time::Duration;

use archipel_storage::{ListEntry, ListQuery, ListStart, VersionName};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::data::list::ask;
use crate::error::Error;
use crate::merge::lowest;
use crate::node::group::Group;
use crate::reconfigure::LayoutChanges;
use crate::register::ReplicaSet;
use crate::register::epoch::Retirement;

/// The time for which further replicas are awaited once a majority has listed a range. One that is
/// later is not asked for the next range.
const LATE: Duration = Duration::from_millis(100);

/// A row that a replica listed: its key, and the name of the version that it holds if it is an
/// object's.
pub(crate) type Listed = (Bytes, VersionName);

impl LayoutChanges {
    /// Lists the rows from a start on, at a majority of the oldest version's replicas. A replica
    /// that is unreachable, or slow, is not awaited for long.
    pub(super) async fn list_range(
        &self,
        group: &Group,
        replicas: ReplicaSet,
        start: ListStart,
    ) -> Result<Range, Error> {
        let mut listed: Retirement<Listed> = Retirement::of(group.oldest.clone());
        let (mut pages, mut why) = (Vec::new(), None);
        let ask = |index| {
            let start = start.clone();
            async move { (index, self.rows_at(group, index, start).await) }
        };
        let mut lists: FuturesUnordered<_> = replicas.iter().map(ask).collect();
        let mut late = None;
        loop {
            let next = match late {
                None => lists.next().await,
                Some(late) => tokio::time::timeout_at(late, lists.next())
                    .await
                    .unwrap_or_default(),
            };
            match next {
                Some((index, Ok(page))) => {
                    listed.on_listed(index, []);
                    pages.push((index, page));
                }
                Some((_, Err(error))) => why = Some(error),
                None => break,
            }
            if late.is_none() && listed.is_listed() {
                late = Some(Instant::now() + LATE);
            }
        }
        match listed.is_listed() {
            true => Ok(Range::of(pages)),
            false => Err(why.unwrap_or_else(too_few)),
        }
    }

    /// Returns a page of the rows that a replica holds, tombstones included, and where the next
    /// page begins.
    pub(crate) async fn rows_at(
        &self,
        group: &Group,
        index: usize,
        start: ListStart,
    ) -> Result<RowsAt, Error> {
        let mut query = ListQuery::new(group.partition, Bytes::new());
        (query.tombstones, query.limit) = (true, self.options.sizes.listed_keys);
        // Tombstones count as rows here.
        query.budget = query.budget.min(query.limit);
        query.start = start;
        let page = ask(self, group, index, query).await?;
        let gone = || Error::Unavailable("the layout changed meanwhile".into());
        let page = Arc::unwrap_or_clone(page.ok_or_else(gone)?).listing;
        let mut rows: Vec<Listed> = page
            .entries
            .into_iter()
            .filter_map(|entry| match entry {
                ListEntry::Row { key, metadata } => {
                    let name = metadata.version.and_then(|version| version.at);
                    Some((key, name))
                }
                ListEntry::Prefix(_) => None,
            })
            .collect();
        // The others may hold what is damaged here, and not all of them are asked for their keys.
        rows.extend(page.damaged.into_iter().map(|key| (key, None)));
        Ok((rows, page.next))
    }
}

/// The rows of a page of one replica, and where its next page begins.
pub(crate) type RowsAt = (Vec<Listed>, Option<ListStart>);

/// A range of keys, as replicas list it.
pub(super) struct Range {
    pub pages: Vec<(usize, Vec<Listed>)>,
    /// The place where the next range begins.
    pub next: Option<ListStart>,
    /// The number of keys in all pages.
    #[cfg(test)]
    pub held: usize,
}

impl Range {
    /// Returns the range that all pages cover. Their rows behind it are left to the next range.
    fn of(pages: Vec<(usize, RowsAt)>) -> Range {
        #[cfg(test)]
        let held = pages.iter().map(|(_, (rows, _))| rows.len()).sum();
        let ends = pages.iter().filter_map(|(_, (_, next))| next.as_ref());
        let end = ends.filter_map(lowest).min();
        let pages = pages.into_iter().map(|(index, (mut rows, _))| {
            rows.retain(|(key, _)| end.as_ref().is_none_or(|end| **key < **end));
            (index, rows)
        });
        Range {
            pages: pages.collect(),
            next: end.map(|end| ListStart::At(end.into())),
            #[cfg(test)]
            held,
        }
    }
}

pub(super) fn too_few() -> Error {
    Error::Unavailable("too few replicas of the older layout version answer".into())
}
