//! Anti-entropy windows: finding what two replicas do not share, at a cost that grows with the
//! difference.
//!
//! Storage groups rows by the time of their stamps into hours, days and months, and keeps a
//! fingerprint of each window in the row's own transaction
//! (see [`archipel_storage::rows::window`]). Two replicas compare months, then the days of the months
//! that differ, then the hours of those days; of the hours that differ they exchange lists of keys and
//! stamps, and from these lists follow the rows to move ([`lacking`]).

use std::collections::BTreeMap;

use archipel_base::Stamp;
use archipel_storage::rows::{Fingerprint, Granularity, Window};

/// Which window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WindowId {
    /// How long it is.
    pub granularity: Granularity,
    /// Its number, counted from 1970.
    pub number: u32,
}

impl WindowId {
    /// The window that a stamp falls into.
    pub fn of(granularity: Granularity, stamp: Stamp) -> WindowId {
        WindowId {
            granularity,
            number: granularity.window_of(stamp),
        }
    }

    /// The windows of the next shorter length within this one; none in an hour.
    pub fn parts(self) -> impl Iterator<Item = WindowId> {
        let shorter = match self.granularity {
            Granularity::Month => Some(Granularity::Day),
            Granularity::Day => Some(Granularity::Hour),
            Granularity::Hour => None,
        };
        shorter.into_iter().flat_map(move |granularity| {
            let each = (self.granularity.millis() / granularity.millis()) as u32;
            let first = self.number.saturating_mul(each);
            let numbers = first..first.saturating_add(each);
            numbers.map(move |number| WindowId {
                granularity,
                number,
            })
        })
    }
}

/// What is known of a set of windows.
pub type Prints = BTreeMap<WindowId, Window>;

/// The windows of a set of rows, in memory: the twin of what storage keeps, for simulation and tests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Windows {
    prints: Prints,
}

impl Windows {
    /// A row went from one stamp (`None`: it was not there) to another (`None`: it is gone).
    pub fn change(&mut self, key: &[u8], from: Option<Stamp>, to: Option<Stamp>) {
        for granularity in Granularity::ALL {
            if let Some(stamp) = from {
                self.toggle(WindowId::of(granularity, stamp), key, stamp, u64::MAX);
            }
            if let Some(stamp) = to {
                self.toggle(WindowId::of(granularity, stamp), key, stamp, 1);
            }
        }
    }

    fn toggle(&mut self, id: WindowId, key: &[u8], stamp: Stamp, rows: u64) {
        let window = self.prints.entry(id).or_default();
        window.fingerprint.toggle(Fingerprint::of(key, stamp));
        window.rows = window.rows.wrapping_add(rows);
        if *window == Window::default() {
            self.prints.remove(&id);
        }
    }

    /// The months: what a comparison begins with.
    pub fn top(&self) -> Prints {
        let months = |id: &WindowId| id.granularity == Granularity::Month;
        let of = self.prints.iter().filter(|(id, _)| months(id));
        of.map(|(id, window)| (*id, *window)).collect()
    }

    /// The parts of `windows`: what a comparison goes on with.
    pub fn within(&self, windows: &[WindowId]) -> Prints {
        let parts = windows.iter().flat_map(|w| w.parts());
        let known = parts.filter_map(|id| self.prints.get(&id).map(|window| (id, *window)));
        known.collect()
    }
}

/// The windows in which two replicas differ, of those that either has.
pub fn differing(mine: &Prints, theirs: &Prints) -> Vec<WindowId> {
    let either = mine.keys().chain(theirs.keys()).copied();
    let mut windows: Vec<WindowId> = either.filter(|id| mine.get(id) != theirs.get(id)).collect();
    windows.sort_unstable();
    windows.dedup();
    windows
}

/// The keys of which `theirs` holds a newer version than `mine`: what this side fetches. Swapped, what it
/// offers. Both sides list all rows of the hours that differ; a row that left one of these hours for
/// another is newer there, and that hour differs, too.
pub fn lacking<K: Clone + Ord>(mine: &BTreeMap<K, Stamp>, theirs: &BTreeMap<K, Stamp>) -> Vec<K> {
    let newer = |(key, stamp): &(&K, &Stamp)| mine.get(*key).is_none_or(|held| held < *stamp);
    let keys = theirs.iter().filter(newer);
    keys.map(|(key, _)| key.clone()).collect()
}
