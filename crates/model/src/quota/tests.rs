use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn shares_come_to_the_limit_and_cover_what_is_used(
        limit in 0_u64..1000,
        used in proptest::collection::vec(0_u64..100, 1..20),
        at in 0_usize..20,
        wanted in 0_u64..200,
    ) {
        let at = at % used.len();
        let total: u64 = used.iter().sum();
        let shares = divided(Some(limit), &used, Some((at, wanted)));
        if total >= limit {
            prop_assert!(shares.iter().all(|share| *share == 0));
        } else {
            prop_assert_eq!(shares.iter().sum::<u64>(), limit);
            prop_assert!(shares.iter().zip(&used).all(|(share, used)| share >= used));
            prop_assert!(shares[at] >= used[at] + wanted.min(limit - total));
        }
    }
}
