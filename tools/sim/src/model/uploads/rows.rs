//! The two rows of a replica.

use archipel_base::{Id, Stamp, Writer};
use archipel_cluster::register::intent::{self, Marking, Pointing};
use archipel_cluster::register::replica::{self, Bounds, Cell, Recent};
use archipel_cluster::register::rules::Mutant;
use archipel_cluster::register::{Answer, Intent, Request, Rules, Version};

use super::bringing::Bringing;
use super::{Row, Uploads, Value};
use crate::model::floor::counts;
use crate::model::protocol::Rows;

/// An object's row and an upload's row.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TwoRows {
    cells: [Cell<Value>; 2],
    recent: [Recent; 2],
    /// The read of the upload's row that the replica does because it lacks that row.
    pub(super) bringing: Bringing,
    /// With the mutant `MarkApart`: a mark that the next transaction will make.
    unmarked: Option<(Intent, Stamp)>,
}

/// The effect on the upload's row of what a replica accepts for the object's row.
enum Effect {
    /// The row stays as it is.
    Stay,
    /// The row becomes this in the same transaction.
    Beside(Cell<Value>),
    /// With the mutant `MarkApart`: the next transaction will make a mark.
    Apart(Intent, Stamp),
    /// The replica refuses the request instead.
    Refuse(Answer<Value>),
}

impl TwoRows {
    /// Returns the rows of a replica that has taken part in the beginning of the upload, at this
    /// time, or that lacks both rows.
    pub(super) fn new(rules: Rules, began: Option<u64>) -> TwoRows {
        let mut cells = [Cell::default(), Cell::default()];
        if let Some(time) = began {
            let writer = Writer(99);
            let stamp = Stamp { time, writer };
            cells[Row::Upload as usize] = Cell {
                promised: stamp,
                stamp,
                write: Id([99; 16]),
                value: Some(Value::LIVE),
            };
        }
        let bounds = Bounds::without_floors(0, 0);
        TwoRows {
            recent: forgotten(rules, &cells, &bounds),
            cells,
            bringing: Bringing::default(),
            unmarked: None,
        }
    }

    /// Returns the effect of a request for the object's row.
    fn effect(
        &self,
        rules: Rules,
        bounds: &Bounds,
        own: Option<Intent>,
        request: &Request<Value>,
    ) -> Effect {
        let upload = replica::above_floor(&self.cells[Row::Upload as usize], bounds);
        match request {
            Request::Prepare {
                ballot,
                guarded: true,
                ..
            } if own.is_some() => {
                match intent::promise(rules, &upload, pointing(&upload), *ballot) {
                    Ok(promise) => Effect::Beside(promise),
                    Err(refusal) => Effect::Refuse(refusal),
                }
            }
            Request::Write { version, .. } => match intent_of(version, own) {
                Some((intent, is_earlier)) => {
                    let may_lack = self.bringing.is_over || is_earlier;
                    mark(rules, &upload, intent, version.stamp, may_lack)
                }
                None => Effect::Stay,
            },
            _ => Effect::Stay,
        }
    }

    /// Returns true if a mark is left for a second transaction.
    pub(super) fn lacks_mark(&self) -> bool {
        self.unmarked.is_some()
    }

    /// Makes the mark that a broken replica left out.
    pub(super) fn mark_later(&mut self, rules: Rules) {
        let Some((intent, stamp)) = self.unmarked.take() else {
            return;
        };
        let upload = &self.cells[Row::Upload as usize];
        let write = (stamp, intent.write);
        if intent::mark(rules, upload, pointing(upload), write, false) == Marking::Mark {
            self.cells[Row::Upload as usize] = marked(upload, intent, stamp);
        }
    }

    fn change(&mut self, effect: Effect) {
        match effect {
            Effect::Beside(upload) => self.cells[Row::Upload as usize] = upload,
            Effect::Apart(intent, stamp) => self.unmarked = Some((intent, stamp)),
            Effect::Stay | Effect::Refuse(_) => {}
        }
    }
}

impl Rows<Uploads> for TwoRows {
    fn answer(
        &mut self,
        rules: Rules,
        bounds: &Bounds,
        (row, own): &(Row, Option<Intent>),
        request: Request<Value>,
    ) -> Answer<Value> {
        let effect = match row {
            Row::Object => self.effect(rules, bounds, *own, &request),
            Row::Upload => Effect::Stay,
        };
        if let Effect::Refuse(refusal) = effect {
            return refusal;
        }
        let row = *row as usize;
        let (cell, recent) = (&self.cells[row], &mut self.recent[row]);
        let step = replica::step(rules, bounds, cell, recent, request, true);
        if let Some(cell) = step.cell {
            self.cells[row] = cell;
        }
        if matches!(step.answer, Answer::Accepted | Answer::Promised { .. }) {
            self.change(effect);
        }
        step.answer
    }

