//! Keys of rows. `docs/internals/data-format.md` documents their bytes.

use archipel_base::hash::placement_hash;
use archipel_base::{Id, PartitionId};
use archipel_cluster::{Bringer, Cluster};
use archipel_storage::{RowKey, VersionName};
use bytes::{BufMut, Bytes, BytesMut};

use crate::owner::{Owner, PartsId, UploadName};

/// The number of shards over which the keys of a new bucket are spread.
pub(crate) const NEW_BUCKET_SHARDS: u16 = 16;
/// The largest number of shards of a bucket. More would only share partitions.
pub(crate) const MAX_BUCKET_SHARDS: u16 = 1024;
/// The number of shards over which the parts of an upload are spread.
pub(crate) const PART_SHARDS: u16 = 16;

const BUCKET: u8 = b'b';
const ACCESS_KEY: u8 = b'k';
const OBJECT: u8 = b'o';
const UPLOAD: u8 = b'u';
const PART: u8 = b'p';
const EXTENT: u8 = b'x';
const WRITE_FENCE: u8 = b'g';
const ITEM: u8 = b'y';
const ADMIN_TOKEN: u8 = b't';
const IDENTITY: u8 = b'i';
/// Of the row with the keys that seal tokens, behind [`IDENTITY`].
pub(crate) const TOKEN_KEYS: u8 = b't';
const KEYRING: u8 = b'R';
const CERTIFICATE: u8 = b'C';
/// Of the rows of leases, before the node's id.
pub(crate) const LEASE: u8 = b'L';
const VERSION: u8 = b'v';
const EVENT: u8 = b'n';

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

/// Returns the row of a bucket, by name.
pub(crate) fn bucket(name: &str) -> RowKey {
    join(PartitionId::CONTROL, BUCKET, &[name.as_bytes()])
}

/// The beginning of all row keys of buckets.
pub(crate) const ALL_BUCKETS: Bytes = Bytes::from_static(&[BUCKET]);

/// Returns the row of an access key, by id.
pub(crate) fn access_key(id: &str) -> RowKey {
    join(PartitionId::CONTROL, ACCESS_KEY, &[id.as_bytes()])
}

/// Returns the row of the keyring.
pub(crate) fn keyring() -> RowKey {
    join(PartitionId::CONTROL, KEYRING, &[])
}

/// Returns the row of a domain's certificate (kind `d`), or of the account at an authority (kind `a`).
pub(crate) fn certificate(kind: u8, name: &[u8]) -> RowKey {
    join(PartitionId::CONTROL, CERTIFICATE, &[&[kind], name])
}

/// The beginning of all row keys of certificates and accounts.
pub(crate) const ALL_CERTIFICATES: Bytes = Bytes::from_static(&[CERTIFICATE]);

/// The beginning of all row keys of access keys.
pub(crate) const ALL_ACCESS_KEYS: Bytes = Bytes::from_static(&[ACCESS_KEY]);

/// Returns the row of a token of the admin API, by id.
pub(crate) fn admin_token(id: &str) -> RowKey {
    join(PartitionId::CONTROL, ADMIN_TOKEN, &[id.as_bytes()])
}

/// The beginning of all row keys of tokens of the admin API.
pub(crate) const ALL_ADMIN_TOKENS: Bytes = Bytes::from_static(&[ADMIN_TOKEN]);
/// Returns the row of a user, group, role, policy or identity provider, by name in lower case.
pub(crate) fn identity(kind: u8, name: &str) -> RowKey {
    join(PartitionId::CONTROL, IDENTITY, &[&[kind], name.as_bytes()])
}

/// Returns the row of the keys that seal the tokens of sessions.
pub(crate) fn token_keys() -> RowKey {
    identity(TOKEN_KEYS, "keys")
}

/// The beginning of all row keys of users, groups, roles, policies and identity providers.
pub(crate) const ALL_IDENTITIES: Bytes = Bytes::from_static(&[IDENTITY]);

/// Returns the kind and the name that the row key of a user, group, role, policy or identity provider
/// holds.
pub(crate) fn identity_of(key: &[u8]) -> Option<(u8, &str)> {
    let kind = *key.get(1).filter(|_| kind(key) == Kind::Identity)?;
    let name = std::str::from_utf8(key.get(2..)?).ok()?;
    Some((kind, name))
}

