//! Rows that writes bring with them: see [`companion`](crate::register::companion).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use archipel_base::{Id, Stamp, boxed};
use archipel_storage::{RowKey, Value, VersionName};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::Data;
use super::driver::Run;
use super::local::{FOR_THE_OTHERS, next_before};
use super::options::WriteOptions;
use super::rows::State;
use crate::error::Error;
use crate::node::companions::{Bringer, Companion, CompanionNews, CompanionRow};
use crate::node::detach::DetachOnDrop;
use crate::node::group::Group;
use crate::register::coordinator::PastFate;
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
    /// The second value is true if all replicas told what they remember. Otherwise a later call may
    /// find out more. Once a quorum has told and the fate is open still, the others have only the
    /// time `late`, if it is given. Once the fate is known, they have a moment in any case.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while a node is in no cluster.
    #[boxed]
    pub async fn fate_of_bringer(
        self: &Arc<Data>,
        key: &RowKey,
        bringer: &Bringer,
        reached: Stamp,
        late: Option<Duration>,
    ) -> Result<(PastFate, bool), Error> {
        let group = self.group(key.partition)?;
        let ask = async |index| {
            let request = Request::Prepare {
                ballot: reached,
                asking: Some(bringer.write),
                guarded: false,
            };
            (index, self.ask_about(&group, index, key, request).await)
        };
        let here = self.replicas_here(&group);
        let mut answers: FuturesUnordered<_> = here.iter().map(ask).collect();
        let start = || Start {
            rules: Rules::CORRECT,
            quorums: group.quorums.clone(),
        };
        let (intent, mut told) = (bringer.intent(), Vec::new());
        let (mut fate, mut until) = (PastFate::Unknown, None);
        let is_open = |fate: &PastFate| matches!(fate, PastFate::Unknown);
        // The write may have taken effect under several stamps, so the others are heard, too.
        while let Some((index, answer)) = next_before(&mut answers, until).await {
            match answer.map(remembered) {
                Ok(Some(remembered)) => told.push((index, remembered)),
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "a replica tells nothing of a write"),
            }
            let (was_open, now) = (is_open(&fate), Instant::now());
            let fate_of_past = Operation::<Value>::fate_of_past;
            fate = fate_of_past(start(), &intent, group.epoch, reached, told.clone());
            if was_open && !is_open(&fate) {
                until = until.max(Some(now + FOR_THE_OTHERS));
            } else if until.is_none() && group.quorums.is_quorum(indices(&told)) {
                until = late.map(|late| now + late);
            }
        }
        let silent = group.quorums.all().without(indices(&told));
        Ok((fate, silent.is_empty()))
    }

    /// Returns the state of a companion's row as any replica holds it. One that lives is at a
    /// quorum then. Returns `None` if that cannot be known, or done, now.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while a node is in no cluster.
    #[boxed]
    pub async fn find_companion(self: &Arc<Data>, key: &RowKey) -> Result<Option<State>, Error> {
        let group = self.group(key.partition)?;
        let look = async |index| {
            let read = Request::Read { with_value: true };
            (index, self.ask_about(&group, index, key, read).await)
        };
        let here = self.replicas_here(&group);
        let mut looks: FuturesUnordered<_> = here.iter().map(look).collect();
        let (mut lacking, mut holders) = (ReplicaSet::EMPTY, ReplicaSet::EMPTY);
        let (mut found, mut until) = (None, None);
        while let Some((index, answer)) = next_before(&mut looks, until).await {
            match answer {
                Ok(Answer::Found { version, .. }) => match (&version.value, version.stamp) {
                    (None, Stamp::ZERO) => lacking.insert(index),
                    (None, _) => return Ok(Some(State::Tombstone)),
                    (Some(_), _) => {
                        holders.insert(index);
                        found = Some(version);
                    }
                },
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "a replica tells nothing of a companion"),
            }
            if until.is_none() && group.quorums.is_quorum(lacking.union(holders)) {
                until = Some(Instant::now() + FOR_THE_OTHERS);
            }
        }
        let Some(version) = found else {
            let is_nowhere = group.quorums.all().without(lacking).is_empty();
            return Ok(is_nowhere.then_some(State::Absent));
        };
        if !group.quorums.is_quorum(holders)
            && let Err(error) = self.write_companion(key.clone(), version).await
        {
            tracing::debug!(%error, "a companion is not brought to a quorum");
            return Ok(None);
        }
        Ok(Some(State::Live))
    }

    /// Deletes a companion, also if it comes only later.
    ///
    /// # Errors
    /// As [`write`](Data::write).
    #[boxed]
    pub async fn delete_companion(
        self: &Arc<Data>,
        key: &RowKey,
        how: WriteOptions<'_>,
    ) -> Result<(), Error> {
        if let Some(stamp) = Bringer::stamp_in(&key.key) {
            // The deletion has a higher stamp, also if another node's clock is ahead.
            self.next_stamp(stamp);
        }
        self.write(key, None, how).await?;
        Ok(())
    }

    /// Returns the replicas of a group whose nodes are not away.
    pub(super) fn replicas_here(&self, group: &Group) -> ReplicaSet {
        let peers = self.peers.as_ref();
        let is_here = |index: &usize| {
            let node = group.members.get(*index).map(|member| member.node.node);
            node.is_some_and(|node| !group.is_away(peers, &node))
        };
        group.quorums.all().iter().filter(is_here).collect()
    }
}

