//! Gates: what keeps commits out of a bucket that is being deleted.
//!
//! In each partition that holds keys of a bucket stands a row, the *gate*. Every write of an object
//! is guarded by it: a replica takes the write only while the gate is open there, in the same
//! transaction. So once closed gates are chosen, nothing more is acknowledged, on any node, and a bucket
//! found empty after that stays empty.
//!
//! Who moves gates first takes the bucket's **turn**: a number in the bucket's row that only
//! grows, taken by a conditional write. A gate only follows a higher turn, and a bucket is deleted only by who
//! still has its turn. So whoever was overtaken, however late its messages, changes nothing.

use std::time::Duration;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, PartitionId};
use archipel_cluster::{Decision, How};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};

use crate::Model;
use crate::bucket::{Bucket, Turn};
use crate::content::damaged_row;
use crate::error::Error;
use crate::rowkeys;

/// After this time a turn may be taken from who has it: it crashed, or its node is away.
const TURN_MS: u64 = 30_000;
/// How often a commit that finds a gate closed looks again, and after what time.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// A gate's row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Gate {
    /// Who moved it.
    #[serde(rename = "t")]
    turn: u64,
    #[serde(rename = "o")]
    open: bool,
}

impl Versioned for Gate {
    const VERSION: u8 = 1;
}

/// Whether a live row with this head holds what it guards: a closed gate does not.
pub fn holds(key: &RowKey, head: &[u8]) -> bool {
    match rowkeys::kind(&key.key) {
        rowkeys::Kind::Gate => codec::decode::<Gate>(head).is_ok_and(|gate| gate.open),
        _ => true,
    }
}

impl Model {
    /// The gate that guards a row of a bucket.
    pub(crate) fn gate_of(&self, bucket: &Id, row: &RowKey) -> RowKey {
        rowkeys::gate(row.partition, bucket)
    }

    /// What a commit does that found a gate closed: waits, or opens it if it should not be.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`] if the bucket is gone; [`Error::Conflict`] if it is being deleted
    /// for longer than one waits.
    pub(crate) async fn gate_is_closed(&self, bucket: &Bucket, look: u32) -> Result<(), Error> {
        self.refresh_bucket(&bucket.name).await?;
        let current = self.bucket(&bucket.name).filter(|b| b.id == bucket.id);
        let current = current.ok_or(Error::NoSuchBucket)?;
        let taken_for = current
            .turn
            .since_ms
            .map(|since| self.now_ms().abs_diff(since));
        if taken_for.is_none_or(|ms| ms > TURN_MS) {
            self.open_gates(&current).await?;
        } else if look < LOOKS {
            tokio::time::sleep(PAUSE).await;
        } else {
            return Err(Error::Conflict);
        }
        Ok(())
    }

    /// Takes the bucket's turn, opens all gates, and gives the turn back.
    pub(crate) async fn open_gates(&self, bucket: &Bucket) -> Result<(), Error> {
        let turn = self.take_turn(bucket).await?;
        self.move_gates(&bucket.id, turn, true).await?;
        self.leave_turn(bucket, turn).await
    }

    /// Takes the bucket's turn; gives its number.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`]; [`Error::Conflict`] if another has it.
    pub(crate) async fn take_turn(&self, bucket: &Bucket) -> Result<u64, Error> {
        let now = self.now_ms();
        let changed = self
            .change_row(bucket, move |row| {
                let taken = row
                    .turn
                    .since_ms
                    .is_some_and(|t| now.abs_diff(t) <= TURN_MS);
                if taken {
                    return Err(Error::Conflict);
                }
                row.turn = Turn {
                    number: row.turn.number + 1,
                    since_ms: Some(now),
                };
                Ok(())
            })
            .await?;
        Ok(changed.turn.number)
    }

    pub(crate) async fn leave_turn(&self, bucket: &Bucket, turn: u64) -> Result<(), Error> {
        let left = self.change_row(bucket, move |row| {
            if row.turn.number == turn {
                row.turn.since_ms = None;
            }
            Ok(())
        });
        left.await.map(|_| ())
    }

    /// Moves all gates of a bucket, each unless it has seen a later turn.
    pub(crate) async fn move_gates(&self, bucket: &Id, turn: u64, open: bool) -> Result<(), Error> {
        let partitions = rowkeys::bucket_partitions(self.cluster(), bucket);
        let moves = partitions
            .into_iter()
            .map(|partition| self.move_gate(partition, bucket, Gate { turn, open }));
        try_join_all(moves).await.map(|_| ())
    }

    async fn move_gate(&self, partition: PartitionId, bucket: &Id, to: Gate) -> Result<(), Error> {
        let value = Value {
            head: codec::encode(&to).into(),
            ..Value::default()
        };
        let row = rowkeys::gate(partition, bucket);
        let how = How::durable(Durability::Fsync);
        self.cluster()
            .update(&row, how, move |current| {
                match current.map(|value| codec::decode::<Gate>(&value.head)) {
                    Some(Ok(gate)) if gate.turn > to.turn => Decision::Abort(Error::Conflict),
                    Some(Err(error)) => Decision::Abort(damaged_row(error)),
                    _ => Decision::Write(Some(value.clone())),
                }
            })
            .await?
    }

    /// Runs a commit guarded by a gate, and looks into it if the gate is closed.
    pub(crate) async fn through_gate<T, F>(
        &self,
        bucket: &Bucket,
        commit: impl Fn() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, archipel_cluster::Error>>,
    {
        for look in 0.. {
            match commit().await {
                Err(archipel_cluster::Error::Guarded) => self.gate_is_closed(bucket, look).await?,
                other => return Ok(other?),
            }
        }
        Err(Error::Conflict)
    }
}