/// Returns the id of a bucket with this many shards, from a random id.
///
/// The id holds the number. Owners of content, GC tasks and uploads name an object's bucket by its id,
/// also after the bucket is gone. So the object's row is found without a look-up.
pub(crate) fn bucket_id(random: Id, shards: u16) -> Id {
    let last = shards.clamp(1, MAX_BUCKET_SHARDS) - 1;
    let mut id = random;
    id.0[14..].copy_from_slice(&last.to_be_bytes());
    id
}

/// Returns the number of shards of a bucket: 1 to 1024.
pub(crate) fn shards_of(bucket: &Id) -> u16 {
    let last = u16::from_be_bytes([bucket.0[14], bucket.0[15]]);
    last % MAX_BUCKET_SHARDS + 1
}

/// Returns the partition of a shard of a bucket.
fn shard(cluster: &Cluster, bucket: &Id, shard: u16) -> PartitionId {
    cluster.partition(&[b"bucket", bucket.as_bytes(), &shard.to_be_bytes()])
}

/// Returns the partition of a key of a bucket.
fn key_partition(cluster: &Cluster, bucket: &Id, key: &str) -> PartitionId {
    let hash = placement_hash(&[bucket.as_bytes(), key.as_bytes()]);
    let shards = u64::from(shards_of(bucket));
    shard(cluster, bucket, (hash % shards) as u16)
}

