//! Anti-entropy windows: two replicas find their differences at a cost that grows with the
//! difference.
//!
//! Storage groups rows by the time of their stamps into hours, days and months, and keeps a digest
//! of each window in the row's own transaction (see [`archipel_storage::rows::window`]). Two
//! replicas compare months, then the days of the months that differ, then the hours of those days.
//! They exchange lists of keys and stamps of the hours that differ. The rows to move follow from
//! these lists ([`lacking`]).

use std::collections::BTreeMap;

use archipel_base::Stamp;
use archipel_storage::rows::{Granularity, Window, WindowDigest};

/// A window: its length and its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WindowId {
    /// Its length.
    pub granularity: Granularity,
    /// Its number, counted from 1970.
    pub number: u32,
}

impl WindowId {
    /// Returns the window that contains a stamp.
    pub fn of(granularity: Granularity, stamp: Stamp) -> WindowId {
        WindowId {
            granularity,
            number: granularity.window_of(stamp),
        }
    }

    /// Returns the windows of the next shorter length within this one. An hour has none.
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

/// The digests of a set of windows.
pub type Prints = BTreeMap<WindowId, Window>;

/// The windows of a set of rows, in memory. Simulation and tests use it in place of storage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Windows {
    prints: Prints,
}

impl Windows {
    /// Moves a row from one stamp (`None`: the row is new) to another (`None`: the row is dropped).
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
        window.digest.toggle(WindowDigest::of(key, stamp));
        window.rows = window.rows.wrapping_add(rows);
        if *window == Window::default() {
            self.prints.remove(&id);
        }
    }

    /// Returns the digests of the months. A comparison begins with them.
    pub fn top(&self) -> Prints {
        let months = |id: &WindowId| id.granularity == Granularity::Month;
        let of = self.prints.iter().filter(|(id, _)| months(id));
        of.map(|(id, window)| (*id, *window)).collect()
    }

    /// Returns the digests of the parts of `windows`. A comparison goes on with them.
    pub fn within(&self, windows: &[WindowId]) -> Prints {
        let parts = windows.iter().flat_map(|w| w.parts());
        let known = parts.filter_map(|id| self.prints.get(&id).map(|window| (id, *window)));
        known.collect()
    }
}

/// Returns the windows in which two replicas differ.
pub fn differing(mine: &Prints, theirs: &Prints) -> Vec<WindowId> {
    let either = mine.keys().chain(theirs.keys()).copied();
    let mut windows: Vec<WindowId> = either.filter(|id| mine.get(id) != theirs.get(id)).collect();
    windows.sort_unstable();
    windows.dedup();
    windows
}

/// Returns the keys of which `theirs` holds a newer version than `mine`: the rows to pull. Swapped,
/// the rows to offer. Both sides list all rows of the hours that differ. A row that moved from one
/// of these hours to a later one is newer there, and that hour differs, too.
pub fn lacking<K: Clone + Ord>(mine: &BTreeMap<K, Stamp>, theirs: &BTreeMap<K, Stamp>) -> Vec<K> {
    let newer = |(key, stamp): &(&K, &Stamp)| mine.get(*key).is_none_or(|held| held < *stamp);
    let keys = theirs.iter().filter(newer);
    keys.map(|(key, _)| key.clone()).collect()
}
