package aws_sdk_go

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"os"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func TestPutGet(t *testing.T) {
	client := connect()
	name := bucket(t, client)
	data := content(3*mib+1, 1)
	file, err := os.CreateTemp(t.TempDir(), "file")
	must(t, err)
	defer file.Close()
	_, err = file.Write(data)
	must(t, err)
	_, err = file.Seek(0, io.SeekStart)
	must(t, err)
	bodies := map[string]io.Reader{"bytes": bytes.NewReader(data), "file": file, "section": io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))}
	for key, body := range bodies {
		done, err := client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: name, Key: &key, Body: body, ContentType: aws.String("text/x"), CacheControl: aws.String("max-age=60"),
			ContentDisposition: aws.String("attachment; filename=\"a b\""), Metadata: map[string]string{"one": "1", "two-words": "a, b"},
		})
		must(t, err)
		same(t, *done.ETag, etag(data))
		same(t, *done.ChecksumCRC32, crcOf(data))
		same(t, done.ChecksumType, types.ChecksumTypeFullObject)
		got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: &key})
		must(t, err)
		sameBytes(t, whole(t, got.Body), data)
		same(t, *got.ContentLength, int64(len(data)))
		same(t, *got.ContentType+*got.CacheControl+*got.ContentDisposition, "text/xmax-age=60attachment; filename=\"a b\"")
		same(t, got.ContentEncoding == nil, true)
		same(t, got.Metadata["one"]+got.Metadata["two-words"], "1a, b")
		same(t, time.Since(*got.LastModified) < 10*time.Minute, true)
		head, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: name, Key: &key, ChecksumMode: types.ChecksumModeEnabled})
		must(t, err)
		same(t, *head.ChecksumCRC32, crcOf(data))
	}
	_, err = client.PutObject(ctx, &s3.PutObjectInput{Bucket: name, Key: aws.String("none")})
	must(t, err)
	holds(t, client, name, "none", nil)
}

func TestRanges(t *testing.T) {
	client := connect()
	name := bucket(t, client)
	data := content(2*mib+10, 2)
	put(t, client, name, "k", string(data))
	end := len(data) - 1
	for asked, part := range map[string][2]int{
		"0-0": {0, 0}, fmt.Sprintf("%d-%d", mib-5, mib+5): {mib - 5, mib + 5}, "100-": {100, end}, "-7": {end - 6, end}, "5-999999999": {5, end},
	} {
		got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: aws.String("k"), Range: aws.String("bytes=" + asked)})
		must(t, err)
		same(t, *got.ContentRange, fmt.Sprintf("bytes %d-%d/%d", part[0], part[1], len(data)))
		sameBytes(t, whole(t, got.Body), data[part[0]:part[1]+1])
	}
	_, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: aws.String("k"), Range: aws.String("bytes=99999999-")})
	refused(t, err, 416, "InvalidRange")
}

func TestChecksums(t *testing.T) {
	client := connect()
	name := bucket(t, client)
	data := content(100_000, 3)
	sum := sha256.Sum256(data)
	right := base64.StdEncoding.EncodeToString(sum[:])
	for _, algorithm := range []types.ChecksumAlgorithm{
		types.ChecksumAlgorithmCrc32, types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmCrc64nvme,
		types.ChecksumAlgorithmSha1, types.ChecksumAlgorithmSha256,
	} {
		key := string(algorithm)
		done, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: name, Key: &key, Body: bytes.NewReader(data), ChecksumAlgorithm: algorithm})
		must(t, err)
		head, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: name, Key: &key, ChecksumMode: types.ChecksumModeEnabled})
		must(t, err)
		sent := only(t, done.ChecksumCRC32, done.ChecksumCRC32C, done.ChecksumCRC64NVME, done.ChecksumSHA1, done.ChecksumSHA256)
		same(t, only(t, head.ChecksumCRC32, head.ChecksumCRC32C, head.ChecksumCRC64NVME, head.ChecksumSHA1, head.ChecksumSHA256), sent)
		// The SDK compares the content with the checksum that it gets.
		holds(t, client, name, key, data)
	}
	input := &s3.PutObjectInput{Bucket: name, Key: aws.String("given"), Body: bytes.NewReader(data), ChecksumSHA256: &right}
	_, err := client.PutObject(ctx, input)
	must(t, err)
	input.Key, input.Body = aws.String("wrong"), strings.NewReader("other")
	_, err = client.PutObject(ctx, input)
	refused(t, err, 400, "BadDigest")
	_, err = client.GetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: input.Key})
	refused(t, err, 404, "NoSuchKey")
}

