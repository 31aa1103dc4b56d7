// Objects: bodies, ranges, checksums, conditions, copies, tags and odd keys.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { GetObjectCommand, NoSuchKey, PutObjectCommand } from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import {
  body, bucket, content, crcOf, etag, holds, MIB, pieces, refused, s3, sameBytes, send, sha, watched,
} from './common.mjs';

test('bodies of every kind come back byte for byte', async (t) => {
  const Bucket = await bucket(t);
  const data = content(3 * MIB + 1, 'bodies');
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'js-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'file');
  fs.writeFileSync(file, data);
  const ContentLength = data.length;
  const bodies = {
    buffer: [data, { Body: data }],
    bytes: [data, { Body: new Uint8Array(data) }],
    text: [Buffer.from('häll€'), { Body: 'häll€' }],
    empty: [Buffer.alloc(0), { Body: '' }],
    none: [Buffer.alloc(0), {}],
    stream: [data, { Body: Readable.from(pieces(data, 70_001)), ContentLength }],
    file: [data, { Body: fs.createReadStream(file) }],
  };
  for (const [Key, [wanted, input]] of Object.entries(bodies)) {
    const put = await s3.putObject({ Bucket, Key, ...input });
    assert.deepEqual([Key, put.ETag], [Key, etag(wanted)]);
    const got = await s3.getObject({ Bucket, Key });
    assert.deepEqual([got.ContentLength, got.ETag, got.ContentEncoding], [wanted.length, etag(wanted), undefined]);
    sameBytes(await body(got), wanted);
  }
  const read = await s3.getObject({ Bucket, Key: 'text' });
  assert.equal(await read.Body.transformToString(), 'häll€');
});

test('headers and metadata come back', async (t) => {
  const Bucket = await bucket(t);
  const sent = {
    CacheControl: 'max-age=60',
    ContentDisposition: 'attachment; filename="a b.txt"',
    ContentEncoding: 'gzip',
    ContentLanguage: 'de',
    ContentType: 'text/plain; charset=utf-8',
    Metadata: { one: '1', 'two-words': 'a, b' },
  };
  await s3.putObject({ Bucket, Key: 'k', Body: 'x', ...sent });
  const read = await s3.getObject({ Bucket, Key: 'k' });
  sameBytes(await body(read), 'x');
  for (const got of [await s3.headObject({ Bucket, Key: 'k' }), read]) {
    for (const [name, value] of Object.entries(sent)) assert.deepEqual(got[name], value);
    assert.ok(Date.now() - got.LastModified < 600_000 && got.AcceptRanges === 'bytes');
  }
});

test('ranges', async (t) => {
  const Bucket = await bucket(t);
  const data = content(2 * MIB + 10, 'ranges');
  const object = { Bucket, Key: 'k' };
  await s3.putObject({ ...object, Body: data });
  const end = data.length - 1;
  const ranges = {
    'bytes=0-0': [0, 0],
    [`bytes=${MIB - 5}-${MIB + 5}`]: [MIB - 5, MIB + 5],
    'bytes=100-': [100, end],
    'bytes=-7': [end - 6, end],
    'bytes=5-999999999': [5, end],
  };
  for (const [Range, [first, last]] of Object.entries(ranges)) {
    const got = await s3.getObject({ ...object, Range });
    assert.equal(got.$metadata.httpStatusCode, 206);
    assert.equal(got.ContentRange, `bytes ${first}-${last}/${data.length}`);
    sameBytes(await body(got), data.subarray(first, last + 1));
  }
  await refused(s3.getObject({ ...object, Range: `bytes=${data.length}-` }), 416, 'InvalidRange');
});

test('the default checksum is in a header, or in the trailer of a stream', async (t) => {
  const Bucket = await bucket(t);
  const { client, last } = watched();
  const data = content(200_000, 'checksum');
  const known = await client.putObject({ Bucket, Key: 'known', Body: data });
  assert.equal(last.headers['x-amz-checksum-crc32'], crcOf(data));
  const Body = Readable.from(pieces(data, 50_000));
  const streamed = await client.putObject({ Bucket, Key: 'streamed', Body, ContentLength: data.length });
  assert.equal(last.headers['x-amz-trailer'], 'x-amz-checksum-crc32');
  assert.equal(last.headers['content-encoding'], 'aws-chunked');
  assert.equal(last.headers['x-amz-decoded-content-length'], String(data.length));
  for (const put of [known, streamed]) {
    assert.deepEqual([put.ChecksumCRC32, put.ChecksumType], [crcOf(data), 'FULL_OBJECT']);
  }
  for (const Key of ['known', 'streamed']) {
    const got = await client.getObject({ Bucket, Key });
    assert.equal(last.headers['x-amz-checksum-mode'], 'ENABLED');
    assert.equal(got.ChecksumCRC32, crcOf(data));
    sameBytes(await body(got), data);
    const head = await client.headObject({ Bucket, Key });
    assert.equal(head.ChecksumCRC32, undefined);
  }
});

