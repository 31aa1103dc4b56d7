use proptest::prelude::*;

use super::*;

/// 2014-01-15T10:30:00Z.
const WRITTEN: u64 = 1_389_781_800_000;
/// 2014-01-19T00:00:00Z.
const FOUR_MIDNIGHTS_ON: u64 = 1_390_089_600_000;

fn object(size: u64, tags: &[(&str, &str)]) -> ObjectHead {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    ObjectHead {
        size,
        tags: tags.iter().map(owned).collect(),
        ..ObjectHead::for_tests("e", WRITTEN)
    }
}

fn rule(id: &str, days: u32, filter: LifecycleFilter) -> LifecycleRule {
    LifecycleRule {
        id: id.into(),
        enabled: true,
        filter,
        expiration: Some(Expiration::Days(days)),
        ..LifecycleRule::default()
    }
}

fn rules(rules: Vec<LifecycleRule>) -> Lifecycle {
    Lifecycle {
        rules,
        ..Lifecycle::default()
    }
}

fn prefix(prefix: &str) -> LifecycleFilter {
    LifecycleFilter {
        prefix: Some(prefix.into()),
        ..LifecycleFilter::default()
    }
}

/// The example of AWS's documentation.
#[test]
fn days_are_rounded_up_to_the_next_midnight() {
    let all = rules(vec![rule("r", 3, prefix(""))]);
    let due = all.expiry("k", &object(1, &[]), DAY_MS).unwrap();
    assert_eq!(due.at_ms, FOUR_MIDNIGHTS_ON);
    assert_eq!(after_days(0, 1, DAY_MS), DAY_MS);
    assert_eq!(after_days(1, 1, DAY_MS), 2 * DAY_MS);
    assert_eq!(after_days(DAY_MS, 1, DAY_MS), 2 * DAY_MS);
    assert!(after_days(u64::MAX, u32::MAX, DAY_MS) > u64::MAX / 2);
}

#[test]
fn the_rule_that_takes_effect_first_counts() {
    let date = LifecycleRule {
        expiration: Some(Expiration::Date(WRITTEN + 1)),
        ..rule("date", 0, prefix("other"))
    };
    let off = LifecycleRule {
        enabled: false,
        ..rule("off", 1, prefix(""))
    };
    let markers = LifecycleRule {
        expiration: Some(Expiration::DeleteMarkers(true)),
        ..rule("markers", 0, prefix(""))
    };
    let all = [
        off,
        markers,
        rule("5", 5, prefix("")),
        rule("3", 3, prefix("k")),
        date,
    ];
    let all = rules(all.to_vec());
    let by = |key: &str| {
        let due = all.expiry(key, &object(1, &[]), DAY_MS);
        due.map(|due| due.rule.id.clone())
    };
    assert_eq!(by("key").as_deref(), Some("3"));
    assert_eq!(by("a").as_deref(), Some("5"));
    assert_eq!(by("other").as_deref(), Some("date"));
    assert!(all.is_active());
    assert!(!rules(Vec::new()).is_active());
}

#[test]
fn filter_must_match_in_all_parts() {
    let filter = LifecycleFilter {
        tags: vec![("a".into(), "1".into()), ("b".into(), "2".into())],
        larger_than: Some(10),
        smaller_than: Some(20),
        ..prefix("p/")
    };
    assert_eq!(filter.parts(), 5);
    let all = rules(vec![rule("r", 1, filter)]);
    let expires = |key: &str, size: u64, tags: &[(&str, &str)]| {
        all.expiry(key, &object(size, tags), DAY_MS).is_some()
    };
    let tags = [("c", "3"), ("b", "2"), ("a", "1")];
    assert!(expires("p/x", 11, &tags) && expires("p/x", 19, &tags));
    assert!(!expires("p", 11, &tags) && !expires("q/p/", 11, &tags));
    assert!(!expires("p/x", 10, &tags) && !expires("p/x", 20, &tags));
    assert!(!expires("p/x", 11, &tags[..2]) && !expires("p/x", 11, &[]));
    assert!(!expires("p/x", 11, &[("a", "2"), ("b", "2")]));
}

