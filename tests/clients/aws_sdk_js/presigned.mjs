// URLs and forms for those who have no keys.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  DeleteObjectCommand, GetObjectCommand, HeadObjectCommand, PutObjectCommand, UploadPartCommand,
} from '@aws-sdk/client-s3';
import { createPresignedPost } from '@aws-sdk/s3-presigned-post';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { bucket, codeOf, connect, content, etag, holds, MIB, refused, s3, sameBytes, send, sha } from './common.mjs';

const sign = (Command, input, more = {}) => getSignedUrl(s3, new Command(input), { expiresIn: 60, ...more });

test('URLs read, also ranges and with other headers in the answer', async (t) => {
  const Bucket = await bucket(t);
  const data = content(100_000, 'presigned');
  const object = { Bucket, Key: 'a b/ü' };
  await s3.putObject({ ...object, Body: data });
  const url = await sign(GetObjectCommand, object);
  sameBytes((await send(url)).body, data);
  sameBytes(await (await fetch(url)).arrayBuffer(), data);
  const part = await send(url, { headers: { range: 'bytes=5-9' } });
  assert.equal(part.status, 206);
  sameBytes(part.body, data.subarray(5, 10));
  const head = await send(await sign(HeadObjectCommand, object), { method: 'HEAD' });
  assert.deepEqual([head.status, head.headers.etag], [200, etag(data)]);
  const named = { ...object, ResponseContentDisposition: 'attachment; filename="ü.txt"', ResponseContentType: 'text/x' };
  const { headers } = await send(await sign(GetObjectCommand, named));
  assert.equal(headers['content-type'], 'text/x');
  assert.equal(Buffer.from(headers['content-disposition'], 'latin1').toString(), named.ResponseContentDisposition);
});

test('URLs that are expired, changed or for another method are refused', async (t) => {
  const Bucket = await bucket(t);
  const object = { Bucket, Key: 'k' };
  await s3.putObject({ ...object, Body: 'x' });
  const hour = 3600_000;
  const old = await send(await sign(GetObjectCommand, object, { signingDate: new Date(Date.now() - hour) }));
  assert.deepEqual([old.status, codeOf(old)], [403, 'AccessDenied']);
  const url = await sign(GetObjectCommand, object);
  const tries = [
    [url.replace('/k?', '/l?')],
    [url.replace(/Signature=./, (found) => found.slice(0, -1) + (found.endsWith('0') ? '1' : '0'))],
    [url, { method: 'PUT', data: 'y' }],
    [url, { method: 'DELETE' }],
  ];
  for (const [changed, how] of tries) {
    const answer = await send(changed, how);
    assert.deepEqual([answer.status, codeOf(answer)], [403, 'SignatureDoesNotMatch']);
  }
  const wrong = connect({ credentials: { secretAccessKey: 'wrong' } });
  const forged = await send(await getSignedUrl(wrong, new GetObjectCommand(object), { expiresIn: 60 }));
  assert.deepEqual([forged.status, codeOf(forged)], [403, 'SignatureDoesNotMatch']);
  await holds(Bucket, 'k', 'x');
});

test('URLs write and delete', async (t) => {
  const Bucket = await bucket(t);
  const data = content(3 * MIB, 'by URL');
  const object = { Bucket, Key: 'k' };
  // The SDK adds the checksum of an empty body to the URL, because it knows no other.
  const url = await sign(PutObjectCommand, object);
  const put = await send(url, { method: 'PUT', data });
  assert.deepEqual([put.status, put.headers.etag], [200, etag(data)]);
  await holds(Bucket, 'k', data);
  assert.equal((await fetch(url, { method: 'PUT', body: 'fetched' })).status, 200);
  await holds(Bucket, 'k', 'fetched');
  assert.equal((await send(await sign(DeleteObjectCommand, object), { method: 'DELETE' })).status, 204);
  await refused(s3.headObject(object), 404);
});

