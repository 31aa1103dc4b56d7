use archipel_base::codec;
use proptest::prelude::*;

use super::*;
use Governance::{Bypass, Respect};
use RetentionMode as Mode;

fn retention() -> impl Strategy<Value = Option<Retention>> {
    let mode = prop_oneof![Just(Mode::Governance), Just(Mode::Compliance)];
    let some = (mode, 0u64..20).prop_map(|(mode, until_ms)| Retention { mode, until_ms });
    prop::option::of(some)
}

fn governance() -> impl Strategy<Value = Governance> {
    prop_oneof![Just(Respect), Just(Bypass)]
}

/// A step that a client may try.
#[derive(Clone, Copy, Debug)]
enum Try {
    Retain(Option<Retention>, Governance),
    Delete(Governance),
    Wait(u64),
}

fn tries() -> impl Strategy<Value = Vec<Try>> {
    let one = prop_oneof![
        (retention(), governance()).prop_map(|(new, governance)| Try::Retain(new, governance)),
        governance().prop_map(Try::Delete),
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
                Some(Retention { mode: Mode::Compliance, until_ms }) => {
                    compliance_until = until_ms.max(compliance_until);
                }
                Some(Retention { mode: Mode::Governance, until_ms }) => {
                    governance_until = until_ms.max(governance_until);
                }
                None => {}
            }
            (compliance_until, governance_until)
        };
        let (mut compliance, mut governed) = note(&lock);
        let mut bypassed = false;
        for one in tries {
            match one {
                Try::Wait(time) => now += time,
                Try::Retain(new, governance) if lock.may_become(new, now, governance) => {
                    bypassed |= governance == Bypass;
                    lock.retention = new;
                    (compliance, governed) = note(&lock);
                }
                Try::Delete(governance) if !lock.protects(now, governance) => {
                    prop_assert!(compliance <= now);
                    prop_assert!(governed <= now || bypassed || governance == Bypass);
                    return Ok(());
                }
                Try::Retain(..) | Try::Delete(_) => {}
            }
        }
    }

    #[test]
    fn a_legal_hold_protects_whatever_the_time_and_the_bypass(
        retention in retention(), now in 0u64..40, governance in governance(),
    ) {
        let lock = ObjectLock { retention, legal_hold: Some(true) };
        prop_assert!(lock.protects(now, governance));
    }
}

#[test]
fn a_retention_may_be_prolonged_by_everybody() {
    for mode in [Mode::Governance, Mode::Compliance] {
        let until = |until_ms| Some(Retention { mode, until_ms });
        let lock = ObjectLock {
            retention: until(10),
            legal_hold: None,
        };
        assert!(lock.may_become(until(11), 0, Respect));
        assert!(lock.may_become(until(10), 0, Respect));
        assert!(!lock.may_become(until(9), 0, Respect));
        assert_eq!(
            lock.may_become(until(9), 0, Bypass),
            mode == Mode::Governance
        );
        assert_eq!(lock.may_become(None, 0, Bypass), mode == Mode::Governance);
        assert!(!lock.may_become(None, 9, Respect));
        assert!(lock.may_become(None, 10, Respect), "it has ended");
        assert!(lock.protects(9, Respect));
        assert!(!lock.protects(10, Respect));
    }
    let governed = ObjectLock {
        retention: Some(Retention {
            mode: Mode::Governance,
            until_ms: 10,
        }),
        legal_hold: None,
    };
    let stricter = Some(Retention {
        mode: Mode::Compliance,
        until_ms: 20,
    });
    assert!(!governed.may_become(stricter, 0, Respect));
    assert!(governed.may_become(stricter, 0, Bypass));
}

/// Nodes of other releases read these bytes. Mixed up, a bypass would protect, and its absence would
/// not.
#[test]
fn a_bypass_of_governance_is_encoded_as_true() {
    for (governance, bypasses) in [(Respect, b'\xc2'), (Bypass, b'\xc3')] {
        let version = Taking::Version { governance };
        let retention = Taking::Retention {
            new: None,
            governance,
        };
        let bytes = [b"\x01\x81\xa1v\x81\xa1b".as_slice(), &[bypasses]].concat();
        assert_eq!(codec::encode(&version), bytes);
        assert_eq!(codec::decode(&bytes), Ok(version));
        let bytes = [b"\x01\x81\xa1r\x82\xa1n\xc0\xa1b".as_slice(), &[bypasses]].concat();
        assert_eq!(codec::encode(&retention), bytes);
        assert_eq!(codec::decode(&bytes), Ok(retention));
    }
}

#[test]
fn a_default_retention_is_for_those_that_ask_for_none() {
    let bucket = BucketLock {
        default: Some(DefaultRetention {
            mode: Mode::Governance,
            period: RetentionPeriod::Years(1),
        }),
    };
    let asked = ObjectLock {
        retention: Some(Retention {
            mode: Mode::Compliance,
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