#[test]
fn uploads_expire_by_rules_for_uploads_only() {
    let aborts = LifecycleRule {
        expiration: None,
        abort_days: Some(2),
        ..rule("abort", 0, prefix("p"))
    };
    let all = rules(vec![rule("r", 1, prefix("")), aborts]);
    let due = all.abort("pk", 0, DAY_MS).unwrap();
    assert_eq!((due.at_ms, due.rule.id.as_str()), (2 * DAY_MS, "abort"));
    assert_eq!(all.abort("k", 0, DAY_MS), None);
    let due = all.expiry("pk", &object(1, &[]), DAY_MS).unwrap();
    assert_eq!(due.rule.id, "r");
}

fn any_rule() -> impl Strategy<Value = LifecycleRule> {
    let expiration = prop_oneof![
        Just(None),
        (1..4u32).prop_map(|days| Some(Expiration::Days(days))),
        (0..400u64).prop_map(|at| Some(Expiration::Date(at))),
        any::<bool>().prop_map(|on| Some(Expiration::DeleteMarkers(on))),
    ];
    let tags = prop::sample::subsequence(vec![("a", "1"), ("a", "2"), ("b", "1")], 0..=2);
    let sizes = (prop::option::of(0..5u64), prop::option::of(1..6u64));
    let prefixes = prop::option::of("[pq]{0,2}");
    let abort = prop::option::of(1..4u32);
    (any::<bool>(), expiration, tags, sizes, prefixes, abort).prop_map(
        |(enabled, expiration, tags, (larger_than, smaller_than), prefix, abort_days)| {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            LifecycleRule {
                id: String::new(),
                enabled,
                filter: LifecycleFilter {
                    old_form: false,
                    prefix,
                    tags: tags.iter().map(owned).collect(),
                    larger_than,
                    smaller_than,
                },
                expiration,
                noncurrent: None,
                abort_days,
            }
        },
    )
}

/// Says in the plainest way whether a rule has taken effect on an object at a time.
fn expired_by(rule: &LifecycleRule, key: &str, object: &ObjectHead, day: u64, now: u64) -> bool {
    let LifecycleFilter {
        prefix,
        tags,
        larger_than,
        smaller_than,
        ..
    } = &rule.filter;
    if !rule.enabled {
        return false;
    }
    if let Some(prefix) = prefix
        && key.strip_prefix(prefix.as_str()).is_none()
    {
        return false;
    }
    for (name, value) in tags {
        if !object.tags.iter().any(|(n, v)| n == name && v == value) {
            return false;
        }
    }
    if larger_than.is_some_and(|size| object.size <= size)
        || smaller_than.is_some_and(|size| object.size >= size)
    {
        return false;
    }
    match rule.expiration {
        Some(Expiration::Date(at)) => at <= now,
        Some(Expiration::Days(days)) => {
            // Walks from midnight to midnight.
            let end = object.modified_ms + u64::from(days) * day;
            let mut midnight = 0;
            while midnight < end {
                midnight += day;
            }
            midnight <= now
        }
        Some(Expiration::DeleteMarkers(_)) | None => false,
    }
}

proptest! {
    /// An object has expired if and only if one of the rules says so.
    #[test]
    fn rules_agree_with_a_plain_evaluation(
        rules in proptest::collection::vec(any_rule(), 0..5),
        key in "[pq]{1,3}",
        size in 0..6u64,
        tags in prop::sample::subsequence(vec![("a", "1"), ("b", "1"), ("c", "1")], 0..=3),
        written in 0..300u64,
        day in 1..60u64,
        now in 0..600u64,
    ) {
        let object = ObjectHead { modified_ms: written, ..object(size, &tags) };
        let expected = rules.iter().any(|rule| expired_by(rule, &key, &object, day, now));
        let lifecycle = self::rules(rules);
        let due = lifecycle.expiry(&key, &object, day);
        prop_assert_eq!(due.is_some_and(|due| due.at_ms <= now), expected);
        // Nothing that would act is missed when the rules are looked at as a whole.
        prop_assert!(lifecycle.is_active() || due.is_none());
    }
}