/// Returns the partitions of all keys of a bucket, each once.
pub(crate) fn bucket_partitions(cluster: &Cluster, bucket: &Id) -> Vec<PartitionId> {
    let mut all: Vec<_> = (0..shards_of(bucket))
        .map(|n| shard(cluster, bucket, n))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the beginning of the row keys of an object's events that wait for delivery, by the key of
/// the object's row. The stamp and the id of the write follow it.
pub(crate) fn events_prefix(row: &RowKey) -> Option<Bytes> {
    if kind(&row.key) != Kind::Object {
        return None;
    }
    Some(join(row.partition, EVENT, &[row.key.get(1..)?, &[0]]).key)
}

/// Returns the object's row of an event.
pub(crate) fn object_of_event(event: &RowKey) -> Option<RowKey> {
    let object = event
        .key
        .get(1..event.key.len().checked_sub(Bringer::KEY_BYTES)?)?;
    let object = object.strip_suffix(&[0])?;
    let is_event = kind(&event.key) == Kind::Event && object.len() > 16;
    is_event.then(|| join(event.partition, OBJECT, &[object]))
}

/// The beginning of all row keys of events.
pub(crate) const ALL_EVENTS: Bytes = Bytes::from_static(&[EVENT]);

/// Returns the row of an object.
pub(crate) fn object(cluster: &Cluster, bucket: &Id, key: &str) -> RowKey {
    let partition = key_partition(cluster, bucket, key);
    join(partition, OBJECT, &[bucket.as_bytes(), key.as_bytes()])
}

/// Returns the beginning of the keys of an object's kept versions, by the key of the object's row.
/// The name of the version follows it: see `docs/internals/versions.md`.
pub(crate) fn kept_prefix(row: &RowKey) -> Option<Bytes> {
    if kind(&row.key) != Kind::Object {
        return None;
    }
    Some(join(row.partition, VERSION, &[row.key.get(1..)?, &[0]]).key)
}

/// Returns the object's row and the name of the version that a kept row holds.
pub(crate) fn kept_in(row: &RowKey) -> Option<(RowKey, VersionName)> {
    if kind(&row.key) != Kind::Version {
        return None;
    }
    let (prefix, name) = archipel_cluster::split_kept(&row.key)?;
    let object = prefix.get(1..)?.strip_suffix(&[0])?;
    Some((join(row.partition, OBJECT, &[object]), name))
}

/// Returns the beginning of all row keys of a bucket's kept versions. The object's key, NUL and
/// the name of the version follow it.
pub(crate) fn versions(bucket: &Id) -> Bytes {
    join(PartitionId(0), VERSION, &[bucket.as_bytes()]).key
}

/// Returns the row of a bucket's write fence in a partition: see [`fence`](crate::fence).
pub(crate) fn write_fence(partition: PartitionId, bucket: &Id) -> RowKey {
    join(partition, WRITE_FENCE, &[bucket.as_bytes()])
}

/// Returns the bucket whose write fence a row is.
pub(crate) fn fenced(row: &RowKey) -> Option<Id> {
    let id = row.key.strip_prefix(&[WRITE_FENCE])?;
    Some(Id(id.try_into().ok()?))
}

/// Returns the beginning of all row keys of a bucket's objects. The object's key follows it.
pub(crate) fn objects(bucket: &Id) -> Bytes {
    join(PartitionId(0), OBJECT, &[bucket.as_bytes()]).key
}

/// Returns the row of a K2V item. All items of a partition key share a partition.
pub(crate) fn item(cluster: &Cluster, bucket: &Id, pk: &str, sk: &str) -> RowKey {
    let partition = key_partition(cluster, bucket, pk);
    let fields: [&[u8]; 4] = [bucket.as_bytes(), pk.as_bytes(), &[0], sk.as_bytes()];
    join(partition, ITEM, &fields)
}

/// Returns the partition of a partition key's items, and the beginning of their row keys. The sort
/// key follows it.
pub(crate) fn items_of(cluster: &Cluster, bucket: &Id, pk: &str) -> (PartitionId, Bytes) {
    let row = item(cluster, bucket, pk, "");
    (row.partition, row.key)
}

/// Returns the beginning of all row keys of a bucket's K2V items. The partition key, NUL and the
/// sort key follow it.
pub(crate) fn items(bucket: &Id) -> Bytes {
    join(PartitionId(0), ITEM, &[bucket.as_bytes()]).key
}

/// Returns the length of the beginning that the row keys of a partition key's items have in common;
/// `None` if the row is no K2V item.
pub(crate) fn item_prefix(key: &[u8]) -> Option<usize> {
    let names = key.get(17..).filter(|_| kind(key) == Kind::Item)?;
    let pk = names.iter().position(|byte| *byte == 0)?;
    Some(17 + pk + 1)
}

/// Returns the row of an upload. It is in the partition of the upload's object, so that it can
/// guard the object's row.
pub(crate) fn upload(cluster: &Cluster, name: &UploadName) -> RowKey {
    upload_in(key_partition(cluster, &name.bucket, &name.key), name)
}

/// Returns the row of an upload whose partition is known.
pub(crate) fn upload_in(partition: PartitionId, name: &UploadName) -> RowKey {
    let UploadName { bucket, key, id } = name;
    let fields: [&[u8]; 4] = [bucket.as_bytes(), key.as_bytes(), &[0], id.as_bytes()];
    join(partition, UPLOAD, &fields)
}

/// Returns the beginning of all row keys of a bucket's uploads. The object's key, NUL and the
/// upload's id follow it.
pub(crate) fn uploads(bucket: &Id) -> Bytes {
    join(PartitionId(0), UPLOAD, &[bucket.as_bytes()]).key
}

fn part_partition(cluster: &Cluster, parts: &PartsId, shard: u16) -> PartitionId {
    cluster.partition(&[b"part", parts.0.as_bytes(), &shard.to_be_bytes()])
}

/// Returns the row of a part of an upload.
pub(crate) fn part(cluster: &Cluster, parts: &PartsId, number: u16, attempt: &Id) -> RowKey {
    let partition = part_partition(cluster, parts, number % PART_SHARDS);
    let number = number.to_be_bytes();
    let fields: [&[u8]; 3] = [parts.0.as_bytes(), &number, attempt.as_bytes()];
    join(partition, PART, &fields)
}

/// Returns the beginning of all row keys of an upload's parts, and the partitions of these rows.
pub(crate) fn parts(cluster: &Cluster, parts: &PartsId) -> (Bytes, Vec<PartitionId>) {
    let mut partitions: Vec<_> = (0..PART_SHARDS)
        .map(|n| part_partition(cluster, parts, n))
        .collect();
    partitions.sort_unstable();
    partitions.dedup();
    (
        join(PartitionId(0), PART, &[parts.0.as_bytes()]).key,
        partitions,
    )
}

/// Returns the row of an owner.
pub(crate) fn owner(cluster: &Cluster, owner: &Owner) -> RowKey {
    match owner {
        Owner::Object { bucket, key } => object(cluster, bucket, key),
        Owner::Part {
            parts,
            number,
            attempt,
        } => part(cluster, parts, *number, attempt),
    }
}

/// Returns the row of an extent of a tail.
pub(crate) fn extent(cluster: &Cluster, group: &Id, index: u32) -> RowKey {
    let index = index.to_be_bytes();
    let partition = cluster.partition(&[b"extent", group.as_bytes(), &index]);
    join(partition, EXTENT, &[group.as_bytes(), &index])
}

/// The kind of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Bucket,
    AccessKey,
    AdminToken,
    WriteFence,
    Object,
    Upload,
    Part,
    Item,
    Identity,
    Version,
    Event,
    Other,
}

