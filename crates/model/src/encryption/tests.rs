//! Encrypted objects on a cluster in memory.

mod rotation;
mod secrets;
mod shortage;

use std::ops::Range;
use std::sync::Arc;

use archipel_base::codec::{self, DecodeError};
use archipel_cluster::Cluster;
use bytes::Bytes;

use crate::{
    BlockedEncryption, Bucket, Condition, CustomerKey, DataKey, DefaultEncryption, Encrypt,
    EncryptionKind, Error, HOOKS, Model, ObjectHead, ObjectMeta, ObjectReader, PartMeta,
    RingSecrets, UploadMeta, rowkeys,
};

fn secrets(present: &[&str], earlier: &[&str]) -> RingSecrets {
    let bytes = |all: &[&str]| {
        all.iter()
            .map(|secret| secret.as_bytes().to_vec())
            .collect()
    };
    RingSecrets {
        present: bytes(present),
        earlier: bytes(earlier),
    }
}

async fn start() -> (Model, Arc<Bucket>) {
    let cluster = Cluster::in_memory(1, HOOKS).await.unwrap();
    let model = Model::open(cluster).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    (model, bucket)
}

/// Another process on the same rows.
async fn again(model: &Model, secrets: RingSecrets) -> Model {
    let model = Model::open(model.cluster().clone()).await.unwrap();
    model.set_ring_secrets(secrets);
    model
}

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 253) as u8).collect()
}

fn customer(byte: u8) -> CustomerKey {
    CustomerKey::new([byte; 32])
}

async fn put(model: &Model, bucket: &Arc<Bucket>, how: &Encrypt, content: &[u8]) -> ObjectHead {
    let sealing = model.seal(bucket, "key", how).await.unwrap();
    let mut writer = model.begin_object(bucket, "key").unwrap();
    writer.encrypt(&sealing).unwrap();
    for piece in content.chunks(300_000) {
        writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    let meta = ObjectMeta {
        etag: "0123456789abcdef0123456789abcdef".into(),
        ..ObjectMeta::default()
    };
    writer.finish(meta, Condition::Always).await.unwrap()
}

async fn read(reader: &ObjectReader, range: Range<u64>) -> Result<Vec<u8>, Error> {
    let mut stream = reader.stream(range);
    let mut all = Vec::new();
    while let Some(piece) = stream.next().await {
        all.extend_from_slice(&piece?);
    }
    Ok(all)
}

/// Small ones are inline, large ones have several blocks.
const SIZES: [usize; 7] = [0, 1, 16_368, 16_369, 65_536, 1_048_576, 3_000_000];

#[tokio::test]
async fn objects_under_the_clusters_key_read_back_and_keep_their_tag() {
    let (model, bucket) = start().await;
    model.set_ring_secrets(secrets(&["secret"], &[]));
    for size in SIZES {
        let content = content(size);
        let head = put(&model, &bucket, &Encrypt::Server, &content).await;
        assert_eq!(head.size, size as u64);
        assert_eq!(head.etag, "0123456789abcdef0123456789abcdef");
        let other = again(&model, secrets(&["secret"], &[])).await;
        let reader = other.open_object(&bucket, "key").await.unwrap();
        assert_eq!(read(&reader, 0..u64::MAX).await.unwrap(), content, "{size}");
        let middle = size as u64 / 3..size as u64 / 2;
        let wanted = &content[middle.start as usize..middle.end as usize];
        assert_eq!(read(&reader, middle).await.unwrap(), wanted, "{size}");
    }
}

#[tokio::test]
async fn customers_object_takes_the_customers_key() {
    let (model, bucket) = start().await;
    for size in SIZES {
        let content = content(size);
        let how = Encrypt::Customer(customer(1));
        let head = put(&model, &bucket, &how, &content).await;
        assert_ne!(head.etag, "0123456789abcdef0123456789abcdef");
        assert_eq!(head.etag.len(), 32);
        let encryption = head.encryption.clone().unwrap();
        assert_eq!(encryption.kind, EncryptionKind::Customer);
        let mut reader = model.open_object(&bucket, "key").await.unwrap();
        assert_eq!(read(&reader, 0..10).await, Err(Error::KeyNeeded));
        assert_eq!(reader.unlock(&customer(2)), Err(Error::WrongKey));
        assert_eq!(read(&reader, 0..10).await, Err(Error::KeyNeeded));
        reader.unlock(&customer(1)).unwrap();
        assert_eq!(read(&reader, 0..u64::MAX).await.unwrap(), content, "{size}");
        let unseal = |key: &'static str, given: Option<CustomerKey>| {
            let (model, bucket, encryption) = (&model, &bucket, &encryption);
            async move {
                let opened = model.unseal(bucket, key, encryption, given.as_ref()).await;
                opened.map(|_: DataKey| ())
            }
        };
        assert_eq!(unseal("key", Some(customer(1))).await, Ok(()));
        assert_eq!(
            unseal("other", Some(customer(1))).await,
            Err(Error::WrongKey)
        );
        assert_eq!(unseal("key", None).await, Err(Error::KeyNeeded));
    }
}

