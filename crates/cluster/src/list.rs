//! Listings and scans over the replicas of partitions: pages of a quorum, merged.
//!
//! A node is asked once for all the partitions of which it holds a replica. Those that are here are read first, and the others are
//! asked with a digest of each page: mostly they have the same page, and say so instead of sending it.
//!
//! | module | what it holds |
//! |---|---|
//! | `ask` | asking nodes, this one too, for pages |
//! | `serve` | answering |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{NodeId, PartitionId};
use archipel_storage::{ListEntry, ListQuery, ListStart, Listing, RowKey};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::group::Group;
use crate::inner::Inner;
use crate::merge::{ListMerge, ListOutput, Page};
use crate::register::ReplicaSet;
use crate::scan::Scanned;
use ask::{Question, ask_node, pages_here};

mod ask;
mod serve;

pub(crate) use ask::ask;

/// How many rows of a scan are read in one go.
const SCAN_BATCH: usize = 1000;
/// How often a listing begins anew because the layout changed under it.
const RETRIES: usize = 5;

impl Cluster {
    /// A page of a listing: every row whose write was acknowledged before is in it.
    pub async fn list(&self, query: ListQuery) -> Result<Listing, Error> {
        // One for each query.
        Ok(self.list_all(&[query]).await?.swap_remove(0))
    }

    /// Pages of listings of several partitions, in the order of the queries: what [`list`](Self::list) gives for each. All of them take no
    /// more messages than one.
    pub async fn list_all(&self, queries: &[ListQuery]) -> Result<Vec<Listing>, Error> {
        for _ in 0..RETRIES {
            if let Some(listings) = merged(&self.0, queries).await? {
                return Ok(listings);
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

/// Listings of partitions, in progress.
struct Merging {
    parts: Vec<Part>,
    /// What is to be done next, with the number of the part that it is about.
    todo: Vec<(usize, ListOutput)>,
}

/// The listing of one partition.
struct Part {
    group: Group,
    merge: ListMerge,
    listing: Option<Listing>,
}

/// Questions by when they are asked and by the node that they go to; those about this node's own replicas by none.
type Questions = BTreeMap<(Option<Duration>, Option<NodeId>), Vec<Question>>;

/// The key of the questions that are answered here.
const HERE: (Option<Duration>, Option<NodeId>) = (None, None);

/// `None` if the layout changed meanwhile.
async fn merged(inner: &Arc<Inner>, queries: &[ListQuery]) -> Result<Option<Vec<Listing>>, Error> {
    let mut merging = Merging::new(inner, queries)?;
    let (mut asked, mut why) = (FuturesUnordered::new(), None);
    loop {
        let Some(mut questions) = merging.questions(inner)? else {
            return Err(why.unwrap_or_else(too_few));
        };
        if merging.is_done() {
            return Ok(Some(merging.listings()));
        }
        merging.look_here(inner, &mut questions).await;
        asked.extend(
            questions
                .into_iter()
                .map(async |((spare, node), questions)| {
                    // By then, mostly, it is over.
                    if let Some(time) = spare {
                        tokio::time::sleep(time).await;
                    }
                    let pages = ask_node(inner, node, &questions).await;
                    (questions, pages)
                }),
        );
        if !merging.todo.is_empty() {
            continue;
        }
        match asked.next().await {
            Some((questions, Ok(Some(pages)))) => {
                let answers = questions.iter().zip(pages);
                answers.for_each(|(question, page)| merging.answered(question, page));
            }
            Some((_, Ok(None))) => return Ok(None),
            Some((questions, Err(error))) => {
                why = Some(error);
                questions.iter().for_each(|q| merging.failed(q));
            }
            None => return Err(why.unwrap_or_else(too_few)),
        }
    }
}

impl Merging {
    fn new(inner: &Inner, queries: &[ListQuery]) -> Result<Merging, Error> {
        let (mut parts, mut todo) = (Vec::with_capacity(queries.len()), Vec::new());
        for (number, query) in queries.iter().enumerate() {
            let group = inner.group(query.partition)?;
            let (merge, outputs) = ListMerge::new(group.quorums.clone(), query.clone());
            parts.push(Part {
                group,
                merge,
                listing: None,
            });
            todo.extend(outputs.into_iter().map(|output| (number, output)));
        }
        Ok(Merging { parts, todo })
    }

    /// What is to be asked next; `None` if too few replicas answer.
    fn questions(&mut self, inner: &Inner) -> Result<Option<Questions>, Error> {
        let mut questions = Questions::new();
        let mut asked: BTreeMap<(usize, u32), ReplicaSet> = BTreeMap::new();
        for (number, output) in std::mem::take(&mut self.todo) {
            let part = &mut self.parts[number];
            match output {
                ListOutput::Done(listing) => part.listing = Some(listing),
                ListOutput::Ask {
                    replica,
                    round,
                    query,
                } => {
                    let asked = asked.entry((number, round)).or_default();
                    let spare = part.group.spare_time(inner.peers.as_ref(), *asked);
                    asked.insert(replica);
                    let question = Question::new(&part.group, number, replica, round, query)?;
                    let batch = questions.entry((spare, question.node));
                    batch.or_default().push(question);
                }
                ListOutput::Failed => return Ok(None),
            }
        }
        Ok(Some(questions))
    }

    /// Answers the questions about this node's own replicas, unless they cannot be answered at once, and tells the others that are asked
    /// the same.
    async fn look_here(&mut self, inner: &Inner, questions: &mut Questions) {
        let Some(here) = questions.remove(&HERE) else {
            return;
        };
        let Ok(Some(pages)) = pages_here(inner, &here).await else {
            questions.insert(HERE, here);
            return;
        };
        for (question, known) in here.iter().zip(pages) {
            let same = questions.values_mut().flatten();
            same.filter(|other| other.is_same(question))
                .for_each(|other| other.known = Some(known.clone()));
            self.answered(question, known.page);
        }
    }

    fn answered(&mut self, question: &Question, page: Arc<Page>) {
        let merge = &mut self.parts[question.part].merge;
        let outputs = merge.on_page(question.replica, question.round, page);
        self.note(question, outputs);
    }

    fn failed(&mut self, question: &Question) {
        let merge = &mut self.parts[question.part].merge;
        let outputs = merge.on_failure(question.replica, question.round);
        self.note(question, outputs);
    }

    fn note(&mut self, question: &Question, outputs: Vec<ListOutput>) {
        let outputs = outputs.into_iter();
        self.todo.extend(outputs.map(|todo| (question.part, todo)));
    }

    fn is_done(&self) -> bool {
        self.parts.iter().all(|part| part.listing.is_some())
    }

    fn listings(self) -> Vec<Listing> {
        let listings = self.parts.into_iter().filter_map(|part| part.listing);
        listings.collect()
    }
}

fn too_few() -> Error {
    Error::Unavailable("too few replicas answer a listing".into())
}

#[cfg(test)]
mod tests;
