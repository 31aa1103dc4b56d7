//! The limit of memory for content on its way in or out.
//!
//! All of it is reserved from one budget. Most of the budget may be **held**, which means kept for
//! any time while a client is slow. The rest always moves on, because its reservations wait only
//! for this node's disks. Stalled clients can take all that may be held and still block nobody:
//! content that finds nothing to hold is parked in scratch files ([`stage`](super::stage)).
//!
//! A cipher needs a whole segment in memory, also while nothing can be held. It has a budget of its own,
//! which nothing holds while a client is slow. A holder of a part of it may wait for the other budget. The
//! reverse is forbidden.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Pool;

/// The unit in which memory is counted, so that a semaphore's 32 bits suffice.
const UNIT_BYTES: usize = 1024;

/// The memory for segments that pass through a cipher while nothing can be held.
const CIPHER_BYTES: usize = 4 << 20;

/// A share of the memory for content. It is given back when it is dropped.
#[derive(Debug, Default)]
pub struct Reservation {
    share: Option<OwnedSemaphorePermit>,
    holding: Option<OwnedSemaphorePermit>,
}

/// The memory budget; `None` means no limit.
#[derive(Clone)]
pub(super) struct Memory(Option<Arc<Budget>>);

struct Budget {
    all: Arc<Semaphore>,
    /// The part of it that may be held.
    holdable: Arc<Semaphore>,
    /// The memory for ciphers, apart from the rest.
    ciphers: Arc<Semaphore>,
    units: u32,
    holdable_units: u32,
}

impl Memory {
    pub fn unbounded() -> Memory {
        Memory(None)
    }

    pub fn new(bytes: usize, holdable_bytes: usize) -> Memory {
        let units = units_of(bytes).max(1);
        let holdable_units = units_of(holdable_bytes).min(units);
        Memory(Some(Arc::new(Budget {
            all: Arc::new(Semaphore::new(units as usize)),
            holdable: Arc::new(Semaphore::new(holdable_units as usize)),
            ciphers: Arc::new(Semaphore::new(units_of(CIPHER_BYTES) as usize)),
            units,
            holdable_units,
        })))
    }

    pub async fn reserve(&self, bytes: usize) -> Reservation {
        let Some(budget) = &self.0 else {
            return Reservation::default();
        };
        let units = units_of(bytes).min(budget.units);
        Reservation {
            // The semaphore is never closed, so there is no error.
            share: budget.all.clone().acquire_many_owned(units).await.ok(),
            holding: None,
        }
    }

    pub async fn reserve_for_cipher(&self, bytes: usize) -> Reservation {
        let Some(budget) = &self.0 else {
            return Reservation::default();
        };
        let units = units_of(bytes.min(CIPHER_BYTES));
        Reservation {
            // The semaphore is never closed, so there is no error.
            share: budget.ciphers.clone().acquire_many_owned(units).await.ok(),
            holding: None,
        }
    }

    pub fn try_hold(&self, bytes: usize) -> Option<Reservation> {
        let Some(budget) = &self.0 else {
            return Some(Reservation::default());
        };
        let holding = try_take(&budget.holdable, bytes)?;
        Some(Reservation {
            share: Some(try_take(&budget.all, bytes)?),
            holding: Some(holding),
        })
    }

    /// Returns the content with a reservation that may be held. If none is available, returns the
    /// content unchanged.
    pub fn keep(&self, content: Bytes) -> Result<Bytes, Bytes> {
        let Some(budget) = &self.0 else {
            return Ok(content);
        };
        match try_take(&budget.holdable, content.len()) {
            None => Err(content),
            Some(holding) => Ok(Bytes::from_owner(Reserved {
                content,
                _reservation: Reservation {
                    share: None,
                    holding: Some(holding),
                },
            })),
        }
    }

    pub fn can_hold(&self, bytes: usize) -> bool {
        let Some(budget) = &self.0 else {
            return true;
        };
        budget.holdable.available_permits() >= units_of(bytes) as usize
    }

    pub fn is_short(&self) -> bool {
        let Some(budget) = &self.0 else {
            return false;
        };
        budget.holdable.available_permits() < budget.holdable_units as usize / 2
    }

    pub fn free_bytes(&self) -> Option<usize> {
        let budget = self.0.as_ref()?;
        Some(budget.all.available_permits() * UNIT_BYTES)
    }
}

impl Pool {
    /// Returns true if so many bytes of content could be held now.
    pub fn can_hold(&self, bytes: usize) -> bool {
        self.memory.can_hold(bytes)
    }

    /// Returns true if more than half of the holdable memory is held.
    pub fn is_short(&self) -> bool {
        self.memory.is_short()
    }
}

impl Reservation {
    /// Adds another reservation to this one.
    pub fn merge(&mut self, other: Reservation) {
        merge(&mut self.share, other.share);
        merge(&mut self.holding, other.holding);
    }

    /// Returns the bytes with a reservation that lives as long as they do.
    pub fn guard<T>(self, content: T) -> Bytes
    where
        T: AsRef<[u8]> + Send + 'static,
    {
        Bytes::from_owner(Reserved {
            content,
            _reservation: self,
        })
    }
}

/// Bytes with their reservation.
struct Reserved<T> {
    content: T,
    _reservation: Reservation,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Reserved<T> {
    fn as_ref(&self) -> &[u8] {
        self.content.as_ref()
    }
}

fn merge(one: &mut Option<OwnedSemaphorePermit>, other: Option<OwnedSemaphorePermit>) {
    match (one.as_mut(), other) {
        (Some(one), Some(other)) => one.merge(other),
        (None, other) => *one = other,
        (Some(_), None) => {}
    }
}

fn try_take(semaphore: &Arc<Semaphore>, bytes: usize) -> Option<OwnedSemaphorePermit> {
    semaphore
        .clone()
        .try_acquire_many_owned(units_of(bytes))
        .ok()
}

fn units_of(bytes: usize) -> u32 {
    let most = Semaphore::MAX_PERMITS.min(u32::MAX as usize);
    bytes.div_ceil(UNIT_BYTES).min(most) as u32
}