/// Each segment used to go to the client by itself, which cost a GET of 4.5 MiB 72 hand-overs.
#[tokio::test]
async fn four_segments_of_a_block_open_into_one_piece() {
    let (model, bucket) = start().await;
    let content = content(3_000_000);
    let how = Encrypt::Customer(customer(1));
    put(&model, &bucket, &how, &content).await;
    let mut reader = model.open_object(&bucket, "key").await.unwrap();
    reader.unlock(&customer(1)).unwrap();
    let mut stream = reader.stream(0..u64::MAX);
    let (mut lengths, mut all) = (Vec::new(), Vec::new());
    while let Some(piece) = stream.next().await {
        let piece = piece.unwrap();
        lengths.push(piece.len());
        all.extend_from_slice(&piece);
    }
    assert_eq!(all, content);
    // The first block completes 15 segments, the second one 16. The third one completes 15, and
    // its last segment is short.
    let segments = |number: usize| number * 65_536;
    let last = content.len() - segments(15 + 16 + 12);
    let whole = [4, 4, 4, 3, 4, 4, 4, 4, 4, 4, 4].map(segments);
    assert_eq!(lengths, [&whole[..], &[last]].concat());
}

#[tokio::test]
async fn parts_take_the_key_of_their_upload() {
    let (model, bucket) = start().await;
    model.set_ring_secrets(secrets(&["secret"], &[]));
    let sealing = model.seal(&bucket, "key", &Encrypt::Server).await.unwrap();
    let meta = UploadMeta {
        encryption: Some(sealing.encryption()),
        ..UploadMeta::default()
    };
    let upload = model
        .create_upload(&bucket, "key", None, meta)
        .await
        .unwrap();
    let pieces = [content(5 << 20), content(70_000), content(5)];
    for (number, piece) in (1u16..).zip(&pieces) {
        let encryption = upload.meta.encryption.as_ref().unwrap();
        let key = model
            .unseal(&bucket, "key", encryption, None)
            .await
            .unwrap();
        let mut writer = model.begin_part(&bucket, &upload, number).unwrap();
        writer.encrypt(&key, encryption.kind).unwrap();
        writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
        writer.finish(PartMeta::default()).await.unwrap();
    }
    let plain = model.begin_part(&bucket, &upload, 4).unwrap();
    let refused = plain.finish(PartMeta::default()).await;
    assert_eq!(refused.map(|_| ()), Err(Error::KeyNeeded));
    let sent = model
        .sent_parts(&bucket, "key", &upload.id, &|_| true)
        .await
        .unwrap();
    let done = model.complete_upload(
        &bucket,
        &upload,
        &sent,
        ObjectMeta::default(),
        Condition::Always,
    );
    done.await.unwrap();
    let reader = model.open_object(&bucket, "key").await.unwrap();
    let whole = pieces.concat();
    assert_eq!(read(&reader, 0..u64::MAX).await.unwrap(), whole);
    let across = (5 << 20) - 10..(5 << 20) + 70_002;
    let wanted = &whole[across.start as usize..across.end as usize];
    assert_eq!(read(&reader, across).await.unwrap(), wanted);
}

