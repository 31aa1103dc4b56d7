//! The newest lines, in memory. Reads of operators are kept apart: pages of the console ask every
//! few seconds, and must not drive all other lines out.

use std::collections::VecDeque;

use bytes::Bytes;

/// The most that is kept of requests with which operators only read.
pub const LOOKS: Bound = Bound {
    lines: 250,
    bytes: 256 << 10,
};

/// The most that is kept of all others.
pub const OTHERS: Bound = Bound {
    lines: 750,
    bytes: 768 << 10,
};

/// The most of one kind of lines.
pub struct Bound {
    /// The number of lines.
    pub lines: usize,
    /// Their bytes together.
    pub bytes: usize,
}

/// The newest lines.
#[derive(Default)]
pub struct Recent {
    looks: Kept,
    others: Kept,
    /// The number of lines since the start.
    ended: u64,
}

/// Lines, oldest first, each with its number.
#[derive(Default)]
struct Kept {
    lines: VecDeque<(u64, Bytes)>,
    bytes: usize,
}

impl Recent {
    /// Adds a line, and lets the oldest ones go that have no room any more.
    pub fn add(&mut self, line: Bytes, is_look: bool) {
        self.ended += 1;
        match is_look {
            true => self.looks.add(self.ended, line, &LOOKS),
            false => self.others.add(self.ended, line, &OTHERS),
        }
    }

    /// Returns all lines, oldest first, each with its number.
    pub fn all(&self) -> Vec<(u64, Bytes)> {
        let all = self.looks.lines.iter().chain(&self.others.lines);
        let mut all: Vec<_> = all.cloned().collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all
    }
}

impl Kept {
    fn add(&mut self, number: u64, line: Bytes, most: &Bound) {
        self.bytes += line.len();
        self.lines.push_back((number, line));
        while self.lines.len() > most.lines || self.bytes > most.bytes {
            let Some((_, oldest)) = self.lines.pop_front() else {
                return;
            };
            self.bytes -= oldest.len();
        }
    }
}
