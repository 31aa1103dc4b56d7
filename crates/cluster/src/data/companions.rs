//! Rows that writes bring with them: see [`companion`](crate::register::companion).

use std::sync::Arc;

use archipel_base::{Id, Stamp};
use archipel_storage::{RowKey, Value, VersionName};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use super::Data;
use super::driver::Run;
use crate::error::Error;
use crate::node::companions::{Bringer, CompanionNews, CompanionRow};
use crate::node::detach::DetachOnDrop;
use crate::register::intent::Fate;
use crate::register::message::Remembered;
use crate::register::{Answer, Operation, ReplicaSet, Request, Rules, Start, Version};

impl Data {
    /// Says which rows of this node were written with companions.
    pub fn companion_news(&self) -> &Arc<CompanionNews> {
        self.replica.companion_news()
    }
}

impl Data {
    /// Finds out what became of a write of the row `key` that brought a companion. A quorum holds
    /// the row under the stamp `reached`, which is above the write's.
    ///
    /// Nothing is written, and no other operation is disturbed: replicas that hold this stamp
    /// refuse the ballot, and those that do not are behind all that others wait for.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while a node is in no cluster.
    pub async fn fate_of_bringer(
        self: &Arc<Data>,
        key: &RowKey,
        bringer: &Bringer,
        reached: Stamp,
    ) -> Result<Fate, Error> {
        let group = self.group(key.partition)?;
        let peers = self.peers.as_ref();
        let is_here = |index: &usize| {
            let node = group.members.get(*index).map(|member| member.node.node);
            node.is_some_and(|node| !group.is_away(peers, &node))
        };
        let ask = group.quorums.all().iter().filter(is_here);
        let mut answers: FuturesUnordered<_> = ask
            .map(|index| {
                let group = &group;
                async move {
                    let request = Request::Prepare {
                        ballot: reached,
                        asking: Some(bringer.write),
                        guarded: false,
                    };
                    (index, self.ask_about(group, index, key, request).await)
                }
            })
            .collect();
        let start = || Start {
            rules: Rules::CORRECT,
            quorums: group.quorums.clone(),
        };
        let (intent, mut told) = (bringer.intent(), Vec::new());
        let mut fate = Fate::Unknown;
        while let (Fate::Unknown, Some((index, answer))) = (fate, answers.next().await) {
            match answer.map(remembered) {
                Ok(Some(remembered)) => told.push((index, remembered)),
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "a replica tells nothing of a write"),
            }
            let operation = Operation::<Value>::fate_of_past;
            fate = operation(start(), &intent, group.epoch, reached, told.clone());
        }
        Ok(fate)
    }
}

/// Returns what a replica told of a write.
fn remembered(answer: Answer<Value>) -> Option<Remembered> {
    match answer {
        Answer::Stale { remembered, .. } => remembered,
        Answer::Promised {
            accepted,
            known_from,
            ..
        } => Some(Remembered {
            accepted,
            known_from,
        }),
        _ => None,
    }
}

impl Run<'_> {
    /// Returns the run. Its own writes have this id.
    pub fn writing(mut self, write: Id) -> Self {
        self.write = write;
        self
    }

    /// Returns the companions that a request brings. The operation also writes versions of others
    /// again; they bring nothing.
    pub(super) fn companions_of(&self, request: &Request<Value>) -> Vec<CompanionRow> {
        match request {
            Request::Write { version, .. } if version.write == self.write => {
                let name = version.value.as_ref().and_then(Value::version_name);
                self.companions_under(version.stamp, name)
            }
            _ => Vec::new(),
        }
    }

    fn companions_under(&self, stamp: Stamp, version: VersionName) -> Vec<CompanionRow> {
        let bringer = Bringer::new(stamp, self.write, self.group.epoch);
        let companions = self.companions.iter();
        companions.map(|one| one.of(&bringer, version)).collect()
    }

    /// Makes sure that a quorum holds the companions of a write that took effect. Others may have
    /// brought its value to replicas. Then this takes one more round.
    pub(super) async fn bring_companions(
        &self,
        operation: &Operation<Value>,
        stamp: Stamp,
    ) -> Result<(), Error> {
        if self.companions.is_empty() || operation.has_own_quorum() {
            return Ok(());
        }
        let version = operation.attempt().filter(|_| operation.is_keeping());
        for companion in self.companions_under(stamp, version) {
            let row = RowKey {
                partition: self.key.partition,
                key: companion.key,
            };
            let version = Version {
                stamp,
                write: self.write,
                value: Some(companion.value),
            };
            self.inner.write_companion(row, version).await?;
        }
        Ok(())
    }
}

impl Data {
    /// Writes a companion under the stamp of its write. A replica with a newer row has had it: the
    /// write was sent again, or the companion was deleted.
    fn write_companion(
        self: &Arc<Data>,
        row: RowKey,
        version: Version<Value>,
    ) -> BoxFuture<'_, Result<(), Error>> {
        // Boxed, because it is rare, and because an answer may take an operation of its own.
        Box::pin(async move {
            let group = self.group(row.partition)?;
            let mut answers: FuturesUnordered<_> = group
                .quorums
                .all()
                .iter()
                .map(|index| {
                    let (data, group, row) = (self.clone(), group.clone(), row.clone());
                    let request = Request::Write {
                        version: version.clone(),
                        guarded: false,
                    };
                    // Each goes on to its end, because all replicas should have the companion.
                    DetachOnDrop::new(async move {
                        let answer = data.ask_about(&group, index, &row, request).await;
                        (index, answer)
                    })
                })
                .collect();
            let mut holders = ReplicaSet::EMPTY;
            while let Some((index, answer)) = answers.next().await {
                match answer {
                    Ok(Answer::Accepted | Answer::Stale { .. }) => holders.insert(index),
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, "a companion is not written to a replica")
                    }
                }
                if group.quorums.is_quorum(holders) {
                    return Ok(());
                }
            }
            let why = "it is not known whether a quorum holds what the write brings";
            Err(Error::Unavailable(why.into()))
        })
    }
}
