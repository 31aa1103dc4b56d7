//! Listings of versions over replicas that lack what others have.

use super::*;

/// Compares the listing of each node with the reference, whichever node is away.
async fn compare_listings(system: &mut System, reference: &Reference) {
    for away in 0..3 {
        system.cut(Some(away));
        for (at, model) in system.models.iter().enumerate() {
            if at == away {
                continue;
            }
            let bucket = system.bucket_of(model).await;
            for limit in [1, 3, 1000] {
                let listed = all_versions(model, &bucket, limit).await;
                assert_eq!(
                    listed,
                    reference.listing(&KEYS),
                    "without {away}, at {at}, {limit} a page"
                );
            }
        }
    }
    system.cut(None);
}

fn run_with_cuts(ops: Vec<(Option<usize>, Op)>) {
    block_on(true, async {
        let mut system = System::new(3).await;
        let mut reference = Reference::default();
        apply(
            &mut system,
            &mut reference,
            Op::Mode(Versioning::Enabled),
            0,
        )
        .await;
        for (number, (cut, op)) in ops.into_iter().enumerate() {
            // A replica that lacks a version refuses changes of it, so that others may have to wait for
            // a replica that has it.
            let op = match op {
                Op::Tag(key, _) => Op::Tag(key, None),
                op => op,
            };
            // A write through a replica that missed a change of the mode may end without an answer.
            system.cut(cut.filter(|_| !matches!(op, Op::Mode(_))));
            // Nodes connect again.
            tokio::time::sleep(Duration::from_secs(1)).await;
            apply(&mut system, &mut reference, op, number).await;
            compare_listings(&mut system, &reference).await;
        }
    });
}

/// A replica that missed a null version holds the one before it. New metadata is meant for the
/// version that the client saw, with its payload.
#[test]
fn new_metadata_reaches_no_older_null_version() {
    block_on(true, async {
        let mut system = System::new(3).await;
        let put = system.put("a", "first", Condition::Always).await;
        put.unwrap();
        system.cut(Some(0));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let put = system.put("a", "second", Condition::Always).await;
        put.unwrap();
        system.cut(None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let model = system.models[1].clone();
        let mode = Versioning::Enabled;
        model.set_versioning(&system.bucket, mode).await.unwrap();
        let put = system.put("a", "third", Condition::Always).await;
        put.unwrap();
        let tags = vec![("n".to_owned(), "1".to_owned())];
        let bucket = system.bucket_of(&model).await;
        let set = model.set_object_tags(&bucket, "a", Some(VersionId::Null), tags, &|_| Ok(()));
        set.await.unwrap();
        for away in 0..3 {
            system.cut(Some(away));
            tokio::time::sleep(Duration::from_secs(1)).await;
            let model = system.model();
            let bucket = system.bucket_of(&model).await;
            let opened = model.open_version(&bucket, "a", VersionId::Null).await;
            let reader = opened.unwrap();
            let mut content = reader.stream(0..u64::MAX);
            let bytes = content.next().await.unwrap().unwrap();
            assert_eq!(bytes, "second".as_bytes(), "without {away}");
        }
    });
}

/// A replica that lags holds as current what others keep, and lacks what they took meanwhile.
#[test]
fn a_version_that_only_a_lagging_replica_has_is_listed() {
    run_with_cuts(vec![
        (Some(2), Op::Put(0)),
        (Some(0), Op::Put(0)),
        (Some(1), Op::Put(0)),
        (Some(2), Op::DeleteVersion(0, 0)),
        (Some(0), Op::Delete(0)),
        (Some(1), Op::DeleteVersion(0, 1)),
    ]);
}

#[test]
fn null_version_is_listed_in_its_place_from_any_replica() {
    run_with_cuts(vec![
        (Some(2), Op::Put(0)),
        (None, Op::Mode(Versioning::Suspended)),
        (Some(0), Op::Put(0)),
        (None, Op::Mode(Versioning::Enabled)),
        (Some(1), Op::Put(0)),
        (Some(2), Op::Put(0)),
        (Some(0), Op::Tag(0, None)),
        (Some(1), Op::DeleteVersion(0, 0)),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn listings_agree_with_the_reference_while_replicas_lag(
        ops in prop::collection::vec((prop::option::of(0..3usize), op()), 1..12)
    ) {
        run_with_cuts(ops);
    }
}
