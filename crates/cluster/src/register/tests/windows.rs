//! Anti-entropy: any two replicas converge, at a cost that grows with the difference.

use std::collections::BTreeMap;

use archipel_base::{Stamp, Writer};
use archipel_storage::rows::Granularity;
use proptest::prelude::*;

use crate::register::windows::{Windows, differing, lacking};

type Rows = BTreeMap<u16, Stamp>;

fn windows_of(rows: &Rows) -> Windows {
    let mut windows = Windows::default();
    for (key, stamp) in rows {
        windows.change(&key.to_be_bytes(), None, Some(*stamp));
    }
    windows
}

/// The cost of one comparison: the digests and stamps sent.
struct Cost {
    digests: usize,
    stamps: usize,
}

/// Compares two replicas and moves rows both ways.
fn synchronise(a: &mut Rows, b: &mut Rows) -> Cost {
    let (wa, wb) = (windows_of(a), windows_of(b));
    let (mut pa, mut pb) = (wa.top(), wb.top());
    let mut cost = Cost {
        digests: pa.len(),
        stamps: 0,
    };
    let mut differ = differing(&pa, &pb);
    while differ.iter().any(|w| w.parts().next().is_some()) {
        (pa, pb) = (wa.within(&differ), wb.within(&differ));
        cost.digests += pa.len();
        differ = differing(&pa, &pb);
    }
    let inside = |rows: &Rows| -> Rows {
        let hit = |s: &Stamp| {
            let hour = Granularity::Hour.window_of(*s);
            differ.iter().any(|w| w.number == hour)
        };
        let hits = rows.iter().filter(|(_, s)| hit(s));
        hits.map(|(k, s)| (*k, *s)).collect()
    };
    let (ia, ib) = (inside(a), inside(b));
    cost.stamps = ia.len() + ib.len();
    for key in lacking(&ia, &ib) {
        apply(a, key, ib[&key]);
    }
    for key in lacking(&ib, &ia) {
        apply(b, key, ia[&key]);
    }
    cost
}

/// Applies a row: a replica keeps the newer of two versions.
fn apply(rows: &mut Rows, key: u16, stamp: Stamp) {
    let held = rows.entry(key).or_insert(stamp);
    *held = stamp.max(*held);
}

fn rows() -> impl Strategy<Value = Rows> {
    let stamp = (0_u64..400, 0_u64..4)
        .prop_map(|(hours, writer)| Stamp::new(hours * 1_800_000, 0, Writer(writer)));
    prop::collection::btree_map(0_u16..60, stamp, 0..60)
}

proptest! {
    #[test]
    fn two_replicas_converge(mut a in rows(), mut b in rows()) {
        let mut newest = a.clone();
        b.iter().for_each(|(k, s)| apply(&mut newest, *k, *s));
        synchronise(&mut a, &mut b);
        prop_assert_eq!(&a, &newest);
        prop_assert_eq!(&b, &newest);
        prop_assert_eq!(windows_of(&a), windows_of(&b));
    }

    /// Windows that are updated row by row equal windows that are rebuilt.
    #[test]
    fn changed_windows_equal_rebuilt_windows(a in rows(), b in rows()) {
        let mut windows = windows_of(&a);
        let mut keys: Vec<u16> = a.keys().chain(b.keys()).copied().collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            windows.change(&key.to_be_bytes(), a.get(&key).copied(), b.get(&key).copied());
        }
        prop_assert_eq!(windows, windows_of(&b));
    }
}

/// One row more among 50,000, over two years, costs a handful of digests and one hour's stamps.
#[test]
fn the_cost_grows_with_the_difference_not_with_the_data() {
    const MINUTE: u64 = 60_000;
    let mut a: Rows = (0..50_000_u64)
        .map(|i| (i as u16, Stamp::new(i * 21 * MINUTE, 0, Writer(1))))
        .collect();
    let mut b = a.clone();
    apply(
        &mut b,
        60_000,
        Stamp::new(9_000 * 21 * MINUTE, 1, Writer(2)),
    );
    let cost = synchronise(&mut a, &mut b);
    assert_eq!(a, b);
    assert!(cost.digests < 100, "{} digests", cost.digests);
    assert!(cost.stamps < 10, "{} stamps", cost.stamps);
    let cost = synchronise(&mut a, &mut b);
    assert_eq!(cost.stamps, 0);
    assert!(cost.digests < 30, "{} months", cost.digests);
}
