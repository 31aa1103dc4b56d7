// Buckets: their life, listings, waiters, and the classes of errors.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  NoSuchBucket,
  NoSuchKey,
  NoSuchUpload,
  NotFound,
  paginateListBuckets,
  paginateListObjectsV2,
  waitUntilBucketExists,
  waitUntilBucketNotExists,
  waitUntilObjectExists,
  waitUntilObjectNotExists,
} from '@aws-sdk/client-s3';
import { bucket, connect, refused, region, s3 } from './common.mjs';

test('a bucket is made, found, listed and deleted', async (t) => {
  const Bucket = `${await bucket(t)}-life`;
  assert.equal((await s3.createBucket({ Bucket })).Location, `/${Bucket}`);
  assert.equal((await s3.headBucket({ Bucket })).BucketRegion, region);
  assert.equal((await s3.getBucketLocation({ Bucket })).LocationConstraint ?? 'us-east-1', region);
  const { Buckets } = await s3.listBuckets({});
  assert.ok(Buckets.find(({ Name }) => Name === Bucket).CreationDate instanceof Date);
  await s3.putObject({ Bucket, Key: 'k', Body: 'x' });
  await refused(s3.deleteBucket({ Bucket }), 409, 'BucketNotEmpty');
  await s3.deleteObject({ Bucket, Key: 'k' });
  await s3.deleteBucket({ Bucket });
  await refused(s3.headBucket({ Bucket }), 404, NotFound);
  await refused(s3.deleteBucket({ Bucket }), 404, NoSuchBucket);
});

test('pages of buckets hold each once', async (t) => {
  const Prefix = await bucket(t);
  const made = [Prefix, ...['-a', '-b', '-c'].map((end) => Prefix + end)];
  for (const Bucket of made.slice(1)) {
    await s3.createBucket({ Bucket });
    t.after(() => s3.deleteBucket({ Bucket }));
  }
  const pages = [];
  for await (const page of paginateListBuckets({ client: s3, pageSize: 3 }, { Prefix })) {
    pages.push(page.Buckets.map(({ Name }) => Name));
  }
  assert.deepEqual(pages, [made.slice(0, 3), made.slice(3)]);
});

test('pages of objects hold each once', async (t) => {
  const Bucket = await bucket(t);
  const keys = Array.from({ length: 25 }, (_, n) => `a+b/ü ${String(n).padStart(2, '0')}`);
  await Promise.all([...keys, 'a b/other', 'z'].map((Key) => s3.putObject({ Bucket, Key, Body: Key })));
  const pages = [];
  const input = { Bucket, Prefix: 'a+b/', FetchOwner: true };
  for await (const page of paginateListObjectsV2({ client: s3, pageSize: 10 }, input)) {
    assert.equal(page.KeyCount, page.Contents.length);
    pages.push(page.Contents);
  }
  assert.deepEqual(pages.map((page) => page.length), [10, 10, 5]);
  assert.deepEqual(pages.flat().map(({ Key }) => Key), keys);
  for (const { Key, Size, LastModified, Owner } of pages.flat()) {
    assert.equal(Size, Buffer.byteLength(Key));
    assert.ok(LastModified instanceof Date && Owner.ID);
  }
  const folders = await s3.listObjectsV2({ Bucket, Delimiter: '/' });
  assert.deepEqual(folders.CommonPrefixes.map((one) => one.Prefix), ['a b/', 'a+b/']);
  assert.deepEqual(folders.Contents.map(({ Key }) => Key), ['z']);
  const later = await s3.listObjectsV2({ Bucket, StartAfter: keys[23] });
  assert.deepEqual(later.Contents.map(({ Key }) => Key), [keys[24], 'z']);
  const old = await s3.listObjects({ Bucket, Marker: keys[23], MaxKeys: 1 });
  assert.deepEqual([old.Contents[0].Key, old.IsTruncated], [keys[24], true]);
});

test('waiters end when what they wait for is there, or gone', async (t) => {
  const Bucket = `${await bucket(t)}-waited`;
  const how = { client: s3, maxWaitTime: 60, minDelay: 1, maxDelay: 1 };
  const until = async (wait, input, change) => {
    const waiting = wait(how, input);
    await sleep(100);
    await change();
    assert.equal((await waiting).state, 'SUCCESS');
  };
  const object = { Bucket, Key: 'k' };
  await until(waitUntilBucketExists, { Bucket }, () => s3.createBucket({ Bucket }));
  await until(waitUntilObjectExists, object, () => s3.putObject({ ...object, Body: 'x' }));
  await until(waitUntilObjectNotExists, object, () => s3.deleteObject(object));
  await until(waitUntilBucketNotExists, { Bucket }, () => s3.deleteBucket({ Bucket }));
});

test('errors have the classes of the SDK', async (t) => {
  const Bucket = await bucket(t);
  const missing = { Bucket, Key: 'missing' };
  await refused(s3.getObject(missing), 404, NoSuchKey);
  await refused(s3.headObject(missing), 404, NotFound);
  await refused(s3.getObjectTagging(missing), 404, 'NoSuchKey');
  await refused(s3.copyObject({ Bucket, Key: 'k', CopySource: `${Bucket}/missing` }), 404, 'NoSuchKey');
  await refused(s3.headObject({ Bucket: `${Bucket}-none`, Key: 'k' }), 404, NotFound);
  await refused(s3.listObjectsV2({ Bucket: `${Bucket}-none` }), 404, NoSuchBucket);
  await refused(s3.putObject({ Bucket: `${Bucket}-none`, Key: 'k', Body: 'x' }), 404, NoSuchBucket);
  await refused(s3.listParts({ ...missing, UploadId: 'none' }), 404, NoSuchUpload);
  await refused(s3.abortMultipartUpload({ ...missing, UploadId: 'none' }), 404, NoSuchUpload);
  const error = await refused(s3.getObject(missing), 404, NoSuchKey);
  assert.ok(error.message && error.$metadata.requestId, String(error));
});

test('a bucket without settings says so in the codes of AWS', async (t) => {
  const Bucket = await bucket(t);
  await refused(s3.getBucketCors({ Bucket }), 404, 'NoSuchCORSConfiguration');
  await refused(s3.getBucketPolicy({ Bucket }), 404, 'NoSuchBucketPolicy');
  await refused(s3.getBucketTagging({ Bucket }), 404, 'NoSuchTagSet');
  await refused(s3.getBucketWebsite({ Bucket }), 404, 'NoSuchWebsiteConfiguration');
  await refused(s3.getBucketLifecycleConfiguration({ Bucket }), 404, 'NoSuchLifecycleConfiguration');
  await refused(s3.getObjectLockConfiguration({ Bucket }), 404, 'ObjectLockConfigurationNotFoundError');
  assert.equal((await s3.getBucketVersioning({ Bucket })).Status, undefined);
});

test('other keys than those of the server are refused', async (t) => {
  const Bucket = await bucket(t);
  const unknown = connect({ credentials: { accessKeyId: 'AKUNKNOWN' } });
  await refused(unknown.listObjectsV2({ Bucket }), 403, 'InvalidAccessKeyId');
  const wrong = connect({ credentials: { secretAccessKey: 'wrong' } });
  await refused(wrong.listObjectsV2({ Bucket }), 403, 'SignatureDoesNotMatch');
  await refused(wrong.putObject({ Bucket, Key: 'k', Body: 'x' }), 403, 'SignatureDoesNotMatch');
  assert.equal((await s3.listObjectsV2({ Bucket })).KeyCount, 0);
});
