//! The object's row of a replica, and the versions that the replica keeps.

use std::collections::BTreeMap;
use std::convert::Infallible;

use archipel_base::Stamp;
use archipel_cluster::register::replica::{self, Bounds, Cell, Recent};
use archipel_cluster::register::rules::Mutant;
use archipel_cluster::register::versions::{self, Copied, Kept, VersionReport};
use archipel_cluster::register::{Answer, Request, Rules, Version};
use archipel_storage::{Value, VersionName};

use super::{Row, Versions};
use crate::model::floor::counts;
use crate::model::protocol::Rows;
use crate::model::world::World;

/// An object's row with the versions that it displaced.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct VersionedRow {
    current: Cell<Value>,
    recent: Recent,
    kept: BTreeMap<VersionName, Cell<Value>>,
    /// True once the write fence follows the change of the settings.
    has_moved: bool,
}

impl VersionedRow {
    /// Returns a row that was never written.
    pub(super) fn new(rules: Rules) -> VersionedRow {
        let current = Cell::default();
        VersionedRow {
            recent: Recent::forgotten(rules, &current, &Bounds::without_floors(0, 0)),
            current,
            kept: BTreeMap::new(),
            has_moved: false,
        }
    }

    /// Returns true once the write fence follows the change of the settings.
    pub(super) fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// Lets the write fence follow the change of the settings.
    pub(super) fn move_fence(&mut self) {
        self.has_moved = true;
    }

    /// Returns the names of the kept versions.
    pub(super) fn names(&self) -> impl Iterator<Item = VersionName> {
        self.kept.keys().copied()
    }

    /// Returns the object's row.
    pub(super) fn current(&self) -> &Cell<Value> {
        &self.current
    }

    /// Returns the stamp of a row.
    pub(super) fn stamp(&self, row: Row) -> Stamp {
        match row {
            Row::Object => self.current.stamp,
            Row::Kept(name) => self.kept(name).stamp,
        }
    }

    /// Copies a version to the replica. Returns true if it has that version, or a newer state of
    /// it.
    pub(super) fn copy(
        &mut self,
        rules: Rules,
        bounds: &Bounds,
        name: VersionName,
        version: &Version<Value>,
    ) -> bool {
        let held = self.kept(name);
        match versions::copy(rules, bounds, &self.current, &held, name, version) {
            Copied::Taken(taken) => drop(self.kept.insert(name, taken)),
            Copied::Known => {}
            Copied::Frozen => return false,
        }
        true
    }

    fn kept(&self, name: VersionName) -> Cell<Value> {
        self.kept.get(&name).cloned().unwrap_or_default()
    }

    /// Keeps what the acceptance of a value displaces. Returns false if the replica lacks
    /// something.
    fn keep(&mut self, rules: Rules, bounds: &Bounds, version: &Version<Value>) -> bool {
        let old = replica::above_floor(&self.current, bounds);
        let kept = |name| Ok::<_, Infallible>(self.kept(name));
        let Ok(kept) = versions::keep(rules, &old, version, kept);
        let Kept::Changes(changes) = kept else {
            return false;
        };
        for (name, cell) in changes {
            if cell == Cell::default() {
                self.kept.remove(&name);
            } else {
                self.kept.insert(name, cell);
            }
        }
        true
    }

    /// Returns what the replica tells of all versions that it holds, and of the one asked about.
    fn told(&self, bounds: &Bounds, about: Option<VersionName>) -> Vec<VersionReport> {
        let current = self.current.value.as_ref().map(|v| v.version_name());
        let mut names: Vec<VersionName> = self.names().collect();
        names.extend(about.into_iter().chain(current));
        names.sort_unstable();
        names.dedup();
        let view = |name| versions::view(name, &self.current, &self.kept(name), bounds);
        names.into_iter().map(view).collect()
    }
}

impl Rows<Versions> for VersionedRow {
    fn answer(
        &mut self,
        rules: Rules,
        bounds: &Bounds,
        (about, by_new): &(Option<VersionName>, bool),
        request: Request<Value>,
    ) -> Answer<Value> {
        let told = self.told(bounds, *about);
        let written = match &request {
            Request::Write { version, .. } => Some(version.clone()),
            _ => None,
        };
        let mut recent = self.recent.clone();
        let follows = *by_new == self.has_moved;
        let step = replica::step(rules, bounds, &self.current, &mut recent, request, follows);
        if let (Some(cell), Some(version)) = (&step.cell, &written)
            && !self.keep(rules, bounds, version)
        {
            return Answer::Lacking {
                name: versions::name_of(cell.value.as_ref()),
            };
        }
        self.recent = recent;
        if let Some(cell) = step.cell {
            self.current = cell;
        }
        step.answer.telling(told)
    }

    fn take(
        &mut self,
        rules: Rules,
        bounds: &Bounds,
        row: Row,
        version: Version<Value>,
        settled: bool,
    ) -> bool {
        match row {
            Row::Object => {
                let (cell, mut memory) = (&self.current, self.recent.clone());
                let held = version.clone();
                let spread = replica::spread(rules, bounds, cell, &mut memory, held, settled);
                if let Some(taken) = spread
                    && (rules.breaks(Mutant::SpreadUnkept) || self.keep(rules, bounds, &version))
                {
                    self.current = taken;
                    self.recent = memory;
                }
            }
            Row::Kept(name) => {
                self.copy(rules, bounds, name, &version);
            }
        }
        false
    }

    fn restart(&mut self, rules: Rules, bounds: &Bounds) {
        self.recent = Recent::forgotten(rules, &self.current, bounds);
    }

    fn version(&self, row: Row) -> Version<Value> {
        match row {
            Row::Object => self.current.version(),
            Row::Kept(name) => self.kept(name).version(),
        }
    }

    fn decided(&self, row: Row) -> Option<Stamp> {
        (row == Row::Object).then_some(self.current.stamp)
    }

    fn highest(&self) -> Stamp {
        self.current.stamp.max(self.current.promised)
    }

    fn up_to(&self, floor: Stamp, gone: Stamp) -> BTreeMap<Row, Stamp> {
        let kept = self
            .kept
            .iter()
            .map(|(name, cell)| (Row::Kept(*name), cell));
        let all = kept.chain([(Row::Object, &self.current)]);
        all.filter(|(_, cell)| counts(cell, floor, gone))
            .map(|(row, cell)| (row, cell.stamp))
            .collect()
    }

    fn drop_void(&mut self, bounds: &Bounds) {
        self.current = replica::above_floor(&self.current, bounds);
        let gone = |cell: &Cell<Value>| cell.value.is_none() && cell.stamp <= bounds.gone;
        self.kept.retain(|_, cell| !gone(cell));
    }
}

impl World<Versions> {
    /// Returns the stamp of an object's row that a replica may retire.
    pub(super) fn void_row(&self) -> Option<Stamp> {
        self.nodes.iter().find_map(|node| {
            let current = node.rows.current();
            let kind = current.value.as_ref().map(Value::kind)?;
            let agreed = node.bounds().agreed;
            versions::may_retire(kind, current.stamp, agreed).then_some(current.stamp)
        })
    }
}
