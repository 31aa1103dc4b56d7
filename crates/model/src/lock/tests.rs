use proptest::prelude::*;

use super::*;
use RetentionMode::{Compliance, Governance};

fn retention() -> impl Strategy<Value = Option<Retention>> {
    let mode = prop_oneof![Just(Governance), Just(Compliance)];
    let some = (mode, 0u64..20).prop_map(|(mode, until_ms)| Retention { mode, until_ms });
    prop::option::of(some)
}

/// A step that a client may try.
#[derive(Clone, Copy, Debug)]
enum Try {
    Retain(Option<Retention>, bool),
    Delete(bool),
    Wait(u64),
}

fn tries() -> impl Strategy<Value = Vec<Try>> {
    let one = prop_oneof![
        (retention(), any::<bool>()).prop_map(|(new, bypass)| Try::Retain(new, bypass)),
        any::<bool>().prop_map(Try::Delete),
        (0u64..4).prop_map(Try::Wait),
    ];
    prop::collection::vec(one, 0..40)
}

proptest! {
    /// No sequence of permitted steps deletes a version before its compliance retention ends, and
    /// none deletes one under governance unless some step bypassed it.
    #[test]
    fn no_sequence_of_permitted_steps_ends_a_retention_early(first in retention(), tries in tries()) {
        let mut lock = ObjectLock { retention: first, legal_hold: None };
        let (mut now, mut compliance_until, mut governance_until) = (0, 0, 0);
        let mut note = |lock: &ObjectLock| {
            match lock.retention {
                Some(Retention { mode: Compliance, until_ms }) => {
                    compliance_until = until_ms.max(compliance_until);
                }
                Some(Retention { mode: Governance, until_ms }) => {
                    governance_until = until_ms.max(governance_until);
                }
                None => {}
            }
            (compliance_until, governance_until)
        };
        let (mut compliance, mut governance) = note(&lock);
        let mut bypassed = false;
        for one in tries {
            match one {
                Try::Wait(time) => now += time,
                Try::Retain(new, bypass) if lock.may_become(new, now, bypass) => {
                    bypassed |= bypass;
                    lock.retention = new;
                    (compliance, governance) = note(&lock);
                }
                Try::Delete(bypass) if !lock.protects(now, bypass) => {
                    prop_assert!(compliance <= now);
                    prop_assert!(governance <= now || bypassed || bypass);
                    return Ok(());
                }
                Try::Retain(..) | Try::Delete(_) => {}
            }
        }
    }

    #[test]
    fn a_legal_hold_protects_whatever_the_time_and_the_bypass(
        retention in retention(), now in 0u64..40, bypass: bool,
    ) {
        let lock = ObjectLock { retention, legal_hold: Some(true) };
        prop_assert!(lock.protects(now, bypass));
    }
}

#[test]
fn a_retention_may_be_prolonged_by_everybody() {
    for mode in [Governance, Compliance] {
        let until = |until_ms| Some(Retention { mode, until_ms });
        let lock = ObjectLock {
            retention: until(10),
            legal_hold: None,
        };
        assert!(lock.may_become(until(11), 0, false));
        assert!(lock.may_become(until(10), 0, false));
        assert!(!lock.may_become(until(9), 0, false));
        assert_eq!(lock.may_become(until(9), 0, true), mode == Governance);
        assert_eq!(lock.may_become(None, 0, true), mode == Governance);
        assert!(!lock.may_become(None, 9, false));
        assert!(lock.may_become(None, 10, false), "it has ended");
        assert!(lock.protects(9, false));
        assert!(!lock.protects(10, false));
    }
    let governed = ObjectLock {
        retention: Some(Retention {
            mode: Governance,
            until_ms: 10,
        }),
        legal_hold: None,
    };
    let stricter = Some(Retention {
        mode: Compliance,
        until_ms: 20,
    });
    assert!(!governed.may_become(stricter, 0, false));
    assert!(governed.may_become(stricter, 0, true));
}

#[test]
fn a_default_retention_is_for_those_that_ask_for_none() {
    let bucket = BucketLock {
        default: Some(DefaultRetention {
            mode: Governance,
            period: RetentionPeriod::Years(1),
        }),
    };
    let asked = ObjectLock {
        retention: Some(Retention {
            mode: Compliance,
            until_ms: 5,
        }),
        legal_hold: Some(false),
    };
    assert_eq!(bucket.of_new(asked, 1), asked);
    let given = bucket.of_new(ObjectLock::default(), 1);
    assert_eq!(given.retention.map(|r| r.until_ms), Some(1 + 365 * DAY_MS));
    let none = BucketLock::default().of_new(ObjectLock::default(), 1);
    assert!(none.is_empty());
}
