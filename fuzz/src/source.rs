//! Choices from the bytes of an input.

/// Bytes of the fuzzer, taken from the front.
pub struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    /// Makes a source of all bytes.
    pub fn new(bytes: &'a [u8]) -> Source<'a> {
        Source(bytes)
    }

    /// Takes a byte; zero behind the end.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// Takes a choice.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Takes one of some values.
    pub fn pick<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[usize::from(self.byte()) % all.len()]
    }

    /// Takes up to `most` bytes, whose number a byte tells.
    pub fn some(&mut self, most: usize) -> &'a [u8] {
        let count = (usize::from(self.byte()) % (most + 1)).min(self.0.len());
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    /// Takes a text of up to `most` bytes; other bytes than those of UTF-8 are replaced.
    pub fn text(&mut self, most: usize) -> String {
        String::from_utf8_lossy(self.some(most)).into_owned()
    }

    /// Returns what is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}