test('every algorithm of checksums', async (t) => {
  const Bucket = await bucket(t);
  const data = content(100_000, 'algorithms');
  const known = { CRC32: crcOf(data), SHA1: sha('sha1', data), SHA256: sha('sha256', data) };
  for (const ChecksumAlgorithm of ['CRC32', 'CRC32C', 'CRC64NVME', 'SHA1', 'SHA256']) {
    const name = `Checksum${ChecksumAlgorithm}`;
    for (const kind of ['known', 'streamed']) {
      const object = { Bucket, Key: `${ChecksumAlgorithm}/${kind}` };
      const Body = kind === 'known' ? data : Readable.from(pieces(data, 30_000));
      const put = await s3.putObject({ ...object, Body, ContentLength: data.length, ChecksumAlgorithm });
      const head = await s3.headObject({ ...object, ChecksumMode: 'ENABLED' });
      assert.ok(put[name] && put[name] === head[name], name);
      if (known[ChecksumAlgorithm]) assert.equal(put[name], known[ChecksumAlgorithm]);
      const read = await s3.getObjectAttributes({ ...object, ObjectAttributes: ['Checksum', 'ETag', 'ObjectSize'] });
      assert.equal(read.Checksum[name], put[name]);
      assert.deepEqual([`"${read.ETag}"`, read.ObjectSize], [etag(data), data.length]);
      await holds(Bucket, object.Key, data);
    }
  }
  const wrong = s3.putObject({ Bucket, Key: 'wrong', Body: data, ChecksumSHA256: sha('sha256', 'other') });
  await refused(wrong, 400, 'BadDigest');
  await refused(s3.getObject({ Bucket, Key: 'wrong' }), 404, NoSuchKey);
});

test('conditional writes', async (t) => {
  const Bucket = await bucket(t);
  const object = { Bucket, Key: 'k' };
  await refused(s3.putObject({ ...object, Body: 'x', IfMatch: etag('x') }), 404, 'NoSuchKey');
  const first = await s3.putObject({ ...object, Body: 'first', IfNoneMatch: '*' });
  await refused(s3.putObject({ ...object, Body: 'second', IfNoneMatch: '*' }), 412, 'PreconditionFailed');
  await refused(s3.putObject({ ...object, Body: 'second', IfMatch: etag('other') }), 412, 'PreconditionFailed');
  await holds(Bucket, 'k', 'first');
  await s3.putObject({ ...object, Body: 'second', IfMatch: first.ETag });
  await holds(Bucket, 'k', 'second');
  await refused(s3.deleteObject({ ...object, IfMatch: first.ETag }), 412, 'PreconditionFailed');
  await s3.deleteObject({ ...object, IfMatch: etag('second') });
  await refused(s3.headObject(object), 404);
});

test('one of many writers wins', async (t) => {
  const Bucket = await bucket(t);
  const write = (n) => s3.putObject({ Bucket, Key: 'k', Body: `${n}`, IfNoneMatch: '*' });
  const done = await Promise.allSettled(Array.from({ length: 20 }, (_, n) => write(n)));
  const won = done.flatMap(({ status }, n) => (status === 'fulfilled' ? [n] : []));
  assert.equal(won.length, 1);
  for (const { reason } of done.filter(({ status }) => status === 'rejected')) {
    assert.ok(['PreconditionFailed', 'ConditionalRequestConflict'].includes(reason.name), reason.name);
  }
  await holds(Bucket, 'k', `${won[0]}`);
});

test('conditional reads', async (t) => {
  const Bucket = await bucket(t);
  const object = { Bucket, Key: 'k' };
  const { ETag } = await s3.putObject({ ...object, Body: 'x' });
  await holds(Bucket, 'k', 'x', { IfMatch: ETag });
  await holds(Bucket, 'k', 'x', { IfNoneMatch: etag('other') });
  await refused(s3.getObject({ ...object, IfNoneMatch: ETag }), 304);
  await refused(s3.headObject({ ...object, IfNoneMatch: ETag }), 304);
  await refused(s3.getObject({ ...object, IfMatch: etag('other') }), 412, 'PreconditionFailed');
  const { LastModified } = await s3.headObject(object);
  await refused(s3.getObject({ ...object, IfModifiedSince: LastModified }), 304);
  const before = new Date(LastModified - 60_000);
  await holds(Bucket, 'k', 'x', { IfModifiedSince: before });
  await refused(s3.getObject({ ...object, IfUnmodifiedSince: before }), 412, 'PreconditionFailed');
});

test('copies keep or replace metadata', async (t) => {
  const Bucket = await bucket(t);
  const Key = 'from/ü +&%.txt';
  const CopySource = `${Bucket}/${encodeURIComponent(Key)}`;
  const data = content(MIB + 3, 'copy');
  await s3.putObject({ Bucket, Key, Body: data, ContentType: 'text/x', Metadata: { a: '1' }, Tagging: 'k=v' });
  const kept = await s3.copyObject({ Bucket, Key: 'kept', CopySource });
  assert.equal(kept.CopyObjectResult.ETag, etag(data));
  const other = { MetadataDirective: 'REPLACE', Metadata: { b: '2' }, ContentType: 'text/y', TaggingDirective: 'REPLACE' };
  await s3.copyObject({ Bucket, Key: 'replaced', CopySource, ...other });
  for (const [name, type, metadata, tags] of [['kept', 'text/x', { a: '1' }, 1], ['replaced', 'text/y', { b: '2' }]]) {
    const got = await s3.getObject({ Bucket, Key: name });
    assert.deepEqual([got.ContentType, got.Metadata, got.TagCount], [type, metadata, tags]);
    sameBytes(await body(got), data);
  }
  await refused(s3.copyObject({ Bucket, Key, CopySource }), 400, 'InvalidRequest');
});

