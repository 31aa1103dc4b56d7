//! The memory that one request takes while its client sends at its own pace.

use archipel_model::{Pool, Reservation};
use bytes::Bytes;

use crate::s3::error::{Code, S3Result};

/// So much is not counted: it is less than what a connection takes anyway.
const UNCOUNTED_BYTES: usize = 16 << 10;
/// The least that is reserved at once.
const STEP_BYTES: usize = 64 << 10;

/// A share of the memory for content, which grows with what it covers.
pub struct Share {
    pool: Pool,
    reservation: Reservation,
    covered: usize,
}

impl Share {
    /// Returns an empty share of the memory of `pool`.
    pub fn new(pool: &Pool) -> Share {
        Share {
            pool: pool.clone(),
            reservation: Reservation::default(),
            covered: UNCOUNTED_BYTES,
        }
    }

    /// Returns an empty share of the same memory.
    pub fn another(&self) -> Share {
        Share::new(&self.pool)
    }

    /// Makes the share large enough for this many bytes. Gives all of it back if there are none.
    ///
    /// # Errors
    /// [`Code::SlowDown`] if there is not enough memory. Waiting for it could take for ever: all of
    /// it may be held by clients that send nothing more.
    pub fn cover(&mut self, bytes: usize) -> S3Result<()> {
        if bytes == 0 {
            *self = self.another();
        }
        if bytes > self.covered {
            let more = (bytes - self.covered).next_multiple_of(STEP_BYTES);
            let more_memory = self.pool.try_hold(more).ok_or(Code::SlowDown)?;
            self.reservation.merge(more_memory);
            self.covered += more;
        }
        Ok(())
    }

    /// Returns the bytes, which keep the share until they are dropped.
    pub fn guard(self, bytes: Bytes) -> Bytes {
        if self.covered == UNCOUNTED_BYTES {
            return bytes;
        }
        self.reservation.guard(bytes)
    }
}
