//! Which row holds what. The bytes are documented in `docs/internals/data-format.md`.

use archipel_base::{Id, PartitionId};
use archipel_cluster::Cluster;
use archipel_storage::RowKey;
use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

/// Over how many metadata shards the keys of a bucket are spread.
pub(crate) const BUCKET_SHARDS: u16 = 16;
/// Over how many partitions the parts of an upload are spread.
pub(crate) const PART_SHARDS: u16 = 16;

const BUCKET: u8 = b'b';
const ACCESS_KEY: u8 = b'k';
const OBJECT: u8 = b'o';
const UPLOAD: u8 = b'u';
const PART: u8 = b'p';
const EXTENT: u8 = b'x';
const GATE: u8 = b'g';

/// Who holds content: the row to ask whether it is still needed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Owner {
    /// An object.
    #[serde(rename = "o")]
    Object {
        /// Its bucket.
        #[serde(rename = "b")]
        bucket: Id,
        /// Its key.
        #[serde(rename = "k")]
        key: String,
    },
    /// A part of an upload.
    #[serde(rename = "p")]
    Part {
        /// The upload.
        #[serde(rename = "u")]
        upload: Id,
        /// The part's number.
        #[serde(rename = "n")]
        number: u16,
        /// Which upload of that part.
        #[serde(rename = "t")]
        attempt: Id,
    },
}

impl Owner {
    /// The owner's row.
    pub fn row(&self, cluster: &Cluster) -> RowKey {
        match self {
            Owner::Object { bucket, key } => object(cluster, bucket, key),
            Owner::Part {
                upload,
                number,
                attempt,
            } => part(cluster, upload, *number, attempt),
        }
    }
}

fn join(partition: PartitionId, tag: u8, fields: &[&[u8]]) -> RowKey {
    let length = 1 + fields.iter().map(|f| f.len()).sum::<usize>();
    let mut key = BytesMut::with_capacity(length);
    key.put_u8(tag);
    for field in fields {
        key.put_slice(field);
    }
    RowKey {
        partition,
        key: key.freeze(),
    }
}

/// A bucket, by name.
pub(crate) fn bucket(name: &str) -> RowKey {
    join(PartitionId::CONTROL, BUCKET, &[name.as_bytes()])
}

/// What the rows of all buckets begin with.
pub(crate) const ALL_BUCKETS: Bytes = Bytes::from_static(&[BUCKET]);

/// An access key, by id.
pub(crate) fn access_key(id: &str) -> RowKey {
    join(PartitionId::CONTROL, ACCESS_KEY, &[id.as_bytes()])
}

/// What the rows of all access keys begin with.
pub(crate) const ALL_ACCESS_KEYS: Bytes = Bytes::from_static(&[ACCESS_KEY]);

/// The partition of a shard of a bucket.
fn shard(cluster: &Cluster, bucket: &Id, shard: u16) -> PartitionId {
    cluster.partition(&[b"bucket", bucket.as_bytes(), &shard.to_be_bytes()])
}

/// The partition that a key of a bucket lives in.
fn key_partition(cluster: &Cluster, bucket: &Id, key: &str) -> PartitionId {
    let hash = archipel_base::hash::placement_hash(&[bucket.as_bytes(), key.as_bytes()]);
    shard(cluster, bucket, (hash % u64::from(BUCKET_SHARDS)) as u16)
}