test('tags', async (t) => {
  const Bucket = await bucket(t);
  const object = { Bucket, Key: 'k' };
  const read = async () => (await s3.getObjectTagging(object)).TagSet;
  await s3.putObject({ ...object, Body: 'x', Tagging: 'one=a+b&two=c%2Fd%3D' });
  assert.deepEqual(await read(), [{ Key: 'one', Value: 'a b' }, { Key: 'two', Value: 'c/d=' }]);
  assert.equal((await s3.headObject(object)).TagCount, 2);
  const TagSet = [{ Key: 'üb er', Value: '' }];
  await s3.putObjectTagging({ ...object, Tagging: { TagSet } });
  assert.deepEqual(await read(), TagSet);
  await s3.deleteObjectTagging(object);
  assert.deepEqual(await read(), []);
  const twice = { TagSet: [{ Key: 'a', Value: '1' }, { Key: 'a', Value: '2' }] };
  await refused(s3.putObjectTagging({ ...object, Tagging: twice }), 400, 'InvalidTag');
});

test('many objects are deleted at once', async (t) => {
  const Bucket = await bucket(t);
  const keys = Array.from({ length: 30 }, (_, n) => `d <&>"'/${n}`);
  await Promise.all([...keys, 'stays'].map((Key) => s3.putObject({ Bucket, Key, Body: 'x' })));
  const Objects = [...keys, 'missing'].map((Key) => ({ Key }));
  const { Deleted, Errors } = await s3.deleteObjects({ Bucket, Delete: { Objects } });
  assert.deepEqual(Deleted.map(({ Key }) => Key).sort(), [...keys, 'missing'].sort());
  assert.equal(Errors, undefined);
  assert.deepEqual((await s3.listObjectsV2({ Bucket })).Contents.map(({ Key }) => Key), ['stays']);
  const quiet = await s3.deleteObjects({ Bucket, Delete: { Objects: [{ Key: 'stays' }], Quiet: true } });
  assert.deepEqual([quiet.Deleted, quiet.Errors], [undefined, undefined]);
  assert.equal((await s3.listObjectsV2({ Bucket })).KeyCount, 0);
});

const ODD = [
  'ünï/日本 語.txt', '😀', 'a+b c&d=e%20f', 'a//b', '/a', '//', 'a/', '..', '.', '../a', 'a/../b', 'a/./b', 'a?b#c',
  'back\\slash', '"<xml>&amp;\'', ';:,@$!()*~[]{}|^`', ' a ', '%', '%2F', 'tab\tkey',
];

test('odd keys are themselves in every operation', async (t) => {
  const Bucket = await bucket(t);
  for (const Key of ODD) {
    const data = Buffer.from(`content of ${Key}`);
    await s3.putObject({ Bucket, Key, Body: data });
    await holds(Bucket, Key, data);
    assert.equal((await s3.headObject({ Bucket, Key })).ContentLength, data.length);
    const CopySource = `${Bucket}/${encodeURIComponent(Key)}`;
    await s3.copyObject({ Bucket, Key: `${Key}.copy`, CopySource });
    await holds(Bucket, `${Key}.copy`, data);
    await s3.deleteObject({ Bucket, Key: `${Key}.copy` });
    const url = await getSignedUrl(s3, new GetObjectCommand({ Bucket, Key }), { expiresIn: 60 });
    const got = await send(url);
    assert.deepEqual([Key, got.status, got.body.toString()], [Key, 200, data.toString()]);
    const put = await getSignedUrl(s3, new PutObjectCommand({ Bucket, Key }), { expiresIn: 60 });
    assert.deepEqual([Key, (await send(put, { method: 'PUT', data: 'by URL' })).status], [Key, 200]);
    await holds(Bucket, Key, 'by URL');
  }
  const sorted = [...ODD].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  const listed = async (more) => (await s3.listObjectsV2({ Bucket, ...more })).Contents.map(({ Key }) => Key);
  assert.deepEqual(await listed(), sorted);
  const encoded = await listed({ EncodingType: 'url' });
  assert.deepEqual(encoded.map((key) => decodeURIComponent(key.replaceAll('+', '%20'))), sorted);
  const { Deleted } = await s3.deleteObjects({ Bucket, Delete: { Objects: ODD.map((Key) => ({ Key })) } });
  assert.equal(Deleted.length, ODD.length);
  assert.equal((await s3.listObjectsV2({ Bucket })).KeyCount, 0);
});