    fn take(
        &mut self,
        rules: Rules,
        bounds: &Bounds,
        row: Row,
        version: Version<Value>,
        settled: bool,
    ) -> bool {
        let stamp = version.stamp;
        let is_marking = row == Row::Object && !rules.breaks(Mutant::SpreadUnmarked);
        let named = intent_of(&version, None).filter(|_| is_marking);
        let cell = &self.cells[row as usize];
        let mut memory = self.recent[row as usize].clone();
        let taken = replica::spread(rules, bounds, cell, &mut memory, version, settled);
        let Some(taken) = taken else {
            return false;
        };
        if let Some((intent, is_earlier)) = named {
            let upload = replica::above_floor(&self.cells[Row::Upload as usize], bounds);
            let may_lack = self.bringing.is_over || is_earlier;
            match mark(rules, &upload, intent, stamp, may_lack) {
                Effect::Refuse(refusal) => return refusal == Answer::LacksPointing,
                effect => self.change(effect),
            }
        }
        self.recent[row as usize] = memory;
        self.cells[row as usize] = taken;
        false
    }

    fn restart(&mut self, rules: Rules, bounds: &Bounds) {
        self.recent = forgotten(rules, &self.cells, bounds);
        self.unmarked = None;
        self.bringing.stop();
    }

    fn waits_for(&self, operation: u32, round: u32) -> bool {
        self.bringing.waits_for(operation, round)
    }

    fn version(&self, row: Row) -> Version<Value> {
        self.cells[row as usize].version()
    }

    fn decided(&self, row: Row) -> Option<Stamp> {
        Some(self.cells[row as usize].stamp)
    }

    fn highest(&self) -> Stamp {
        let seen = self.cells.iter().map(|cell| cell.stamp.max(cell.promised));
        seen.max().unwrap_or_default()
    }

    fn up_to(&self, floor: Stamp, gone: Stamp) -> [Option<Stamp>; 2] {
        let stamp = |cell: &Cell<Value>| counts(cell, floor, gone).then_some(cell.stamp);
        self.cells.each_ref().map(stamp)
    }

    fn drop_void(&mut self, bounds: &Bounds) {
        for cell in &mut self.cells {
            *cell = replica::above_floor(cell, bounds);
        }
    }
}

fn forgotten(rules: Rules, cells: &[Cell<Value>; 2], bounds: &Bounds) -> [Recent; 2] {
    cells
        .each_ref()
        .map(|cell| Recent::forgotten(rules, cell, bounds))
}

/// Returns the effect of a write of the object that comes with an intent. `may_lack` is true if the
/// replica may lack the upload.
fn mark(
    rules: Rules,
    upload: &Cell<Value>,
    intent: Intent,
    stamp: Stamp,
    may_lack: bool,
) -> Effect {
    let write = (stamp, intent.write);
    match intent::mark(rules, upload, pointing(upload), write, may_lack) {
        Marking::Refuse(refusal) => Effect::Refuse(refusal),
        Marking::Mark if rules.breaks(Mutant::MarkApart) => Effect::Apart(intent, stamp),
        Marking::Mark => Effect::Beside(marked(upload, intent, stamp)),
        Marking::Stay => Effect::Stay,
    }
}

fn pointing(row: &Cell<Value>) -> Pointing {
    match row.value {
        None if row.stamp == Stamp::ZERO => Pointing::Absent,
        None => Pointing::Over,
        Some(Value { intent: None, .. }) => Pointing::Live,
        Some(Value {
            intent: Some(intent),
            ..
        }) => Pointing::To(intent.write),
    }
}

/// Returns the intent that comes with a version: the one that its value names, or the one that its
/// own coordinator named. Then true if the replica may lack the upload, because the intent is of an
/// earlier write.
fn intent_of(version: &Version<Value>, own: Option<Intent>) -> Option<(Intent, bool)> {
    let named = version.value.and_then(|value| value.intent);
    // The operation also writes versions of others again.
    let own = own.filter(|own| own.write == version.write);
    let intent = named.or(own)?;
    Some((intent, intent.write != version.write))
}

fn marked(row: &Cell<Value>, intent: Intent, stamp: Stamp) -> Cell<Value> {
    Cell {
        promised: row.promised.max(stamp),
        stamp,
        write: intent.write,
        value: Some(Value {
            number: 0,
            intent: Some(intent),
        }),
    }
}