// only returns the one checksum that an answer has, with its place.
func only(t *testing.T, all ...*string) string {
	t.Helper()
	found := []string{}
	for place, one := range all {
		if one != nil {
			found = append(found, fmt.Sprint(place, " ", *one))
		}
	}
	same(t, len(found), 1)
	return found[0]
}

func TestConditions(t *testing.T) {
	client := connect()
	name, key := bucket(t, client), aws.String("k")
	write := func(body string, match, noneMatch *string) error {
		_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: name, Key: key, Body: strings.NewReader(body), IfMatch: match, IfNoneMatch: noneMatch})
		return err
	}
	absent, first := aws.String("*"), aws.String(etag([]byte("first")))
	refused(t, write("first", first, nil), 404, "NoSuchKey")
	must(t, write("first", nil, absent))
	refused(t, write("second", nil, absent), 412, "PreconditionFailed")
	refused(t, write("second", aws.String(etag([]byte("other"))), nil), 412, "PreconditionFailed")
	holds(t, client, name, "k", []byte("first"))
	must(t, write("second", first, nil))
	holds(t, client, name, "k", []byte("second"))

	read := func(input s3.GetObjectInput) error {
		input.Bucket, input.Key = name, key
		_, err := client.GetObject(ctx, &input)
		return err
	}
	second := aws.String(etag([]byte("second")))
	must(t, read(s3.GetObjectInput{IfMatch: second}))
	must(t, read(s3.GetObjectInput{IfNoneMatch: first}))
	refused(t, read(s3.GetObjectInput{IfNoneMatch: second}), 304, "")
	refused(t, read(s3.GetObjectInput{IfMatch: first}), 412, "PreconditionFailed")
	past := aws.Time(time.Now().Add(-time.Hour))
	must(t, read(s3.GetObjectInput{IfModifiedSince: past}))
	refused(t, read(s3.GetObjectInput{IfUnmodifiedSince: past}), 412, "PreconditionFailed")

	_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: name, Key: key, IfMatch: first})
	refused(t, err, 412, "PreconditionFailed")
	_, err = client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: name, Key: key, IfMatch: second})
	must(t, err)

	// One of many writers wins.
	var won, lost []error
	var lock sync.Mutex
	var writers sync.WaitGroup
	for n := range 20 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			err := write(fmt.Sprint(n), nil, absent)
			lock.Lock()
			defer lock.Unlock()
			if err == nil {
				won = append(won, err)
			} else {
				lost = append(lost, err)
			}
		}()
	}
	writers.Wait()
	same(t, len(won), 1)
	for _, err := range lost {
		if !strings.Contains(err.Error(), "ConditionalRequestConflict") {
			refused(t, err, 412, "PreconditionFailed")
		}
	}
}

