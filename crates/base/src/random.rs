//! Randomness: the system's, and a seeded one for tests and simulation.

use std::sync::Mutex;

/// A source of random bytes.
pub trait Random: Send + Sync {
    /// Fills `bytes` with random data.
    fn fill(&self, bytes: &mut [u8]);

    /// Returns a random number.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// The operating system's generator, suitable for secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        // Without randomness neither identifiers are unique nor secrets safe, so the process must
        // stop.
        getrandom::fill(bytes).expect("the operating system provides no randomness");
    }
}

/// A reproducible generator: BLAKE3 in counter mode over a seed. Not for secrets.
#[derive(Debug)]
pub struct SeededRandom(Mutex<blake3::OutputReader>);

impl SeededRandom {
    /// Creates the generator of `seed`. The same seed gives the same bytes.
    pub fn new(seed: u64) -> SeededRandom {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        SeededRandom(Mutex::new(hasher.finalize_xof()))
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).fill(bytes);
    }
}
