//! The answer to a `Prepare` or a `Write`, in one transaction.

use std::sync::Arc;

use archipel_storage as storage;
use archipel_storage::store::Transact;
use archipel_storage::{Row, RowKey, RowTxn, Value, VersionName};
use parking_lot::Mutex;

use super::remembered::Remembered;
use super::{Around, cell_of, companions, guards, limits, offer, pointing, put_cell, versions};
use crate::node::companions::CompanionRow;
use crate::node::epochs::Under;
use crate::node::floors;
use crate::node::wire::RowCall;
use crate::register::versions::Copied;
use crate::register::{Answer, Bounds, Cell, Recent, Request, Rules, Version, replica};

/// A `Prepare` or a `Write`, with what its answer needs beside the transaction.
pub(super) struct Change {
    pub call: RowCall,
    /// True if a quorum has told that the row which points to the write is over.
    pub is_over: bool,
    /// The bounds without the partition's floors.
    pub bounds: Bounds,
    pub around: Around,
    pub memory: Arc<Mutex<Remembered>>,
    pub under: Under,
    /// True if no other node holds the partition.
    pub is_alone: bool,
}

impl Change {
    /// Answers the request, and stores what belongs to the answer.
    pub fn run(self, txn: &mut RowTxn<'_>) -> Result<Answer<Value>, storage::Error> {
        // A newer epoch was learnt while the request waited.
        if let Some(epoch) = self.under.superseded() {
            return Ok(Answer::Superseded { epoch });
        }
        let (key, call, around) = (self.call.row_key(), &self.call, &self.around);
        let bounds = floors::bounds(&txn.reader(), key.partition, self.bounds)?;
        if let Some(object) = (around.hooks.kept_in)(&key) {
            return take_copy(txn, &key, object, &call.request, &bounds, around);
        }
        let (row, is_lost) = match &call.request {
            Request::Write { .. } => self.row_to_replace(txn, &key)?,
            Request::Read { .. } | Request::Prepare { .. } => (txn.row(&key)?, false),
        };
        let cell = cell_of(row.unwrap_or_default());
        let known = (self.is_over, &bounds);
        let marks = match pointing::beside(txn, call, known, around.hooks)? {
            Ok(marks) => marks,
            Err(refusal) => return Ok(refusal),
        };
        let guard_holds = guards::hold(&txn.reader(), call, around.hooks)?
            && limits::are_kept(txn, call, &cell, around.hooks)?;
        let reports = match versions::asked(&txn.reader(), call, &cell, &bounds, around)? {
            Ok(reports) => reports,
            Err(refusal) => return Ok(refusal),
        };
        let remembered = self.memory.lock().take(&key, txn.era());
        let mut recent = remembered.unwrap_or_else(|| match is_lost {
            true => Recent::lost(&bounds),
            false => Recent::forgotten(Rules::CORRECT, &cell, &bounds),
        });
        let before = Before {
            key: &key,
            cell: &cell,
            bounds: &bounds,
            around,
        };
        // An error stores nothing, so what is remembered of the row is dropped with it.
        let answer = before.step(txn, &mut recent, (call, guard_holds), marks)?;
        self.memory.lock().put(key, recent);
        Ok(answer.telling(reports))
    }

    /// Returns the row that a write replaces. The promise of a damaged row is lost, so other
    /// replicas must say what the row is. If there are no other replicas, a write may replace it.
    /// The second value is true then: the row was lost.
    fn row_to_replace(
        &self,
        txn: &RowTxn<'_>,
        key: &RowKey,
    ) -> Result<(Option<Row>, bool), storage::Error> {
        match txn.row_to_replace(key) {
            Err(storage::Error::Damaged(_)) if self.is_alone => Ok((None, true)),
            row => Ok((row?, false)),
        }
    }
}

/// A row before its change, and what the change depends on.
struct Before<'a> {
    key: &'a RowKey,
    cell: &'a Cell<Value>,
    bounds: &'a Bounds,
    around: &'a Around,
}

impl Before<'_> {
    /// Lets the protocol answer the request, and stores what the answer says. `marks` are the
    /// changes of pointing rows that belong to it.
    fn step(
        &self,
        txn: &mut RowTxn<'_>,
        recent: &mut Recent,
        (call, guard_holds): (&RowCall, bool),
        marks: Vec<pointing::Beside>,
    ) -> Result<Answer<Value>, storage::Error> {
        let (rules, request) = (Rules::CORRECT, call.request.clone());
        let step = replica::step(rules, self.bounds, self.cell, recent, request, guard_holds);
        let accepted = match &call.request {
            Request::Write { version, .. } if step.answer == Answer::Accepted => Some(version),
            _ => None,
        };
        let is_new = step.cell.is_some();
        let companion_rows = match self.store(txn, step.cell, accepted, &call.companions)? {
            Ok(rows) => rows,
            Err(refusal) => {
                if let Some(version) = accepted.filter(|_| is_new) {
                    recent.undo(version.stamp, version.write);
                }
                return Ok(refusal);
            }
        };
        if matches!(step.answer, Answer::Accepted | Answer::Promised { .. }) {
            pointing::store(txn, marks, self.around)?;
        }
        for (key, row) in companion_rows {
            txn.set(&key, &row)?;
        }
        Ok(step.answer)
    }

    /// Stores the row's new state, if there is one, with the kept rows that change. Returns the
    /// companions to store, or the answer that refuses the write.
    fn store(
        &self,
        txn: &mut RowTxn<'_>,
        new: Option<Cell<Value>>,
        accepted: Option<&Version<Value>>,
        companions: &[CompanionRow],
    ) -> Result<companions::Verdict, storage::Error> {
        let companions = (self.key.partition, companions);
        let rows = companions::rows_of(txn, companions, accepted, self.bounds, self.around)?;
        match (rows, new) {
            (Ok(rows), Some(new)) => {
                let stored = put_cell(txn, self.key, self.cell, new, accepted, self.around)?;
                Ok(stored.map(|()| rows))
            }
            (rows, _) => Ok(rows),
        }
    }
}

/// Takes a copy of a kept version, which another node hands round: no coordinator writes a kept
/// row. `row` is the object's, `name` the version's.
fn take_copy(
    txn: &mut RowTxn<'_>,
    key: &RowKey,
    (row, name): (RowKey, VersionName),
    request: &Request<Value>,
    bounds: &Bounds,
    around: &Around,
) -> Result<Answer<Value>, storage::Error> {
    match request {
        Request::Write { version, .. } => {
            match offer::copy(txn, key, (&row, name), version, bounds, around)? {
                Copied::Taken(_) | Copied::Known => Ok(Answer::Accepted),
                Copied::Frozen => Ok(Answer::Stale {
                    highest: bounds.frozen,
                    remembered: None,
                }),
            }
        }
        Request::Read { .. } | Request::Prepare { .. } => Err(storage::Error::Refused(
            "a kept version has no ballots".into(),
        )),
    }
}

/// Returns how a request runs. A tombstone is written even while the disk is nearly full, because
/// it frees space. A promise is too, because a conditional deletion needs one. So is a value that
/// is written again as it is, so that another row may end.
pub(super) fn how_to_run(call: &RowCall) -> Transact {
    let how = Transact::new(call.durability());
    match &call.request {
        Request::Write { version, .. } => match &version.value {
            Some(_) if !call.frees => how,
            _ => how.shrinking(),
        },
        Request::Read { .. } | Request::Prepare { .. } => how.shrinking(),
    }
}
