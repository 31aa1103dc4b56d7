//! Round trips of operations on versions.

use std::sync::Arc;
use std::time::Duration;

use archipel_model::{
    BucketLock, Condition, Governance, LockChange, ObjectMeta, Retention, RetentionMode,
    VersionEntry, VersionId, VersionListing, VersionQuery, Versioning,
};

use crate::{KEYS, put, rounds, world};

fn query(after: Option<(&str, VersionId)>) -> VersionQuery {
    VersionQuery {
        after_key: after.map(|(key, _)| key.to_owned()),
        after_version: after.map(|(_, id)| id),
        limit: 1000,
        ..VersionQuery::default()
    }
}

fn ids(page: &VersionListing, of: &str) -> Vec<VersionId> {
    let ids = page.entries.iter().filter_map(|entry| match entry {
        VersionEntry::Version { key, head, .. } if key == of => Some(head.id),
        _ => None,
    });
    ids.collect()
}

#[tokio::test(start_paused = true)]
async fn operations_on_versions_take_as_many_round_trips_as_documented() {
    let (_world, model, bucket) = world().await;
    for key in KEYS {
        let mut writer = model.begin_object(&bucket, key).unwrap();
        writer.write(vec![3; 16].into()).await.unwrap();
        let null = writer.finish(ObjectMeta::default(), Condition::Always);
        null.await.unwrap();
    }
    let enabled = model.set_versioning(&bucket, Versioning::Enabled);
    let bucket = enabled.await.unwrap();
    for key in KEYS {
        for _ in 0..5 {
            assert_eq!(put(&model, &bucket, key, 16).await, 1.0, "PUT {key}");
        }
        let marker = model.delete_object(&bucket, key, Condition::Always);
        assert_eq!(rounds(marker).await.1, 1.0, "DELETE {key}");
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let (page, n) = rounds(model.list_versions(&bucket, &query(None))).await;
    let page = page.unwrap();
    assert_eq!((page.entries.len(), n), (7 * KEYS.len(), 1.0), "first page");
    for key in KEYS {
        let ids = ids(&page, key);
        assert_eq!(ids.last(), Some(&VersionId::Null));
        for (at, id) in ids.iter().enumerate() {
            let asked = query(Some((key, *id)));
            let (next, n) = rounds(model.list_versions(&bucket, &asked)).await;
            let last = if *id == VersionId::Null { 2.0 } else { 1.0 };
            assert_eq!(n, last, "page after version {at} of {key}");
            let before = page.entries.iter().take_while(|entry| entry.name() < key);
            assert_eq!(
                next.unwrap().entries,
                page.entries[before.count() + at + 1..]
            );
            // The marker has no content.
            if at > 0 {
                let (read, n) = rounds(model.open_version(&bucket, key, *id)).await;
                assert_eq!((read.unwrap().metadata().size, n), (16, 1.0), "GET {at}");
                let (head, n) = rounds(model.head_version(&bucket, key, *id)).await;
                assert_eq!((head.unwrap().size, n), (16, 1.0), "HEAD {at}");
            }
        }
        let delete =
            |id| model.delete_version(&bucket, key, id, Governance::Respect, Condition::Always);
        let (deleted, n) = rounds(delete(ids[3])).await;
        assert!(
            deleted.is_ok() && n == 2.0,
            "deletion of a noncurrent version: {n}"
        );
        let (deleted, n) = rounds(delete(ids[0])).await;
        assert!(
            deleted.is_ok() && n <= 4.0,
            "deletion of the current version: {n}"
        );
    }
    model.refresh_all().await.unwrap();
    let lock = model.set_bucket_lock(&bucket, BucketLock::default());
    let bucket = lock.await.unwrap();
    for key in KEYS {
        let page = model.list_versions(&bucket, &query(None)).await.unwrap();
        let ids = ids(&page, key);
        let until = |mode| Retention {
            mode,
            until_ms: model.cluster().now_ms() + 3_600_000,
        };
        let retain = LockChange::Retention;
        let governed = Some(until(RetentionMode::Governance));
        let changes = [
            ("a legal hold", LockChange::LegalHold(true)),
            ("the end of a legal hold", LockChange::LegalHold(false)),
            ("a retention", retain(governed, Governance::Respect)),
            ("a bypass", retain(None, Governance::Bypass)),
        ];
        // The current version, an older one, and the null version.
        for id in [ids[0], ids[1], VersionId::Null] {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let tags = vec![("a".to_owned(), "b".to_owned())];
            let (tagged, n) =
                rounds(model.set_object_tags(&bucket, key, Some(id), tags, &|_| Ok(()))).await;
            assert!(tagged.is_ok() && n == 2.0, "tags of {id}: {n} {tagged:?}");
            for (what, change) in changes {
                tokio::time::sleep(Duration::from_secs(10)).await;
                let (done, n) = rounds(model.change_lock(&bucket, key, Some(id), change)).await;
                assert!(done.is_ok() && n == 2.0, "{what} of {id}: {n} {done:?}");
            }
        }
    }
    let writer = model.begin_object(&bucket, "a").unwrap();
    let exists = Condition::Check(Arc::new(|_| Ok(())));
    let (written, n) = rounds(writer.finish(ObjectMeta::default(), exists)).await;
    assert!(written.is_ok() && n == 2.0, "conditional PUT: {n}");
}
