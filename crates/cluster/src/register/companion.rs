//! Companions: rows that a write brings with it, stored in the transaction that accepts the write.
//!
//! A companion has the stamp and the id of its write, and a key of its own, which names both. So an
//! operation that writes again brings another companion. After that it is only deleted, or brought
//! to other replicas as it is. Its deletion may come first.
//!
//! Each replica that accepts the write from its coordinator stores the companion, also if the
//! replica had the value already. So a write that its own messages brought to a quorum has its
//! companion at that quorum. A value that another replica or a reader brings comes without: then
//! the coordinator writes the companion itself before it acknowledges the write.
//!
//! A decision that is refused may have to write, so that its refusal is final. It brings none.

use archipel_base::Stamp;

use super::replica::Bounds;

/// A replica's treatment of the companion of a write that it accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bringing {
    /// It stores the companion.
    Store,
    /// It holds the companion, or a deletion of it.
    Known,
    /// It cannot know whether the companion was deleted: its deletion may be gone. So it refuses
    /// the write, which gets a newer stamp.
    TooOld,
}

/// Returns a replica's treatment of a companion under this stamp. `held` is the stamp of the
/// companion's row, or [`Stamp::ZERO`].
pub fn bring(held: Stamp, stamp: Stamp, bounds: &Bounds) -> Bringing {
    if held >= stamp {
        Bringing::Known
    } else if stamp <= bounds.closed {
        Bringing::TooOld
    } else {
        Bringing::Store
    }
}

#[cfg(test)]
mod tests {
    use archipel_base::Writer;

    use super::*;

    fn at(millis: u64) -> Stamp {
        Stamp::new(millis, 0, Writer(1))
    }

    #[test]
    fn companion_is_stored_once_and_never_after_its_deletion() {
        let open = Bounds::without_floors(100, 100);
        let closed = Bounds {
            closed: at(50),
            ..open
        };
        for (held, stamp, bounds, expected) in [
            (Stamp::ZERO, at(10), &open, Bringing::Store),
            (at(10), at(10), &open, Bringing::Known),
            // A deletion has a higher stamp.
            (at(11), at(10), &open, Bringing::Known),
            // The write was sent again under a higher stamp.
            (at(10), at(12), &open, Bringing::Store),
            // The deletion may have been dropped.
            (Stamp::ZERO, at(50), &closed, Bringing::TooOld),
            (at(50), at(50), &closed, Bringing::Known),
            (Stamp::ZERO, at(51), &closed, Bringing::Store),
        ] {
            assert_eq!(bring(held, stamp, bounds), expected, "{held:?} {stamp:?}");
        }
    }
}