test('URLs hold the writer to a type, a length, metadata and a checksum', async (t) => {
  const Bucket = await bucket(t);
  const object = { Bucket, Key: 'k', ContentType: 'text/x', ContentLength: 4, Metadata: { a: '1' } };
  const url = await sign(PutObjectCommand, object, { signableHeaders: new Set(['content-type', 'content-length', 'host']) });
  const put = (type, data) => send(url, { method: 'PUT', headers: { 'content-type': type }, data });
  for (const answer of [await put('text/y', 'four'), await put('text/x', 'seven')]) {
    assert.deepEqual([answer.status, codeOf(answer)], [403, 'SignatureDoesNotMatch']);
  }
  assert.equal((await put('text/x', 'four')).status, 200);
  const got = await s3.headObject({ Bucket, Key: 'k' });
  assert.deepEqual([got.ContentType, got.Metadata, got.ContentLength], ['text/x', { a: '1' }, 4]);

  const checked = { Bucket, Key: 'checked', ChecksumSHA256: sha('sha256', 'right') };
  const checkedUrl = await sign(PutObjectCommand, checked);
  const wrong = await send(checkedUrl, { method: 'PUT', data: 'wrong' });
  assert.deepEqual([wrong.status, codeOf(wrong)], [400, 'BadDigest']);
  assert.equal((await send(checkedUrl, { method: 'PUT', data: 'right' })).status, 200);
  await holds(Bucket, 'checked', 'right');
});

test('URLs upload parts', async (t) => {
  const Bucket = await bucket(t);
  const { UploadId } = await s3.createMultipartUpload({ Bucket, Key: 'k' });
  const upload = { Bucket, Key: 'k', UploadId };
  const parts = [content(5 * MIB, 'first part'), content(10, 'second part')];
  const Parts = [];
  for (const [n, data] of parts.entries()) {
    const answer = await send(await sign(UploadPartCommand, { ...upload, PartNumber: n + 1 }), { method: 'PUT', data });
    assert.deepEqual([answer.status, answer.headers.etag], [200, etag(data)]);
    Parts.push({ PartNumber: n + 1, ETag: answer.headers.etag });
  }
  await s3.completeMultipartUpload({ ...upload, MultipartUpload: { Parts } });
  await holds(Bucket, 'k', Buffer.concat(parts));
});

test('forms upload what their policy allows', async (t) => {
  const Bucket = await bucket(t);
  const { url, fields } = await createPresignedPost(s3, {
    Bucket,
    Key: 'in/${filename}',
    Conditions: [['content-length-range', 1, 100], ['starts-with', '$Content-Type', 'text/']],
    Fields: { success_action_status: '201', 'x-amz-meta-a': '1' },
    Expires: 60,
  });
  const post = async (changed, data, name = 'nä me.txt') => {
    const form = new FormData();
    for (const [field, value] of Object.entries({ ...fields, 'Content-Type': 'text/x', ...changed })) form.append(field, value);
    form.append('file', new Blob([data]), name);
    const answer = await fetch(url, { method: 'POST', body: form });
    return { status: answer.status, headers: answer.headers, body: Buffer.from(await answer.arrayBuffer()) };
  };
  const done = await post({}, 'by a form');
  assert.equal(done.status, 201);
  assert.equal(done.headers.get('etag'), etag('by a form'));
  assert.match(done.body.toString(), /<Key>in\/nä me\.txt<\/Key>/);
  const got = await s3.getObject({ Bucket, Key: 'in/nä me.txt' });
  assert.deepEqual([got.ContentType, got.Metadata], ['text/x', { a: '1' }]);
  assert.equal(await got.Body.transformToString(), 'by a form');

  const refusals = [
    [{}, 'x'.repeat(101), 400, 'EntityTooLarge'],
    [{}, '', 400, 'EntityTooSmall'],
    [{ key: 'out/k' }, 'x', 403, 'AccessDenied'],
    [{ 'Content-Type': 'image/png' }, 'x', 403, 'AccessDenied'],
    [{ 'x-amz-meta-a': '2' }, 'x', 403, 'AccessDenied'],
    [{ 'x-amz-meta-b': '2' }, 'x', 403, 'AccessDenied'],
    [{ 'X-Amz-Signature': '0'.repeat(64) }, 'x', 403, 'SignatureDoesNotMatch'],
  ];
  for (const [changed, data, status, code] of refusals) {
    const answer = await post(changed, data, 'other');
    assert.deepEqual([changed, answer.status, codeOf(answer)], [changed, status, code]);
  }
  assert.equal((await s3.listObjectsV2({ Bucket })).KeyCount, 1);
});
