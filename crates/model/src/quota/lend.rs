//! The division of a user's quota among buckets, by what they need.

use super::{Quota, Usage};

/// A bucket's part of its user's quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lent {
    /// The most that it may hold; `None` if nobody has told it yet.
    pub portion: Option<Quota>,
    /// The objects and bytes that it holds.
    pub used: Usage,
}

/// Returns what each bucket may hold after the one at `at` got room for what it wants to add;
/// `None` if that does not fit the user's quota.
///
/// The part that no bucket has goes first. Then buckets that use the least of their part give some
/// of it up. So most buckets keep what they have, and a bucket that grows seldom has to ask.
pub(crate) fn lend(
    quota: Quota,
    lent: &[Lent],
    wanted: Option<(usize, Usage)>,
) -> Option<Vec<Quota>> {
    let of = |limit, portion: fn(&Quota) -> Option<u64>, what: fn(&Usage) -> u64| {
        let lent = lent.iter().map(|one| {
            let portion = one.portion.as_ref().and_then(portion);
            (portion, what(&one.used))
        });
        let lent: Vec<_> = lent.collect();
        lend_one(limit, &lent, wanted.map(|(at, usage)| (at, what(&usage))))
    };
    let objects = of(quota.objects, |quota| quota.objects, |usage| usage.objects)?;
    let bytes = of(quota.bytes, |quota| quota.bytes, |usage| usage.bytes)?;
    let both = objects.into_iter().zip(bytes);
    Some(
        both.map(|(objects, bytes)| Quota { objects, bytes })
            .collect(),
    )
}

/// Does the same for objects, or for bytes. A bucket has a portion, and what it uses.
fn lend_one(
    limit: Option<u64>,
    lent: &[(Option<u64>, u64)],
    wanted: Option<(usize, u64)>,
) -> Option<Vec<Option<u64>>> {
    let Some(limit) = limit else {
        return Some(vec![None; lent.len()]);
    };
    let used: Vec<u64> = lent.iter().map(|(_, used)| *used).collect();
    // A bucket that was told nothing may hold what it holds.
    let has = lent.iter().map(|(has, used)| has.unwrap_or(*used));
    let mut shares = Shares {
        has: has.collect(),
        used,
    };
    match wanted.filter(|(_, adding)| *adding > 0) {
        Some((at, adding)) => shares.make_room(limit, at, adding)?,
        None => shares.lower_to(limit),
    }
    Some(shares.has.into_iter().map(Some).collect())
}

/// The parts of a limit that buckets have, and how much of them they use.
struct Shares {
    has: Vec<u64>,
    used: Vec<u64>,
}

impl Shares {
    /// Gives a bucket room for what is added to it; `None` if that does not fit the limit.
    fn make_room(&mut self, limit: u64, at: usize, adding: u64) -> Option<()> {
        let all_used = sum(self.used.iter().copied());
        if all_used.saturating_add(adding) > limit {
            return None;
        }
        // Parts above the limit go first: no bucket gets more while all have too much.
        self.take(self.held().saturating_sub(limit), None);
        let used = *self.used.get(at)?;
        let has = (*self.has.get(at)?).max(used);
        let missing = used.saturating_add(adding).saturating_sub(has);
        let mut free = limit.saturating_sub(self.held());
        if free < missing {
            free += self.take(missing - free, Some(at));
        }
        let more = missing.min(free);
        // The rest is divided between this bucket and those that ask next.
        *self.has.get_mut(at)? = has + more + (free - more) / 2;
        Some(())
    }

    /// Lowers what buckets have until it comes to the limit.
    fn lower_to(&mut self, limit: u64) {
        let above = self.held().saturating_sub(limit);
        if self.take(above, None) < above {
            // A bucket must not fill up again while all hold too much.
            self.has.fill(0);
        }
    }

    /// Returns how much buckets hold, or may still fill.
    fn held(&self) -> u64 {
        let each = self.has.iter().zip(&self.used);
        sum(each.map(|(has, used)| *has.max(used)))
    }

