// Uploads in parts: those of @aws-sdk/lib-storage, and step by step.

import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { NoSuchUpload, paginateListParts } from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import {
  body, bucket, content, crcOf, crcOfParts, etag, etagOfParts, holds, MIB, pieces, refused, s3, sameBytes,
} from './common.mjs';

const PART = 5 * MIB;

test('lib-storage uploads buffers and streams of unknown length in parts', async (t) => {
  const Bucket = await bucket(t);
  const data = content(2 * PART + 7, 'parts');
  const parts = pieces(data, PART);
  const bodies = { buffer: data, stream: Readable.from(pieces(data, 70_001)) };
  for (const [Key, Body] of Object.entries(bodies)) {
    const params = { Bucket, Key, Body, ContentType: 'text/x', Metadata: { a: '1' } };
    const upload = new Upload({ client: s3, params, partSize: PART, queueSize: 3, tags: [{ Key: 'k', Value: 'v w' }] });
    let loaded = 0;
    upload.on('httpUploadProgress', (progress) => {
      loaded = Math.max(loaded, progress.loaded);
    });
    const done = await upload.done();
    assert.deepEqual([done.Bucket, done.Key, done.ETag, loaded], [Bucket, Key, etagOfParts(parts), data.length]);
    assert.deepEqual([done.ChecksumCRC32, done.ChecksumType], [crcOfParts(parts), 'COMPOSITE']);
    const got = await s3.getObject({ Bucket, Key });
    assert.deepEqual([got.ContentType, got.Metadata, got.TagCount], ['text/x', { a: '1' }, 1]);
    assert.equal(got.ChecksumCRC32, crcOfParts(parts));
    sameBytes(await body(got), data);
  }
  const second = await s3.getObject({ Bucket, Key: 'stream', PartNumber: 2 });
  assert.deepEqual([second.PartsCount, second.ContentLength], [3, PART]);
  assert.equal(second.ContentRange, `bytes ${PART}-${2 * PART - 1}/${data.length}`);
  sameBytes(await body(second), parts[1]);
  const ObjectAttributes = ['ETag', 'Checksum', 'ObjectParts', 'ObjectSize'];
  const read = await s3.getObjectAttributes({ Bucket, Key: 'stream', ObjectAttributes });
  assert.deepEqual([`"${read.ETag}"`, read.ObjectSize], [etagOfParts(parts), data.length]);
  assert.equal(read.ObjectParts.TotalPartsCount, 3);
  const told = read.ObjectParts.Parts.map(({ Size, ChecksumCRC32 }) => [Size, ChecksumCRC32]);
  assert.deepEqual(told, parts.map((part) => [part.length, crcOf(part)]));
});

test('lib-storage uploads little in one piece', async (t) => {
  const Bucket = await bucket(t);
  for (const [Key, Body] of [['text', 'small'], ['stream', Readable.from([Buffer.from('sm'), Buffer.from('all')])]]) {
    const done = await new Upload({ client: s3, params: { Bucket, Key, Body } }).done();
    assert.equal(done.ETag, etag('small'));
    await holds(Bucket, Key, 'small');
  }
});

test('an aborted upload leaves nothing', async (t) => {
  const Bucket = await bucket(t);
  const params = { Bucket, Key: 'k', Body: content(4 * PART, 'aborted') };
  const upload = new Upload({ client: s3, params, partSize: PART, queueSize: 1 });
  upload.on('httpUploadProgress', () => upload.abort());
  await assert.rejects(upload.done(), { name: 'AbortError' });
  // It ends before the SDK has removed the parts.
  const end = Date.now() + 30_000;
  while ((await s3.listMultipartUploads({ Bucket })).Uploads && Date.now() < end) await sleep(50);
  assert.equal((await s3.listMultipartUploads({ Bucket })).Uploads, undefined);
  assert.equal((await s3.listObjectsV2({ Bucket })).KeyCount, 0);
});

