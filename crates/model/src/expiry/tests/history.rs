//! Random histories of writes, rules, days and restarts, against a plain reference.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8, bool),
    Tag(u8, bool),
    Delete(u8),
    Rules(Vec<(u8, u32, bool, bool)>),
    Pass(u64),
    Walk,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rule = (0..4u8, 1..4u32, any::<bool>(), any::<bool>());
    let step = prop_oneof![
        6 => (0..12u8, 0..20u8, any::<bool>()).prop_map(|(k, size, tag)| Step::Put(k, size, tag)),
        2 => (0..12u8, any::<bool>()).prop_map(|(k, tag)| Step::Tag(k, tag)),
        1 => (0..12u8).prop_map(Step::Delete),
        2 => proptest::collection::vec(rule, 0..3).prop_map(Step::Rules),
        4 => (1..48u64).prop_map(|hours| Step::Pass(hours * 3_600_000 + 77)),
        4 => Just(Step::Walk),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Builds a rule from numbers: a prefix, days, whether it wants a tag, whether it wants a size.
fn rule_of((prefix, days, tagged, sized): (u8, u32, bool, bool)) -> LifecycleRule {
    let prefix = ["", "k0", "k1", "k"][usize::from(prefix)];
    LifecycleRule {
        id: format!("{prefix} {days} {tagged} {sized}"),
        filter: LifecycleFilter {
            prefix: Some(prefix.into()),
            tags: if tagged {
                vec![("t".into(), String::new())]
            } else {
                Vec::new()
            },
            larger_than: sized.then_some(9),
            ..LifecycleFilter::default()
        },
        ..rule(prefix, Expiration::Days(days))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// After a walk exactly the objects are gone that the rules make expire, judged in the plainest
    /// way; between walks nothing vanishes.
    #[test]
    fn days_pass_and_only_what_expired_vanishes(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (model, wall) = model().await;
            let mut progress = Progress::default();
            // By key: time, size, tagged.
            let mut expected: BTreeMap<String, (u64, usize, bool)> = BTreeMap::new();
            let mut rules = Vec::new();
            // The day and the rules of the last walk, and of the last that was stored.
            let (mut walked, mut stored) = (None, None);
            let tags = |tagged: bool| if tagged { &[("t", "")][..] } else { &[] };
            for step in steps {
                match step {
                    Step::Put(key, size, tagged) => {
                        let key = format!("k{key:02}");
                        put(&model, &key, size.into(), tags(tagged)).await;
                        expected.insert(key, (wall.now(), size.into(), tagged));
                    }
                    Step::Tag(key, tagged) => {
                        let key = format!("k{key:02}");
                        let new = tags(tagged).iter().map(|(k, v)| ((*k).into(), (*v).into()));
                        let on = bucket(&model);
                        let set = model.set_object_tags(&on, &key, None, new.collect(), &|_| Ok(())).await;
                        prop_assert_eq!(set.is_ok(), expected.contains_key(&key));
                        expected.entry(key).and_modify(|object| object.2 = tagged);
                    }
                    Step::Delete(key) => {
                        let key = format!("k{key:02}");
                        let on = bucket(&model);
                        let gone = model.delete_object(&on, &key, Condition::Always);
                        gone.await.unwrap();
                        expected.remove(&key);
                    }
                    Step::Rules(new) => {
                        set(&model, new.iter().copied().map(rule_of).collect()).await;
                        rules = new;
                    }
                    Step::Pass(ms) => wall.advance(ms),
                    Step::Restart => {
                        progress = Progress::default();
                        walked = stored.clone();
                    }
                    Step::Walk => {
                        model.expire_what_is_due(&mut progress).await.unwrap();
                        let now = wall.now();
                        // A walk leaves what one of the same day under the same rules has left.
                        let under = Some((now / DAY_MS, rules.clone()));
                        if walked != under && !rules.is_empty() {
                            expected.retain(|key, object| !rules.iter().any(|rule| {
                                is_expired(*rule, key, *object, now)
                            }));
                        }
                        if !rules.is_empty() {
                            stored = under.clone();
                        }
                        walked = under;
                    }
                }
                let found = keys(&model).await;
                let wanted: Vec<_> = expected.keys().cloned().collect();
                prop_assert_eq!(found, wanted);
            }
            Ok(())
        })?;
    }
}

fn is_expired(
    (prefix, days, tagged, sized): (u8, u32, bool, bool),
    key: &str,
    (written, size, has_tag): (u64, usize, bool),
    now: u64,
) -> bool {
    let prefix = ["", "k0", "k1", "k"][usize::from(prefix)];
    let end = written + u64::from(days) * DAY_MS;
    let midnight = (end - 1) / DAY_MS * DAY_MS + DAY_MS;
    let matches = key.starts_with(prefix) && (has_tag || !tagged) && (size > 9 || !sized);
    matches && midnight <= now
}

trait Now {
    fn now(&self) -> u64;
}

impl Now for ManualClock {
    fn now(&self) -> u64 {
        use archipel_base::clock::WallClock;
        self.now_millis()
    }
}
