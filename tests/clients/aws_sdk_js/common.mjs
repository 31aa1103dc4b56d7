// What the tests of the AWS SDK for JavaScript share: clients of the server that the environment names, buckets, contents.

import assert from 'node:assert/strict';
import * as crypto from 'node:crypto';
import * as http from 'node:http';
import { crc32 } from 'node:zlib';
import { S3 } from '@aws-sdk/client-s3';

export const MIB = 1024 * 1024;
const {
  ARCHIPEL_TEST_ENDPOINT: endpoint,
  ARCHIPEL_TEST_REGION: region,
  ARCHIPEL_TEST_ACCESS_KEY: accessKeyId,
  ARCHIPEL_TEST_SECRET_KEY: secretAccessKey,
} = process.env;
export { region };

/** A client with the SDK's defaults, except that no retry hides anything. */
export function connect(more = {}) {
  return new S3({
    endpoint,
    region,
    credentials: { accessKeyId, secretAccessKey, ...more.credentials },
    forcePathStyle: true,
    maxAttempts: 1,
  });
}

export const s3 = connect();

/** A client, and the headers of its last request. */
export function watched() {
  const client = connect();
  const last = {};
  const watch = (next) => (args) => {
    last.headers = args.request.headers;
    return next(args);
  };
  client.middlewareStack.add(watch, { step: 'deserialize', priority: 'low', name: 'watch' });
  return { client, last };
}

/** A new bucket, removed with all that it holds when the test is over. */
export async function bucket(t) {
  const Bucket = `js-${crypto.randomBytes(6).toString('hex')}`;
  await s3.createBucket({ Bucket });
  t.after(() => remove(Bucket));
  return Bucket;
}

async function remove(Bucket) {
  for (const { Key, UploadId } of (await s3.listMultipartUploads({ Bucket })).Uploads ?? []) {
    await s3.abortMultipartUpload({ Bucket, Key, UploadId });
  }
  for (const { Key, VersionId } of await versions(Bucket)) {
    await s3.deleteObject({ Bucket, Key, VersionId });
  }
  await s3.deleteBucket({ Bucket });
}

/** All versions and delete markers of a bucket, read in small pages. */
export async function versions(Bucket) {
  const found = [];
  let page = {};
  do {
    const { NextKeyMarker: KeyMarker, NextVersionIdMarker: VersionIdMarker } = page;
    page = await s3.listObjectVersions({ Bucket, KeyMarker, VersionIdMarker, MaxKeys: 3 });
    found.push(...(page.Versions ?? []));
    found.push(...(page.DeleteMarkers ?? []).map((marker) => ({ ...marker, isMarker: true })));
  } while (page.IsTruncated);
  return found;
}

/** Bytes that follow from a seed. */
export function content(size, seed) {
  return crypto.createHash('shake128', { outputLength: size }).update(seed).digest();
}

export function pieces(data, size) {
  const count = Math.ceil(data.length / size);
  return Array.from({ length: count }, (_, n) => data.subarray(n * size, (n + 1) * size));
}

const digest = (algorithm, data) => crypto.createHash(algorithm).update(data).digest();

export const etag = (data) => `"${digest('md5', data).toString('hex')}"`;
export const sha = (algorithm, data) => digest(algorithm, data).toString('base64');

/** The ETag of an object that was uploaded in these parts. */
export function etagOfParts(parts) {
  const all = Buffer.concat(parts.map((part) => digest('md5', part)));
  return `"${digest('md5', all).toString('hex')}-${parts.length}"`;
}

function crc(data) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc32(data));
  return bytes;
}

export const crcOf = (data) => crc(data).toString('base64');
export const crcOfParts = (parts) => `${crcOf(Buffer.concat(parts.map(crc)))}-${parts.length}`;

/** Asserts that both are the same bytes, without printing them. */
export function sameBytes(got, wanted) {
  const [one, other] = [Buffer.from(got), Buffer.from(wanted)];
  assert.ok(one.equals(other), `${one.length} other bytes, not these ${other.length}`);
}

/** The whole body of an answer. */
export async function body(answer) {
  return Buffer.from(await answer.Body.transformToByteArray());
}

export async function holds(Bucket, Key, data, more = {}) {
  sameBytes(await body(await s3.getObject({ Bucket, Key, ...more })), data);
}

/** Asserts that a call fails with this status, and an error of this name or class. */
export async function refused(call, status, kind) {
  const error = await call.then(() => undefined, (reason) => reason);
  assert.ok(error, `was not refused with ${status}`);
  assert.equal(error.$metadata?.httpStatusCode, status, `${error.name}: ${error.message}`);
  if (typeof kind === 'string') assert.equal(error.name, kind);
  if (typeof kind === 'function') assert.ok(error instanceof kind, error.name);
  return error;
}

/** Requests a URL exactly as it is written: `fetch` would resolve the `..` in it. */
export function send(url, { method = 'GET', headers = {}, data } = {}) {
  const { origin, hostname: host, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const options = { host, port, path: url.slice(origin.length), method, headers };
    const request = http.request(options, async (answer) => {
      const chunks = [];
      for await (const chunk of answer) chunks.push(chunk);
      resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(chunks) });
    });
    request.on('error', reject);
    request.end(data);
  });
}

/** The code in a document of an error. */
export const codeOf = (answer) => /<Code>(.*?)<\/Code>/.exec(answer.body.toString())?.[1];