test('step by step', async (t) => {
  const Bucket = await bucket(t);
  const parts = pieces(content(2 * PART + 9, 'steps'), PART);
  const { UploadId } = await s3.createMultipartUpload({ Bucket, Key: 'k' });
  const upload = { Bucket, Key: 'k', UploadId };
  const put = async (PartNumber, Body) => {
    const { ETag, ChecksumCRC32 } = await s3.uploadPart({ ...upload, PartNumber, Body });
    assert.deepEqual([ETag, ChecksumCRC32], [etag(Body), crcOf(Body)]);
    return { PartNumber, ETag, ChecksumCRC32 };
  };
  const made = [];
  for (const n of [2, 0, 1]) made[n] = await put(n + 1, parts[n]);
  const { Uploads } = await s3.listMultipartUploads({ Bucket });
  assert.deepEqual(Uploads.map(({ Key, UploadId: id }) => [Key, id]), [['k', UploadId]]);
  const listed = [];
  for await (const page of paginateListParts({ client: s3, pageSize: 2 }, upload)) {
    listed.push(...(page.Parts ?? []));
  }
  const shown = listed.map(({ PartNumber, Size, ETag }) => [PartNumber, Size, ETag]);
  assert.deepEqual(shown, parts.map((part, n) => [n + 1, part.length, etag(part)]));

  const complete = (Parts, more) => s3.completeMultipartUpload({ ...upload, MultipartUpload: { Parts }, ...more });
  await refused(complete([made[1], made[0], made[2]]), 400, 'InvalidPartOrder');
  await refused(complete([{ PartNumber: 1, ETag: etag('other') }]), 400, 'InvalidPart');
  await refused(complete([made[0], made[1], { PartNumber: 4, ETag: etag('none') }]), 400, 'InvalidPart');
  await refused(complete([{ ...made[0] }, { ...made[2] }, await put(4, parts[2])]), 400, 'EntityTooSmall');
  await s3.putObject({ Bucket, Key: 'k', Body: 'before' });
  await refused(complete(made, { IfNoneMatch: '*' }), 412, 'PreconditionFailed');
  await holds(Bucket, 'k', 'before');
  const done = await complete(made, { IfMatch: etag('before') });
  assert.equal(done.ETag, etagOfParts(parts));
  await holds(Bucket, 'k', Buffer.concat(parts));
});

test('parts are copied, and an upload is aborted', async (t) => {
  const Bucket = await bucket(t);
  const data = content(PART + 11, 'source');
  await s3.putObject({ Bucket, Key: 'sou rce', Body: data });
  const CopySource = `${Bucket}/sou%20rce`;
  const { UploadId } = await s3.createMultipartUpload({ Bucket, Key: 'k' });
  const upload = { Bucket, Key: 'k', UploadId };
  const ranges = [[0, PART - 1], [PART, PART + 10]];
  const Parts = [];
  for (const [n, [first, last]] of ranges.entries()) {
    const how = { CopySource, CopySourceRange: `bytes=${first}-${last}`, PartNumber: n + 1 };
    const { CopyPartResult } = await s3.uploadPartCopy({ ...upload, ...how });
    assert.equal(CopyPartResult.ETag, etag(data.subarray(first, last + 1)));
    Parts.push({ PartNumber: n + 1, ETag: CopyPartResult.ETag });
  }
  await s3.completeMultipartUpload({ ...upload, MultipartUpload: { Parts } });
  await holds(Bucket, 'k', data);

  const second = await s3.createMultipartUpload({ Bucket, Key: 'aborted' });
  const other = { Bucket, Key: 'aborted', UploadId: second.UploadId };
  await s3.uploadPart({ ...other, PartNumber: 1, Body: 'x' });
  await s3.abortMultipartUpload(other);
  await refused(s3.listParts(other), 404, NoSuchUpload);
  await refused(s3.uploadPart({ ...other, PartNumber: 2, Body: 'x' }), 404, 'NoSuchUpload');
});
