//! Rotation of the keyring, and secrets that it seals.

use archipel_cluster::WriteOptions;
use archipel_storage::RowKey;
use archipel_storage::engine::Durability;

use super::*;
use crate::identity::NewSession;
use crate::tests::timed::timed;
use crate::{Upload, VersionId, Versioning, rowkeys};

/// The milliseconds after which no node begins content under an earlier key.
const SETTLED: u64 = 61_000;
const DAY: u64 = 24 * 3_600_000 + 1000;

fn bucket(model: &Model) -> Arc<Bucket> {
    model.bucket("bucket").unwrap().unwrap()
}

/// The bytes of a row, as they are stored.
async fn stored(model: &Model, row: &RowKey) -> Vec<u8> {
    let metadata = model.cluster().metadata(row).await.unwrap();
    metadata.unwrap().to_vec()
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle.as_bytes())
}

async fn text(model: &Model, key: &str, id: Option<VersionId>) -> Vec<u8> {
    let reader = match id {
        None => model.open_object(&bucket(model), key).await.unwrap(),
        Some(id) => model.open_version(&bucket(model), key, id).await.unwrap(),
    };
    read(&reader, 0..u64::MAX).await.unwrap()
}

async fn begin_upload(model: &Model) -> Upload {
    let sealing = model.seal(&bucket(model), "up", &Encrypt::Server).await;
    let meta = UploadMeta {
        encryption: Some(sealing.unwrap().encryption()),
        ..UploadMeta::default()
    };
    let bucket = bucket(model);
    let upload = model.create_upload(&bucket, "up", None, meta);
    upload.await.unwrap()
}

async fn send_part(model: &Model, upload: &Upload, number: u16, content: &[u8]) {
    let bucket = bucket(model);
    let upload = model.upload_to_write(&bucket, &upload.key, &upload.id);
    let upload = upload.await.unwrap();
    let encryption = upload.meta.encryption.as_ref().unwrap();
    let key = model.unseal(&bucket, "up", encryption, None).await.unwrap();
    let mut writer = model.begin_part(&bucket, &upload, number).unwrap();
    writer.encrypt(&key, encryption.kind).unwrap();
    writer.write(Bytes::copy_from_slice(content)).await.unwrap();
    writer.finish(PartMeta::default()).await.unwrap();
}

async fn complete(model: &Model, upload: &Upload) {
    let bucket = bucket(model);
    let sent = model
        .sent_parts(&bucket, "up", &upload.id, &|_| true)
        .await
        .unwrap();
    let done = model.complete_upload(
        &bucket,
        upload,
        &sent,
        ObjectMeta::default(),
        Condition::Always,
    );
    done.await.unwrap();
}

#[tokio::test]
async fn rows_hold_no_secret_in_plain_text() {
    let (model, _) = timed().await;
    model.set_ring_secrets(secrets(&["secret"], &[]));
    let key = model.create_owner_key("k").await.unwrap();
    let row = stored(&model, &rowkeys::access_key(&key.id)).await;
    assert!(!contains(&row, key.secret.expose()));
    // A change of the row knows no secret, and keeps the sealed one.
    model.disable_key(&key.id).await.unwrap();
    let row = stored(&model, &rowkeys::access_key(&key.id)).await;
    assert!(!contains(&row, key.secret.expose()));
    for node in [&model, &again(&model, secrets(&["secret"], &[])).await] {
        node.refresh_all().await.unwrap();
        let found = node.access_key(&key.id).unwrap().unwrap();
        assert_eq!(found.secret, key.secret);
        assert!(found.disabled);
    }
    let (_, token) = model.begin_session(NewSession::default()).await.unwrap();
    let other = again(&model, secrets(&["secret"], &[])).await;
    other.refresh_all().await.unwrap();
    other.key_of_token(&token).await.unwrap();
    assert_eq!(model.keyring_status().await.unwrap().plain_secrets, 0);
}

#[tokio::test]
async fn node_that_cannot_open_the_ring_refuses_keys_and_nothing_else() {
    let (model, bucket) = start().await;
    model.set_ring_secrets(secrets(&["secret"], &[]));
    let key = model.create_owner_key("k").await.unwrap();
    let (_, token) = model.begin_session(NewSession::default()).await.unwrap();
    let wrong = again(&model, secrets(&["wrong"], &[])).await;
    wrong.refresh_all().await.unwrap();
    assert!(wrong.bucket(&bucket.name).unwrap().is_some());
    let refused = |result: Result<(), Error>| matches!(result, Err(Error::NoMasterKey(_)));
    assert!(refused(wrong.access_key(&key.id).map(|_| ())));
    assert!(refused(wrong.find_access_key(&key.id).await.map(|_| ())));
    assert!(refused(wrong.key_of_token(&token).await.map(|_| ())));
    assert!(refused(wrong.create_owner_key("l").await.map(|_| ())));
    assert!(refused(wrong.rotate_keyring().await.map(|_| ())));
    let status = wrong.keyring_status().await.unwrap();
    assert_eq!(status.closed_secrets, 2);
    assert!(status.trouble.unwrap().contains("no secret of this node"));
    assert!(!status.keys[0].is_open);
    wrong.delete_access_key(&key.id).await.unwrap();
    model.refresh_all().await.unwrap();
    assert!(model.find_access_key(&key.id).await.unwrap().is_none());
}