/// Returns the replicas that told something.
fn indices<T>(told: &[(usize, T)]) -> ReplicaSet {
    told.iter().map(|(index, _)| *index).collect()
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

/// The companions that the writes of a run bring.
pub(crate) struct Brings<'a> {
    rows: &'a [Companion],
    /// The attempts that went out, each with its epoch.
    sent: Vec<(Stamp, u64)>,
    /// True once the operation is refused.
    refused: Option<&'a AtomicBool>,
}

impl<'a> Brings<'a> {
    pub fn new(rows: &'a [Companion]) -> Brings<'a> {
        Brings {
            rows,
            sent: Vec::new(),
            refused: None,
        }
    }

    /// Returns the companions of the run as it stands. A refused operation may still write, so that
    /// its refusal is final. That is no change of its own.
    fn rows(&self) -> &'a [Companion] {
        match self.refused.is_some_and(|it| it.load(Ordering::Relaxed)) {
            true => &[],
            false => self.rows,
        }
    }
}

impl<'a> Run<'a> {
    /// Returns the run. Its own writes have this id.
    pub fn writing(mut self, write: Id) -> Self {
        self.write = write;
        self
    }

    /// Returns the run. Its writes bring no companions while the flag is true.
    pub fn unless(mut self, refused: &'a AtomicBool) -> Self {
        self.companions.refused = Some(refused);
        self
    }

    /// Notes in which epoch an attempt goes out.
    pub(super) fn note_attempt(&mut self, request: &Request<Value>) {
        if let Request::Write { version, .. } = request
            && version.write == self.write
            && !self.companions.rows.is_empty()
            && self.epoch_of(version.stamp).is_none()
        {
            let attempt = (version.stamp, self.group.epoch);
            self.companions.sent.push(attempt);
        }
    }

    fn epoch_of(&self, stamp: Stamp) -> Option<u64> {
        let mut sent = self.companions.sent.iter();
        sent.find(|(sent, _)| *sent == stamp)
            .map(|(_, epoch)| *epoch)
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
        // Others may have written the value under a stamp of their own.
        let epoch = self.epoch_of(stamp).unwrap_or(self.group.epoch);
        let bringer = Bringer::new(stamp, self.write, epoch);
        let companions = self.companions.rows().iter();
        companions.map(|one| one.of(&bringer, version)).collect()
    }

    /// Makes sure that a quorum holds the companions of a write that took effect. Others may have
    /// brought its value to replicas. Then this takes one more round.
    pub(super) async fn bring_companions(
        &self,
        operation: &Operation<Value>,
        stamp: Stamp,
    ) -> Result<(), Error> {
        if self.companions.rows().is_empty() || operation.has_own_quorum() {
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
    /// Writes a companion to a quorum, under the stamp of its write.
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
                    let version = version.clone();
                    // Each goes on to its end, because all replicas should have the companion.
                    DetachOnDrop::new(async move {
                        let held = data.give_companion(&group, index, &row, version).await;
                        (index, held)
                    })
                })
                .collect();
            let mut holders = ReplicaSet::EMPTY;
            while let Some((index, held)) = answers.next().await {
                match held {
                    Ok(true) => holders.insert(index),
                    Ok(false) => {}
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

    /// Brings a companion to one replica. Returns true if the replica holds it or its deletion.
    async fn give_companion(
        self: &Arc<Data>,
        group: &Group,
        index: usize,
        row: &RowKey,
        version: Version<Value>,
    ) -> Result<bool, Error> {
        let stamp = version.stamp;
        let write = Request::Write {
            version,
            guarded: false,
        };
        match self.ask_about(group, index, row, write).await? {
            Answer::Accepted => Ok(true),
            // It may have promised a higher stamp, or have closed a floor, and hold nothing.
            Answer::Stale { .. } => {
                let read = Request::Read { with_value: false };
                let found = self.ask_about(group, index, row, read).await?;
                Ok(matches!(found, Answer::Found { version, .. } if version.stamp >= stamp))
            }
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests;