func TestCopyAndTags(t *testing.T) {
	client := connect()
	name, key := bucket(t, client), "from/ü +&%.txt"
	data := content(mib+3, 4)
	_, err := client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: name, Key: &key, Body: bytes.NewReader(data), Metadata: map[string]string{"a": "1"}, Tagging: aws.String("one=a+b&two=c%2Fd%3D"),
	})
	must(t, err)
	source := sourceOf(name, key)
	_, err = client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: name, Key: aws.String("kept"), CopySource: source})
	must(t, err)
	_, err = client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: name, Key: aws.String("replaced"), CopySource: source, MetadataDirective: types.MetadataDirectiveReplace,
		Metadata: map[string]string{"b": "2"}, TaggingDirective: types.TaggingDirectiveReplace, Tagging: aws.String("c=d"),
	})
	must(t, err)
	for copied, wanted := range map[string]string{"kept": "map[a:1] [one=a b two=c/d=]", "replaced": "map[b:2] [c=d]"} {
		got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: &copied})
		must(t, err)
		sameBytes(t, whole(t, got.Body), data)
		same(t, fmt.Sprint(got.Metadata, " ", tags(t, client, name, copied)), wanted)
		same(t, int(*got.TagCount), len(tags(t, client, name, copied)))
	}
	set := &types.Tagging{TagSet: []types.Tag{tag("üb er", "")}}
	_, err = client.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{Bucket: name, Key: &key, Tagging: set})
	must(t, err)
	alike(t, tags(t, client, name, key), []string{"üb er="})
	_, err = client.DeleteObjectTagging(ctx, &s3.DeleteObjectTaggingInput{Bucket: name, Key: &key})
	must(t, err)
	same(t, len(tags(t, client, name, key)), 0)
}

// sourceOf names an object to copy. A "+" would stand for a space, so neither is left as it is.
func sourceOf(name *string, key string) *string {
	return aws.String(*name + "/" + strings.ReplaceAll(url.QueryEscape(key), "+", "%20"))
}

func tags(t *testing.T, client *s3.Client, name *string, key string) []string {
	t.Helper()
	got, err := client.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: name, Key: &key})
	must(t, err)
	found := []string{}
	for _, one := range got.TagSet {
		found = append(found, *one.Key+"="+*one.Value)
	}
	return found
}

var odd = []string{
	"ünï/日本 語.txt", "😀", "a+b c&d=e%20f", "a//b", "/a", "//", "a/", "..", ".", "../a", "a/../b", "a/./b", "a?b#c",
	"back\\slash", "\"<xml>&amp;'", ";:,@$!()*~[]{}|^`", " a ", "%", "%2F", "tab\tkey",
}

func TestOddKeys(t *testing.T) {
	client := connect()
	name, signer := bucket(t, client), s3.NewPresignClient(client)
	for _, key := range odd {
		put(t, client, name, key, "content of "+key)
		holds(t, client, name, key, []byte("content of "+key))
		source := sourceOf(name, key)
		copied := key + ".copy"
		_, err := client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: name, Key: &copied, CopySource: source})
		must(t, err)
		holds(t, client, name, copied, []byte("content of "+key))
		_, err = client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: name, Key: &copied})
		must(t, err)
		signed, err := signer.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: &key})
		must(t, err)
		answer, got := send(t, signed.Method, signed.URL, signed.SignedHeader, nil)
		same(t, answer.StatusCode, 200)
		same(t, string(got), "content of "+key)
	}
	wanted := append([]string{}, odd...)
	sort.Strings(wanted)
	alike(t, keys(t, client, s3.ListObjectsV2Input{Bucket: name, MaxKeys: aws.Int32(7)}), wanted)
	objects := []types.ObjectIdentifier{{Key: aws.String("missing")}}
	for _, key := range odd {
		objects = append(objects, types.ObjectIdentifier{Key: &key})
	}
	gone, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: name, Delete: &types.Delete{Objects: objects}})
	must(t, err)
	deleted := []string{}
	for _, one := range gone.Deleted {
		deleted = append(deleted, *one.Key)
	}
	sort.Strings(deleted)
	wanted = append(wanted, "missing")
	sort.Strings(wanted)
	alike(t, deleted, wanted)
	same(t, len(gone.Errors), 0)
	same(t, len(keys(t, client, s3.ListObjectsV2Input{Bucket: name})), 0)
}