#[tokio::test]
async fn secrets_of_an_earlier_release_are_sealed_in_the_background() {
    let (model, _) = timed().await;
    let key = model.create_owner_key("k").await.unwrap();
    let (_, token) = model.begin_session(NewSession::default()).await.unwrap();
    let row = rowkeys::access_key(&key.id);
    assert!(contains(&stored(&model, &row).await, key.secret.expose()));
    let newer = again(&model, secrets(&["secret"], &[])).await;
    assert_eq!(newer.keyring_status().await.unwrap().plain_secrets, 2);
    newer.sweep_what_is_due().await.unwrap();
    assert!(!contains(&stored(&newer, &row).await, key.secret.expose()));
    assert_eq!(newer.keyring_status().await.unwrap().plain_secrets, 0);
    let found = newer.access_key(&key.id).unwrap().unwrap();
    assert_eq!(found.secret, key.secret);
    newer.key_of_token(&token).await.unwrap();
}

#[tokio::test]
async fn rotation_wraps_everything_again() {
    let (model, clock) = timed().await;
    model.set_ring_secrets(secrets(&["secret"], &[]));
    model.create_bucket("bucket", None).await.unwrap();
    model
        .set_versioning(&bucket(&model), Versioning::Enabled)
        .await
        .unwrap();
    let key = model.create_owner_key("k").await.unwrap();
    let (_, token) = model.begin_session(NewSession::default()).await.unwrap();
    let bucket_row = bucket(&model);
    let first = put(&model, &bucket_row, &Encrypt::Server, b"one").await;
    let second = put(&model, &bucket_row, &Encrypt::Server, &content(70_000)).await;
    let ours = Encrypt::Customer(customer(1));
    let third = put(&model, &bucket_row, &ours, b"customer").await;
    let upload = begin_upload(&model).await;
    send_part(&model, &upload, 1, &content(5 << 20)).await;

    let earlier = model.keyring_status().await.unwrap().keys[0].id;
    // A request that begins now and ends after the rotation.
    let sealing = model.seal(&bucket_row, "late", &Encrypt::Server).await;
    let mut late = model.begin_object(&bucket_row, "late").unwrap();
    late.encrypt(&sealing.unwrap()).unwrap();
    late.write(Bytes::from_static(b"late")).await.unwrap();
    // One that takes longer than all passes.
    let sealing = model.seal(&bucket_row, "later", &Encrypt::Server).await;
    let mut later = model.begin_object(&bucket_row, "later").unwrap();
    later.encrypt(&sealing.unwrap()).unwrap();
    later.write(Bytes::from_static(b"later")).await.unwrap();
    let newest = model.rotate_keyring().await.unwrap();
    let late = late.finish(ObjectMeta::default(), Condition::Always).await;
    assert_eq!(late.unwrap().encryption.unwrap().key, Some(newest));

    // Before all nodes know the new key, only secrets of control data are sealed by it.
    model.sweep_what_is_due().await.unwrap();
    let is_by = |head: &ObjectHead| head.encryption.as_ref().unwrap().key;
    let head = |id| {
        let model = model.clone();
        async move {
            model
                .head_version(&bucket(&model), "key", id)
                .await
                .unwrap()
        }
    };
    assert_eq!(is_by(&head(first.id).await), Some(earlier));
    clock.advance(SETTLED);
    model.sweep_what_is_due().await.unwrap();
    for before in [&first, &second] {
        let after = head(before.id).await;
        assert_eq!(is_by(&after), Some(newest));
        let encryption = before.encryption.clone();
        assert_eq!(
            ObjectHead {
                encryption,
                ..after
            },
            *before
        );
    }
    assert_eq!(head(third.id).await, third);
    let status = model.keyring_status().await.unwrap();
    assert_eq!(status.keys.len(), 2);
    assert_eq!((status.counts.rewrapped, status.counts.failed), (3, 0));
    assert!(status.last_pass_ms.is_some());
    // The last pass waits for a day.
    model.sweep_what_is_due().await.unwrap();
    assert_eq!(model.keyring_status().await.unwrap().keys.len(), 2);
    clock.advance(DAY);
    model.refresh_all().await.unwrap();
    model.sweep_what_is_due().await.unwrap();
    let status = model.keyring_status().await.unwrap();
    let ids: Vec<_> = status.keys.iter().map(|key| key.id).collect();
    assert_eq!((ids, status.is_rotating), (vec![earlier, newest], false));
    let later = later.finish(ObjectMeta::default(), Condition::Always).await;
    assert_eq!(later.unwrap().encryption.unwrap().key, Some(newest));

    for node in [&model, &again(&model, secrets(&["secret"], &[])).await] {
        node.refresh_all().await.unwrap();
        assert_eq!(text(node, "key", Some(first.id)).await, b"one");
        assert_eq!(text(node, "key", Some(second.id)).await, content(70_000));
        assert_eq!(text(node, "late", None).await, b"late");
        assert_eq!(text(node, "later", None).await, b"later");
        let found = node.access_key(&key.id).unwrap().unwrap();
        assert_eq!(found.secret, key.secret);
        // The session is over by now, but its token still opens.
        node.key_of_token(&token).await.unwrap();
    }
    // The upload goes on, on a node that has known it all the time, and ends by what was known at
    // first.
    send_part(&model, &upload, 2, b"end").await;
    complete(&model, &upload).await;
    let whole = [content(5 << 20), b"end".to_vec()].concat();
    assert_eq!(text(&model, "up", None).await, whole);
    let head = model.head_object(&bucket(&model), "up").await.unwrap();
    assert_eq!(is_by(&head), Some(newest));
}