/// Returns the kind of a row by its key.
pub(crate) fn kind(key: &[u8]) -> Kind {
    match key.first() {
        Some(&BUCKET) => Kind::Bucket,
        Some(&ACCESS_KEY) => Kind::AccessKey,
        Some(&ADMIN_TOKEN) => Kind::AdminToken,
        Some(&WRITE_FENCE) => Kind::WriteFence,
        Some(&OBJECT) => Kind::Object,
        Some(&UPLOAD) => Kind::Upload,
        Some(&PART) => Kind::Part,
        Some(&ITEM) => Kind::Item,
        Some(&IDENTITY) => Kind::Identity,
        Some(&VERSION) => Kind::Version,
        Some(&EVENT) => Kind::Event,
        _ => Kind::Other,
    }
}

/// Returns true if a row is that of an extent.
pub(crate) fn is_extent(key: &[u8]) -> bool {
    key.first() == Some(&EXTENT)
}

/// The beginning of all row keys of extents.
pub(crate) const ALL_EXTENTS: Bytes = Bytes::from_static(&[EXTENT]);
/// The beginning of all row keys of parts.
pub(crate) const ALL_PARTS: Bytes = Bytes::from_static(&[PART]);

/// Returns the name of the tail that an extent belongs to.
pub(crate) fn group_of(key: &[u8]) -> Option<Id> {
    let id = key.get(1..17).filter(|_| is_extent(key))?;
    Some(Id(id.try_into().ok()?))
}

/// Returns the owner that a row of an object or a part stands for.
pub(crate) fn owner_of(key: &[u8]) -> Option<Owner> {
    let id = |from: usize| -> Option<Id> { Some(Id(key.get(from..from + 16)?.try_into().ok()?)) };
    match kind(key) {
        Kind::Object => Some(Owner::Object {
            bucket: id(1)?,
            key: String::from_utf8(key.get(17..)?.to_vec()).ok()?,
        }),
        Kind::Part => Some(Owner::Part {
            parts: PartsId(id(1)?),
            number: u16::from_be_bytes(key.get(17..19)?.try_into().ok()?),
            attempt: id(19)?,
        }),
        Kind::Bucket
        | Kind::AccessKey
        | Kind::AdminToken
        | Kind::WriteFence
        | Kind::Upload
        | Kind::Item
        | Kind::Identity
        | Kind::Version
        | Kind::Event
        | Kind::Other => None,
    }
}

/// Returns the name in the row key of a bucket, an access key or a token.
pub(crate) fn name_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(1..)?).ok()
}

/// Returns the upload that the row key of an upload names.
pub(crate) fn upload_of(key: &[u8]) -> Option<UploadName> {
    if kind(key) != Kind::Upload || key.len() < 34 {
        return None;
    }
    let (rest, id) = key.split_at(key.len() - 16);
    let name = rest.get(17..rest.len() - 1)?.to_vec();
    Some(UploadName {
        bucket: Id(rest.get(1..17)?.try_into().ok()?),
        key: String::from_utf8(name).ok()?,
        id: Id(id.try_into().ok()?),
    })
}
