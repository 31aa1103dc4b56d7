//! Anti-entropy windows: finding what two replicas do not share, at a cost that grows with the
//! difference.
//!
//! Rows are grouped by the time of their stamps: into hours, days and months (of 32 days). The
//! [`Fingerprint`] of a window is the XOR of a hash of (key, stamp) over its rows, and their number.
//! A row that changes leaves one window and enters another, so fingerprints are kept up to date with
//! two XORs at each level, in the row's own transaction.
//!
//! Two replicas compare months, then the days of the months that differ, then the hours of those
//! days; of the hours that differ they exchange lists of keys and stamps, and of these lists follow the
//! rows to move ([`lacking`]).

use std::collections::BTreeMap;

use archipel_base::{BlockHash, Stamp};

/// What stands for a set of rows: equal sets have equal fingerprints, and different sets
/// different ones (but for a chance of 2^-128).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Fingerprint {
    /// The XOR of the rows' hashes.
    pub xor: u128,
    /// The number of rows.
    pub rows: u64,
}

impl Fingerprint {
    /// Adds a row.
    pub fn add(&mut self, key: &[u8], stamp: Stamp) {
        self.xor ^= hash_of(key, stamp);
        self.rows = self.rows.wrapping_add(1);
    }

    /// Takes a row out that was added.
    pub fn remove(&mut self, key: &[u8], stamp: Stamp) {
        self.xor ^= hash_of(key, stamp);
        self.rows = self.rows.wrapping_sub(1);
    }
}

fn hash_of(key: &[u8], stamp: Stamp) -> u128 {
    let mut row = Vec::with_capacity(16 + key.len());
    row.extend_from_slice(&stamp.to_bytes());
    row.extend_from_slice(key);
    let mut first = [0; 16];
    first.copy_from_slice(&BlockHash::of(&row).as_bytes()[..16]);
    u128::from_be_bytes(first)
}

/// How long a window is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Span {
    /// 32 days.
    Month,
    /// 24 hours.
    Day,
    /// 60 minutes.
    Hour,
}

impl Span {
    /// From the longest to the shortest.
    pub const ALL: [Span; 3] = [Span::Month, Span::Day, Span::Hour];

    /// Its length in milliseconds. Each is a multiple of the next.
    pub fn millis(self) -> u64 {
        const HOUR: u64 = 3_600_000;
        match self {
            Span::Hour => HOUR,
            Span::Day => 24 * HOUR,
            Span::Month => 32 * 24 * HOUR,
        }
    }

    /// The next shorter one.
    pub fn shorter(self) -> Option<Span> {
        match self {
            Span::Month => Some(Span::Day),
            Span::Day => Some(Span::Hour),
            Span::Hour => None,
        }
    }
}

/// A window: the stamps of one span of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Window {
    /// How long it is.
    pub span: Span,
    /// Its number, counted from 1970.
    pub number: u64,
}

impl Window {
    /// The window that a stamp falls in.
    pub fn of(span: Span, stamp: Stamp) -> Window {
        Window {
            span,
            number: stamp.millis() / span.millis(),
        }
    }

    /// The windows of the next shorter span within this one; none in an hour.
    pub fn parts(self) -> impl Iterator<Item = Window> {
        let shorter = self.span.shorter();
        shorter.into_iter().flat_map(move |span| {
            let each = self.span.millis() / span.millis();
            (self.number * each..(self.number + 1) * each).map(move |number| Window { span, number })
        })
    }
}

/// Fingerprints of windows, in memory. (Storage keeps the same in a tree.)
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Windows {
    prints: BTreeMap<Window, Fingerprint>,
}

impl Windows {
    /// A row went from one stamp (`None`: it was not there) to another (`None`: it is gone).
    pub fn change(&mut self, key: &[u8], from: Option<Stamp>, to: Option<Stamp>) {
        for span in Span::ALL {
            if let Some(stamp) = from {
                let window = Window::of(span, stamp);
                let print = self.prints.entry(window).or_default();
                print.remove(key, stamp);
                if *print == Fingerprint::default() {
                    self.prints.remove(&window);
                }
            }
            if let Some(stamp) = to {
                let print = self.prints.entry(Window::of(span, stamp)).or_default();
                print.add(key, stamp);
            }
        }
    }

    /// The fingerprints of the windows of the longest span.
    pub fn top(&self) -> BTreeMap<Window, Fingerprint> {
        let longest = Span::ALL[0];
        let of = self.prints.iter().filter(|(w, _)| w.span == longest);
        of.map(|(w, p)| (*w, *p)).collect()
    }

    /// The fingerprints of the windows within `windows`, of the next shorter span.
    pub fn within(&self, windows: &[Window]) -> BTreeMap<Window, Fingerprint> {
        let parts = windows.iter().flat_map(|w| w.parts());
        parts
            .filter_map(|w| self.prints.get(&w).map(|p| (w, *p)))
            .collect()
    }
}

/// The windows in which two replicas differ, of those that either has.
pub fn differing(
    mine: &BTreeMap<Window, Fingerprint>,
    theirs: &BTreeMap<Window, Fingerprint>,
) -> Vec<Window> {
    let mut windows: Vec<Window> = mine
        .keys()
        .chain(theirs.keys())
        .copied()
        .filter(|w| mine.get(w) != theirs.get(w))
        .collect();
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
