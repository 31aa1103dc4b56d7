//! The row of a replica.

use archipel_base::Stamp;
use archipel_cluster::register::replica::{self, Bounds, Cell, Recent};
use archipel_cluster::register::{Answer, Request, Rules, Version};

use super::Register;
use crate::model::floor::counts;
use crate::model::protocol::Rows;

/// One row.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OneRow {
    cell: Cell<u32>,
    recent: Recent,
}

impl OneRow {
    /// Returns a row that was never written.
    pub(super) fn new(rules: Rules) -> OneRow {
        let cell = Cell::default();
        OneRow {
            recent: Recent::forgotten(rules, &cell, &Bounds::without_floors(0, 0)),
            cell,
        }
    }
}

impl Rows<Register> for OneRow {
    fn answer(
        &mut self,
        rules: Rules,
        bounds: &Bounds,
        _about: &(),
        request: Request<u32>,
    ) -> Answer<u32> {
        let step = replica::step(rules, bounds, &self.cell, &mut self.recent, request, true);
        if let Some(cell) = step.cell {
            self.cell = cell;
        }
        step.answer
    }

    fn take(
        &mut self,
        rules: Rules,
        bounds: &Bounds,
        _row: (),
        version: Version<u32>,
        settled: bool,
    ) -> bool {
        let (cell, recent) = (&self.cell, &mut self.recent);
        if let Some(taken) = replica::spread(rules, bounds, cell, recent, version, settled) {
            self.cell = taken;
        }
        false
    }

    fn restart(&mut self, rules: Rules, bounds: &Bounds) {
        self.recent = Recent::forgotten(rules, &self.cell, bounds);
    }

    fn version(&self, _row: ()) -> Version<u32> {
        self.cell.version()
    }

    fn decided(&self, _row: ()) -> Option<Stamp> {
        Some(self.cell.stamp)
    }

    fn highest(&self) -> Stamp {
        self.cell.stamp.max(self.cell.promised)
    }

    fn up_to(&self, floor: Stamp, gone: Stamp) -> Option<Stamp> {
        counts(&self.cell, floor, gone).then_some(self.cell.stamp)
    }

    fn drop_void(&mut self, bounds: &Bounds) {
        self.cell = replica::above_floor(&self.cell, bounds);
    }
}