    /// Takes this much from the buckets that use the least of their part, while they have it.
    /// Returns what was taken. It is more where that spares the next bucket to ask.
    fn take(&mut self, wanted: u64, except: Option<usize>) -> u64 {
        let unused = self.has.iter().zip(&self.used);
        let unused = unused.map(|(has, used)| has.saturating_sub(*used));
        let mut donors: Vec<(u64, usize)> = unused.zip(0..).collect();
        donors.retain(|(_, place)| Some(*place) != except);
        donors.sort_unstable();
        let mut taken = 0_u64;
        while taken < wanted
            && let Some((unused, donor)) = donors.pop()
            && let Some(has) = self.has.get_mut(donor)
            && unused > 0
        {
            let given = unused.min((wanted - taken).max(unused / 2));
            *has -= given;
            taken = taken.saturating_add(given);
        }
        taken
    }
}

fn sum(all: impl Iterator<Item = u64>) -> u64 {
    all.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn buckets_together_never_get_more_than_the_limit(
            limit in 0_u64..1000,
            lent in proptest::collection::vec((0_u64..300, 0_u64..100, 0_u8..5), 1..10),
            at in 0_usize..10,
            adding in 0_u64..200,
        ) {
            let lent: Vec<(Option<u64>, u64)> = lent
                .into_iter()
                .map(|(has, used, told)| ((told > 0).then_some(has), used))
                .collect();
            let at = at % lent.len();
            let used: Vec<u64> = lent.iter().map(|(_, used)| *used).collect();
            let all_used: u64 = used.iter().sum();
            let Some(after) = lend_one(Some(limit), &lent, Some((at, adding))) else {
                prop_assert!(adding > 0 && all_used + adding > limit);
                return Ok(());
            };
            let after: Vec<u64> = after.into_iter().flatten().collect();
            prop_assert_eq!(after.len(), lent.len());
            let held = after.iter().zip(&used).map(|(has, used)| *has.max(used)).sum::<u64>();
            for (place, ((has, used), after)) in lent.iter().zip(&after).enumerate() {
                let before = has.unwrap_or(*used);
                prop_assert!(place == at || *after <= before, "a bucket that did not ask got more");
            }
            // Bytes that are held cannot be taken back.
            prop_assert!(held <= limit.max(all_used), "{held} of {limit}: {after:?}");
            if adding > 0 {
                prop_assert!(after[at] >= used[at] + adding);
                prop_assert!(held <= limit, "{held} of {limit}: {after:?}");
            }
        }

        #[test]
        fn a_lower_limit_takes_what_is_not_used_first(
            limit in 0_u64..1000,
            lent in proptest::collection::vec((0_u64..300, 0_u64..100), 1..10),
        ) {
            let lent: Vec<(Option<u64>, u64)> =
                lent.into_iter().map(|(has, used)| (Some(has), used)).collect();
            let after = lend_one(Some(limit), &lent, None).unwrap();
            let after: Vec<u64> = after.into_iter().flatten().collect();
            prop_assert!(after.iter().sum::<u64>() <= limit);
            let covers = |(after, (has, used)): (&u64, &(Option<u64>, u64))| {
                *after >= has.unwrap_or_default().min(*used)
            };
            if lent.iter().map(|(_, used)| used).sum::<u64>() <= limit {
                prop_assert!(after.iter().zip(&lent).all(covers));
            } else {
                prop_assert!(after.iter().all(|after| *after == 0), "all hold too much: {after:?}");
            }
        }
    }

    #[test]
    fn parts_above_the_limit_are_taken_first() {
        let lent = |lent: [(u64, u64); 2], wanted| {
            let lent = lent.map(|(has, used)| (Some(has), used));
            let after = lend_one(Some(10), &lent, Some(wanted)).unwrap();
            after.into_iter().flatten().collect::<Vec<u64>>()
        };
        assert_eq!(lent([(20, 1), (0, 0)], (1, 5)), [5, 5]);
        // Replicas that differ have let the first bucket hold more than its portion.
        assert_eq!(lent([(5, 7), (5, 0)], (0, 1)), [8, 2]);
    }

    #[test]
    fn what_has_no_limit_is_not_divided() {
        let lent = [Lent {
            portion: None,
            used: Usage {
                objects: 3,
                bytes: 70,
            },
        }];
        let quota = Quota {
            objects: Some(5),
            bytes: None,
        };
        let adding = |objects| {
            Some((
                0,
                Usage {
                    objects,
                    bytes: 1 << 40,
                },
            ))
        };
        let lent = |objects| lend(quota, &lent, adding(objects));
        assert_eq!(lent(2), Some(vec![quota]));
        assert_eq!(lent(3), None);
    }
}