#[tokio::test]
async fn keyring_follows_the_secret() {
    let (model, bucket) = start().await;
    model.set_ring_secrets(secrets(&["old"], &[]));
    put(&model, &bucket, &Encrypt::Server, b"content").await;
    let opens = |secrets: RingSecrets| {
        let (model, bucket) = (&model, &bucket);
        async move {
            let node = again(model, secrets).await;
            let reader = node.open_object(bucket, "key").await;
            matches!(reader, Ok(reader) if read(&reader, 0..9).await.unwrap() == b"content")
        }
    };
    assert!(!opens(secrets(&["new"], &[])).await);
    assert!(!opens(secrets(&[], &[])).await);
    assert!(opens(secrets(&["old"], &[])).await);
    // A node that knows both; then all do with the new one.
    let both = again(&model, secrets(&["new", "old"], &[])).await;
    both.rewrap_keyring().await.unwrap();
    assert!(opens(secrets(&["new"], &[])).await);
    assert!(opens(secrets(&["old"], &[])).await);
    let last = again(&model, secrets(&["new"], &["old"])).await;
    last.rewrap_keyring().await.unwrap();
    assert!(opens(secrets(&["new"], &[])).await);
    assert!(!opens(secrets(&["old"], &[])).await);
    // New content takes the same ring.
    put(&last, &bucket, &Encrypt::Server, b"content").await;
    assert!(opens(secrets(&["new"], &[])).await);
}

#[tokio::test]
async fn node_without_a_secret_encrypts_nothing() {
    let (model, bucket) = start().await;
    let refused = model.seal(&bucket, "key", &Encrypt::Server).await;
    assert!(matches!(refused.map(|_| ()), Err(Error::NoMasterKey(_))));
}

/// Rows of earlier builds say nothing of it. A block that is unknown is never taken for none.
#[tokio::test]
async fn a_block_is_stored_and_outlives_changes_of_the_default() {
    let (model, bucket) = start().await;
    let stored = async || {
        let row = model.cluster().metadata(&rowkeys::bucket("bucket")).await;
        row.unwrap().unwrap()
    };
    let name = b"blocked_encryption";
    let place = |row: &[u8]| row.windows(name.len()).position(|bytes| bytes == name);
    let row = stored().await;
    assert_eq!(place(&row), None);
    let read: Bucket = codec::decode(&row).unwrap();
    assert_eq!(read.blocked_encryption, None);
    let set = async |blocked: Option<BlockedEncryption>| {
        let default = DefaultEncryption {
            is_enabled: Some(true),
            blocked,
            ..DefaultEncryption::default()
        };
        let changed = model.set_default_encryption(&bucket, default).await;
        changed.unwrap().blocked_encryption
    };
    assert_eq!(set(None).await, None);
    let customer = Some(BlockedEncryption::Customer);
    assert_eq!(set(customer).await, customer);
    assert_eq!(set(None).await, customer);
    let mut row = stored().await.to_vec();
    let value = place(&row).unwrap() + name.len() + 1;
    assert_eq!(row[value], b'c');
    row[value] = b'x';
    let unknown = codec::decode::<Bucket>(&row);
    assert!(matches!(unknown, Err(DecodeError::Malformed(_))));
    let nothing = Some(BlockedEncryption::Nothing);
    assert_eq!(set(nothing).await, nothing);
}

#[tokio::test]
async fn turning_the_default_off_lifts_no_block_and_forgets_that_there_is_none() {
    let (model, bucket) = start().await;
    let blocks = async |default: DefaultEncryption| {
        let changed = model.set_default_encryption(&bucket, default).await;
        changed.unwrap().blocked_encryption
    };
    let off = DefaultEncryption {
        is_enabled: Some(false),
        ..DefaultEncryption::default()
    };
    let set = |blocked: Option<BlockedEncryption>| DefaultEncryption {
        blocked,
        ..DefaultEncryption::default()
    };
    let customer = Some(BlockedEncryption::Customer);
    assert_eq!(blocks(set(customer)).await, customer);
    assert_eq!(blocks(off).await, customer);
    let nothing = Some(BlockedEncryption::Nothing);
    assert_eq!(blocks(set(nothing)).await, nothing);
    assert_eq!(blocks(set(None)).await, nothing);
    assert_eq!(blocks(off).await, None);
}