#[tokio::test]
async fn passes_go_on_while_anything_needs_an_earlier_key() {
    let (model, clock) = timed().await;
    model.set_ring_secrets(secrets(&["secret"], &[]));
    model.create_bucket("bucket", None).await.unwrap();
    let head = put(&model, &bucket(&model), &Encrypt::Server, b"one").await;
    model.rotate_keyring().await.unwrap();
    clock.advance(SETTLED);
    model.sweep_what_is_due().await.unwrap();
    // A write under the earlier key that was under way all the time.
    let change = |now: &mut ObjectHead| {
        now.encryption.clone_from(&head.encryption);
        Ok(())
    };
    let null = VersionId::of(None);
    let holder = bucket(&model);
    let changed = model.rekey_version(&holder, "key", null, &change);
    changed.await.unwrap();
    for is_rotating in [true, false] {
        clock.advance(DAY);
        model.refresh_all().await.unwrap();
        model.sweep_what_is_due().await.unwrap();
        let status = model.keyring_status().await.unwrap();
        assert_eq!((status.is_rotating, status.keys.len()), (is_rotating, 2));
        assert_eq!(text(&model, "key", None).await, b"one");
    }
    // It may come back with a node that was away. The key is still there.
    let changed = model.rekey_version(&holder, "key", null, &change);
    changed.await.unwrap();
    assert_eq!(text(&model, "key", None).await, b"one");
}

#[tokio::test]
async fn second_rotation_begins_the_pass_again() {
    let (model, clock) = timed().await;
    model.set_ring_secrets(secrets(&["secret"], &[]));
    model.create_bucket("bucket", None).await.unwrap();
    put(&model, &bucket(&model), &Encrypt::Server, b"one").await;
    model.rotate_keyring().await.unwrap();
    clock.advance(SETTLED);
    model.sweep_what_is_due().await.unwrap();
    let newest = model.rotate_keyring().await.unwrap();
    let status = model.keyring_status().await.unwrap();
    assert_eq!((status.keys.len(), status.last_pass_ms), (3, None));
    for wait in [SETTLED, DAY] {
        clock.advance(wait);
        model.refresh_all().await.unwrap();
        model.sweep_what_is_due().await.unwrap();
    }
    let status = model.keyring_status().await.unwrap();
    assert_eq!((status.keys.len(), status.is_rotating), (3, false));
    let head = model.head_object(&bucket(&model), "key").await.unwrap();
    assert_eq!(head.encryption.unwrap().key, Some(newest));
    assert_eq!(text(&model, "key", None).await, b"one");
}

/// The row of a certificate is damaged. Each pass tries it again, and fails once.
#[tokio::test]
async fn failures_are_counted_for_each_pass() {
    let (model, clock) = timed().await;
    model.set_ring_secrets(secrets(&["secret"], &[]));
    model.create_bucket("bucket", None).await.unwrap();
    put(&model, &bucket(&model), &Encrypt::Server, b"one").await;
    let row = rowkeys::certificate(b'd', b"12345678www.example.org");
    let damaged = crate::control::row(b"damaged".to_vec());
    let how = WriteOptions::durable(Durability::Fsync);
    let written = model.cluster().write(&row, Some(damaged), how);
    written.await.unwrap();
    model.rotate_keyring().await.unwrap();
    for (wait, failed) in [(SETTLED, 1), (DAY, 2)] {
        clock.advance(wait);
        model.refresh_all().await.unwrap();
        model.sweep_what_is_due().await.unwrap_err();
        assert_eq!(model.sweep_counts().failed, failed);
        let status = model.keyring_status().await.unwrap();
        assert_eq!((status.counts.failed, status.is_rotating), (1, true));
    }
}