/// The partitions that the keys of a bucket live in, each once.
pub(crate) fn bucket_partitions(cluster: &Cluster, bucket: &Id) -> Vec<PartitionId> {
    let mut all: Vec<_> = (0..BUCKET_SHARDS)
        .map(|n| shard(cluster, bucket, n))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// An object.
pub(crate) fn object(cluster: &Cluster, bucket: &Id, key: &str) -> RowKey {
    let partition = key_partition(cluster, bucket, key);
    join(partition, OBJECT, &[bucket.as_bytes(), key.as_bytes()])
}

/// The gate of a bucket in a partition: see [`gate`](crate::gate).
pub(crate) fn gate(partition: PartitionId, bucket: &Id) -> RowKey {
    join(partition, GATE, &[bucket.as_bytes()])
}

/// What the rows of a bucket's objects begin with; the key follows.
pub(crate) fn objects(bucket: &Id) -> Bytes {
    join(PartitionId(0), OBJECT, &[bucket.as_bytes()]).key
}

/// An upload: in the partition of its object, so that the object's row can be guarded by it.
pub(crate) fn upload(cluster: &Cluster, bucket: &Id, key: &str, id: &Id) -> RowKey {
    upload_in(key_partition(cluster, bucket, key), bucket, key, id)
}

/// An upload in a partition that is known.
pub(crate) fn upload_in(partition: PartitionId, bucket: &Id, key: &str, id: &Id) -> RowKey {
    let fields: [&[u8]; 4] = [bucket.as_bytes(), key.as_bytes(), &[0], id.as_bytes()];
    join(partition, UPLOAD, &fields)
}

/// What the rows of a bucket's uploads begin with; the key, a NUL and the identity follow.
pub(crate) fn uploads(bucket: &Id) -> Bytes {
    join(PartitionId(0), UPLOAD, &[bucket.as_bytes()]).key
}

fn part_partition(cluster: &Cluster, upload: &Id, shard: u16) -> PartitionId {
    cluster.partition(&[b"part", upload.as_bytes(), &shard.to_be_bytes()])
}

/// A part of an upload.
pub(crate) fn part(cluster: &Cluster, upload: &Id, number: u16, attempt: &Id) -> RowKey {
    let partition = part_partition(cluster, upload, number % PART_SHARDS);
    let number = number.to_be_bytes();
    let fields: [&[u8]; 3] = [upload.as_bytes(), &number, attempt.as_bytes()];
    join(partition, PART, &fields)
}

/// What the rows of an upload's parts begin with, and the partitions that they live in.
pub(crate) fn parts(cluster: &Cluster, upload: &Id) -> (Bytes, Vec<PartitionId>) {
    let mut partitions: Vec<_> = (0..PART_SHARDS)
        .map(|n| part_partition(cluster, upload, n))
        .collect();
    partitions.sort_unstable();
    partitions.dedup();
    (
        join(PartitionId(0), PART, &[upload.as_bytes()]).key,
        partitions,
    )
}

/// An extent of a tail.
pub(crate) fn extent(cluster: &Cluster, group: &Id, index: u32) -> RowKey {
    let index = index.to_be_bytes();
    let partition = cluster.partition(&[b"extent", group.as_bytes(), &index]);
    join(partition, EXTENT, &[group.as_bytes(), &index])
}

/// What kind of thing a row is, by its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Bucket,
    AccessKey,
    Gate,
    Object,
    Upload,
    Part,
    Other,
}

/// The kind of a row, and for objects and uploads the bucket.
pub(crate) fn kind(key: &[u8]) -> Kind {
    match key.first() {
        Some(&BUCKET) => Kind::Bucket,
        Some(&ACCESS_KEY) => Kind::AccessKey,
        Some(&GATE) => Kind::Gate,
        Some(&OBJECT) => Kind::Object,
        Some(&UPLOAD) => Kind::Upload,
        Some(&PART) => Kind::Part,
        _ => Kind::Other,
    }
}

/// Whether a row is that of an extent.
pub(crate) fn is_extent(key: &[u8]) -> bool {
    key.first() == Some(&EXTENT)
}

/// What the rows of all extents begin with, and those of all parts.
pub(crate) const ALL_EXTENTS: Bytes = Bytes::from_static(&[EXTENT]);
pub(crate) const ALL_PARTS: Bytes = Bytes::from_static(&[PART]);

/// The tail that an extent is of.
pub(crate) fn group_of(key: &[u8]) -> Option<Id> {
    let id = key.get(1..17).filter(|_| is_extent(key))?;
    Some(Id(id.try_into().ok()?))
}

/// The owner that a row of an object or a part is.
pub(crate) fn owner_of(key: &[u8]) -> Option<Owner> {
    let id = |from: usize| -> Option<Id> { Some(Id(key.get(from..from + 16)?.try_into().ok()?)) };
    match kind(key) {
        Kind::Object => Some(Owner::Object {
            bucket: id(1)?,
            key: String::from_utf8(key.get(17..)?.to_vec()).ok()?,
        }),
        Kind::Part => Some(Owner::Part {
            upload: id(1)?,
            number: u16::from_be_bytes(key.get(17..19)?.try_into().ok()?),
            attempt: id(19)?,
        }),
        Kind::Bucket | Kind::AccessKey | Kind::Gate | Kind::Upload | Kind::Other => None,
    }
}

/// The name that a row of a bucket or an access key holds.
pub(crate) fn name_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(1..)?).ok()
}

/// The bucket, key and identity that a row of an upload names.
pub(crate) fn upload_of(key: &[u8]) -> Option<(Id, String, Id)> {
    if kind(key) != Kind::Upload || key.len() < 34 {
        return None;
    }
    let (rest, id) = key.split_at(key.len() - 16);
    let name = rest.get(17..rest.len() - 1)?.to_vec();
    let bucket = Id(rest.get(1..17)?.try_into().ok()?);
    Some((
        bucket,
        String::from_utf8(name).ok()?,
        Id(id.try_into().ok()?),
    ))
}
