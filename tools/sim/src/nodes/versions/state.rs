//! The state of the [reference model](super::reference): the versions of a key, and what changes
//! them.

use std::collections::BTreeSet;

use archipel_base::Stamp;
use archipel_model::VersionId;

use super::reference::Stored;

/// Stands for the id of a delete marker that nobody ever saw.
pub(super) const UNSEEN_ID: VersionId = VersionId::At(Stamp::ZERO);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Version {
    pub id: VersionId,
    pub stored: Stored,
    pub held: bool,
    /// True for a lost write that is kept beside the current version: it was never current itself.
    aside: bool,
}

/// The kind of versions that writes make.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Mode {
    /// There are no versions yet: a write replaces the object.
    Never,
    /// Each write makes a version with an id.
    Enabled,
    /// Versioning is suspended, which nodes may learn late: a write makes either.
    Suspended,
}

/// The versions of a key, the newest last.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct State {
    pub mode: Mode,
    /// The versions.
    pub versions: Vec<Version>,
    /// The numbers of lost puts whose conditions held at some time. A minority may have such a version. It can show
    /// later, as an older version, when the condition no longer holds.
    pub met: BTreeSet<u32>,
}

impl State {
    /// Returns a bucket in which nothing was ever written.
    pub fn first() -> State {
        State {
            mode: Mode::Never,
            versions: Vec::new(),
            met: BTreeSet::new(),
        }
    }

    pub fn find(&self, id: VersionId) -> Option<&Version> {
        self.versions.iter().find(|version| version.id == id)
    }

    /// Returns the id of the current version, which may be a delete marker.
    pub fn newest(&self) -> Option<VersionId> {
        self.newest_of().map(|version| version.id)
    }

    fn newest_of(&self) -> Option<&Version> {
        self.versions.iter().rev().find(|version| !version.aside)
    }

    pub fn current(&self) -> Option<(VersionId, u32)> {
        let newest = self.newest_of()?;
        Some((newest.id, newest.stored?))
    }

    pub fn without(&self, id: VersionId) -> State {
        let mut next = self.clone();
        next.versions.retain(|version| version.id != id);
        next
    }

    /// Returns the states after the deletion of a version. If it was the current one, the newest of
    /// those that are left is. When a lost write of the null version came is not known.
    pub fn deleted(&self, id: VersionId) -> Vec<State> {
        let mut next = self.without(id);
        if self.newest() != Some(id) {
            return vec![next];
        }
        let mut all = Vec::new();
        if let Some(last) = next.versions.last()
            && last.aside
            && last.id == VersionId::Null
            && next.newest().is_some()
        {
            all.push(next.clone());
        }
        if let Some(last) = next.versions.last_mut() {
            last.aside = false;
        }
        all.push(next);
        all
    }

    /// Returns the state after a write of a version; `None` if no write makes such a version now.
    pub fn with(&self, id: VersionId, stored: Stored) -> Option<State> {
        let is_null = id == VersionId::Null;
        let is_fit = match self.mode {
            Mode::Never => is_null && stored.is_some(),
            Mode::Enabled => !is_null,
            Mode::Suspended => true,
        };
        let is_free = self.find(id).is_none_or(|old| is_null && !old.held);
        if !is_fit || !is_free {
            return None;
        }
        let mut next = self.without(id).without(UNSEEN_ID);
        next.versions.push(Version {
            id,
            stored,
            held: false,
            aside: false,
        });
        Some(next)
    }

    /// Returns the state after a write without an answer. One by older settings is refused by most
    /// replicas, but one replica may have it, and a reader that finds it there has to complete it.
    pub fn with_lost(&self, id: VersionId, value: u32, is_early: bool) -> Option<State> {
        if id != VersionId::Null || !is_early || self.mode != Mode::Enabled {
            return self.with(id, Some(value));
        }
        let before = State {
            mode: Mode::Suspended,
            ..self.clone()
        };
        let next = before.with(id, Some(value))?;
        Some(State {
            mode: self.mode,
            ..next
        })
    }

    /// Returns the state if a lost write never becomes the current version, but is kept as another
    /// one. A minority had it when another operation wrote the current version again, or a newer
    /// one.
    pub fn kept_aside(mut self) -> State {
        if let Some(written) = self.versions.last_mut() {
            written.aside = true;
        }
        self
    }

    /// Returns the state after a lost put shows when newer versions are there. Its place is that of its id, and it is
    /// not current.
    pub fn with_late(&self, id: VersionId, value: u32) -> Option<State> {
        let mut next = self.with(id, Some(value))?.kept_aside();
        let late = next.versions.pop()?;
        let is_newer = |version: &Version| version.id != VersionId::Null && version.id > id;
        let newer = next.versions.iter().position(is_newer);
        let place = newer.unwrap_or(next.versions.len());
        next.versions.insert(place, late);
        Some(next)
    }

    /// Returns one state for all that nothing can tell apart without deletions of versions: only
    /// the current one has a place.
    pub fn without_places(&self) -> State {
        let mut all = self.clone();
        let newest = self.newest();
        for version in &mut all.versions {
            version.aside = newest.is_none();
        }
        all.versions
            .sort_by_key(|version| (newest == Some(version.id), version.id));
        all
    }
}
