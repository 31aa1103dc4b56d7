//! Limits of what is done at once for others: for members, for strangers, and for each one of them.
//!
//! Members and strangers have rooms of their own: a stranger with the cluster's secret can come
//! under any number of names, and must not use up what members need.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// The most that is done at once.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// For all together.
    pub all: usize,
    /// For one of them.
    pub of_one: usize,
}

/// Counts what is done for members and for strangers, each of them known by a `K`.
pub(crate) struct Rooms<K> {
    members: Limits,
    strangers: Limits,
    taken: Mutex<Taken<K>>,
}

struct Taken<K> {
    members: usize,
    strangers: usize,
    of: HashMap<K, usize>,
}

impl<K> Taken<K> {
    fn all(&mut self, is_member: bool) -> &mut usize {
        match is_member {
            true => &mut self.members,
            false => &mut self.strangers,
        }
    }
}

/// A place in a room. It is free again once it is dropped.
pub(crate) struct Place<K: Eq + Hash> {
    rooms: Arc<Rooms<K>>,
    of: K,
    is_member: bool,
}

impl<K: Copy + Eq + Hash> Rooms<K> {
    /// Creates empty rooms.
    pub fn new(members: Limits, strangers: Limits) -> Arc<Rooms<K>> {
        Arc::new(Rooms {
            members,
            strangers,
            taken: Mutex::new(Taken {
                members: 0,
                strangers: 0,
                of: HashMap::new(),
            }),
        })
    }

    /// Returns a place for `of`, or `None` if there is no room.
    pub fn enter(self: &Arc<Self>, of: K, is_member: bool) -> Option<Place<K>> {
        let limits = match is_member {
            true => self.members,
            false => self.strangers,
        };
        let mut taken = self.taken.lock();
        let of_one = taken.of.get(&of).copied().unwrap_or_default();
        if *taken.all(is_member) >= limits.all || of_one >= limits.of_one {
            return None;
        }
        *taken.all(is_member) += 1;
        taken.of.insert(of, of_one + 1);
        Some(Place {
            rooms: self.clone(),
            of,
            is_member,
        })
    }

    /// Returns the number of places that are taken in both rooms.
    pub fn taken(&self) -> usize {
        let taken = self.taken.lock();
        taken.members + taken.strangers
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.rooms.taken.lock();
        *taken.all(self.is_member) -= 1;
        if let Some(of_one) = taken.of.get_mut(&self.of) {
            *of_one -= 1;
            if *of_one == 0 {
                taken.of.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: Limits = Limits {
        all: 100,
        of_one: 40,
    };
    const STRANGERS: Limits = Limits { all: 10, of_one: 4 };

    #[test]
    fn strangers_do_not_use_up_the_places_of_members() {
        let rooms = Rooms::new(MEMBERS, STRANGERS);
        let mut held = Vec::new();
        for n in 2..1000 {
            held.extend(rooms.enter(n, false));
            held.extend(rooms.enter(1, false));
        }
        assert_eq!(held.len(), STRANGERS.all);
        let of_one = held.iter().filter(|place| place.of == 1);
        assert_eq!(of_one.count(), STRANGERS.of_one);
        assert!(rooms.enter(0, true).is_some());
        held.clear();
        assert_eq!(rooms.taken(), 0);
        assert!(rooms.enter(1, false).is_some());
        assert!(
            rooms.taken.lock().of.is_empty(),
            "nothing is kept of those that left"
        );
    }

    #[test]
    fn one_member_does_not_use_up_the_places_of_the_others() {
        let rooms = Rooms::new(MEMBERS, STRANGERS);
        let all = (0..MEMBERS.all).filter_map(|_| rooms.enter(1, true));
        let held: Vec<_> = all.collect();
        assert_eq!(held.len(), MEMBERS.of_one);
        assert!(rooms.enter(2, true).is_some());
    }
}
