// Buckets that keep versions.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bucket, etag, holds, refused, s3, versions } from './common.mjs';

async function versioned(t) {
  const Bucket = await bucket(t);
  await s3.putBucketVersioning({ Bucket, VersioningConfiguration: { Status: 'Enabled' } });
  assert.equal((await s3.getBucketVersioning({ Bucket })).Status, 'Enabled');
  return Bucket;
}

async function write(Bucket, Key, ...bodies) {
  const ids = [];
  for (const Body of bodies) ids.push((await s3.putObject({ Bucket, Key, Body })).VersionId);
  return ids;
}

test('every version is kept, listed and read', async (t) => {
  const Bucket = await versioned(t);
  const ids = await write(Bucket, 'k', 'one', 'two', 'three', 'four');
  await write(Bucket, 'other', 'x');
  for (const [n, text] of ['one', 'two', 'three', 'four'].entries()) {
    await holds(Bucket, 'k', text, { VersionId: ids[n] });
    assert.equal((await s3.headObject({ Bucket, Key: 'k', VersionId: ids[n] })).ETag, etag(text));
  }
  const listed = (await versions(Bucket)).filter(({ Key }) => Key === 'k');
  assert.deepEqual(listed.map(({ VersionId }) => VersionId), [...ids].reverse());
  assert.deepEqual(listed.map(({ IsLatest }) => IsLatest), [true, false, false, false]);
  await s3.copyObject({ Bucket, Key: 'copy', CopySource: `${Bucket}/k?versionId=${ids[0]}` });
  await holds(Bucket, 'copy', 'one');
});

test('a delete marker hides an object until it is deleted', async (t) => {
  const Bucket = await versioned(t);
  const object = { Bucket, Key: 'k' };
  const [id] = await write(Bucket, 'k', 'kept');
  const gone = await s3.deleteObject(object);
  assert.ok(gone.DeleteMarker && gone.VersionId && gone.VersionId !== id);
  const error = await refused(s3.getObject(object), 404, 'NoSuchKey');
  assert.equal(error.$response.headers['x-amz-delete-marker'], 'true');
  await refused(s3.getObject({ ...object, VersionId: gone.VersionId }), 405, 'MethodNotAllowed');
  assert.equal((await s3.listObjectsV2({ Bucket })).KeyCount, 0);
  await holds(Bucket, 'k', 'kept', { VersionId: id });
  const back = await s3.deleteObject({ ...object, VersionId: gone.VersionId });
  assert.deepEqual([back.DeleteMarker, back.VersionId], [true, gone.VersionId]);
  await holds(Bucket, 'k', 'kept');
  const last = await s3.deleteObject({ ...object, VersionId: id });
  assert.deepEqual([last.DeleteMarker, last.VersionId], [undefined, id]);
  await refused(s3.getObject({ ...object, VersionId: id }), 404, 'NoSuchVersion');
  assert.deepEqual(await versions(Bucket), []);
});

test('many versions are deleted at once', async (t) => {
  const Bucket = await versioned(t);
  await write(Bucket, 'k', 'one', 'two');
  await write(Bucket, 'l', 'three');
  const marked = await s3.deleteObjects({ Bucket, Delete: { Objects: [{ Key: 'k' }] } });
  const [{ DeleteMarker, DeleteMarkerVersionId }] = marked.Deleted;
  assert.ok(DeleteMarker && DeleteMarkerVersionId);
  const all = await versions(Bucket);
  assert.deepEqual(all.filter(({ isMarker }) => isMarker).map(({ VersionId }) => VersionId), [DeleteMarkerVersionId]);
  const Objects = all.map(({ Key, VersionId }) => ({ Key, VersionId }));
  const { Deleted, Errors } = await s3.deleteObjects({ Bucket, Delete: { Objects } });
  assert.deepEqual([Deleted.length, Errors], [4, undefined]);
  assert.deepEqual(await versions(Bucket), []);
});

test('a suspended bucket writes the null version', async (t) => {
  const Bucket = await versioned(t);
  const [id] = await write(Bucket, 'k', 'version');
  await s3.putBucketVersioning({ Bucket, VersioningConfiguration: { Status: 'Suspended' } });
  await write(Bucket, 'k', 'null one', 'null two');
  assert.deepEqual((await versions(Bucket)).map(({ VersionId }) => VersionId), ['null', id]);
  await holds(Bucket, 'k', 'null two', { VersionId: 'null' });
  await holds(Bucket, 'k', 'version', { VersionId: id });
});
