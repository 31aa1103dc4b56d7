// What the public documentation of minio-go shows about versions, locks, tags and lifecycle rules, against
// the server that the environment names. tests/clients/test_minio_go.py runs it.
package minio_go

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"sort"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/lifecycle"
	"github.com/minio/minio-go/v7/pkg/tags"
)

func connect(t *testing.T) *minio.Client {
	t.Helper()
	client, err := minio.New(os.Getenv("ARCHIPEL_TEST_ADDRESS"), &minio.Options{
		Creds:      credentials.NewStaticV4(os.Getenv("ARCHIPEL_TEST_ACCESS_KEY"), os.Getenv("ARCHIPEL_TEST_SECRET_KEY"), ""),
		Region:     os.Getenv("ARCHIPEL_TEST_REGION"),
		MaxRetries: 1,
	})
	must(t, err)
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v: %+v", err, minio.ToErrorResponse(err))
	}
}

// refused asserts that an operation failed with one of these codes.
func refused(t *testing.T, err error, codes ...string) {
	t.Helper()
	got := minio.ToErrorResponse(err).Code
	for _, code := range codes {
		if err != nil && got == code {
			return
		}
	}
	t.Fatalf("%v (%q), not %q", err, got, codes)
}

func same[T comparable](t *testing.T, got, wanted T) {
	t.Helper()
	if got != wanted {
		t.Fatalf("%v, not %v", got, wanted)
	}
}

// bucket makes a bucket, and removes it with all versions when the test is over.
func bucket(t *testing.T, client *minio.Client, options minio.MakeBucketOptions) string {
	t.Helper()
	var random [6]byte
	_, err := rand.Read(random[:])
	must(t, err)
	name := "go-" + hex.EncodeToString(random[:])
	ctx := context.Background()
	must(t, client.MakeBucket(ctx, name, options))
	t.Cleanup(func() {
		for object := range client.ListObjects(ctx, name, minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
			must(t, object.Err)
			must(t, client.RemoveObject(ctx, name, object.Key, minio.RemoveObjectOptions{
				VersionID: object.VersionID, GovernanceBypass: true,
			}))
		}
		must(t, client.RemoveBucket(ctx, name))
	})
	return name
}

func put(t *testing.T, client *minio.Client, bucket, key, body string, options minio.PutObjectOptions) minio.UploadInfo {
	t.Helper()
	info, err := client.PutObject(context.Background(), bucket, key, bytes.NewReader([]byte(body)), int64(len(body)), options)
	must(t, err)
	return info
}

func read(t *testing.T, client *minio.Client, bucket, key, version string) string {
	t.Helper()
	object, err := client.GetObject(context.Background(), bucket, key, minio.GetObjectOptions{VersionID: version})
	must(t, err)
	defer object.Close()
	body, err := io.ReadAll(object)
	must(t, err)
	return string(body)
}

func TestVersions(t *testing.T) {
	client, ctx := connect(t), context.Background()
	name := bucket(t, client, minio.MakeBucketOptions{})
	state, err := client.GetBucketVersioning(ctx, name)
	must(t, err)
	same(t, state.Status, "")
	must(t, client.EnableVersioning(ctx, name))
	state, err = client.GetBucketVersioning(ctx, name)
	must(t, err)
	same(t, state.Enabled(), true)

	one := put(t, client, name, "k", "one", minio.PutObjectOptions{})
	two := put(t, client, name, "k", "two", minio.PutObjectOptions{})
	same(t, read(t, client, name, "k", ""), "two")
	same(t, read(t, client, name, "k", one.VersionID), "one")
	stat, err := client.StatObject(ctx, name, "k", minio.StatObjectOptions{VersionID: one.VersionID})
	must(t, err)
	same(t, stat.VersionID, one.VersionID)

	must(t, client.RemoveObject(ctx, name, "k", minio.RemoveObjectOptions{}))
	_, err = client.StatObject(ctx, name, "k", minio.StatObjectOptions{})
	refused(t, err, "NoSuchKey", "MethodNotAllowed")
	var versions, markers []minio.ObjectInfo
	for object := range client.ListObjects(ctx, name, minio.ListObjectsOptions{WithVersions: true, Prefix: "k"}) {
		must(t, object.Err)
		if object.IsDeleteMarker {
			markers = append(markers, object)
		} else {
			versions = append(versions, object)
		}
	}
	same(t, len(versions), 2)
	same(t, versions[0].VersionID, two.VersionID)
	same(t, len(markers), 1)
	same(t, markers[0].IsLatest, true)

	// An old version is copied over the deleted object.
	_, err = client.CopyObject(ctx,
		minio.CopyDestOptions{Bucket: name, Object: "k"},
		minio.CopySrcOptions{Bucket: name, Object: "k", VersionID: one.VersionID})
	must(t, err)
	same(t, read(t, client, name, "k", ""), "one")

	must(t, client.SuspendVersioning(ctx, name))
	put(t, client, name, "k", "null", minio.PutObjectOptions{})
	same(t, read(t, client, name, "k", "null"), "null")
	gone := make(chan minio.ObjectInfo, 10)
	for object := range client.ListObjects(ctx, name, minio.ListObjectsOptions{WithVersions: true}) {
		must(t, object.Err)
		gone <- object
	}
	close(gone)
	for failed := range client.RemoveObjects(ctx, name, gone, minio.RemoveObjectsOptions{}) {
		t.Fatalf("%s %s: %v", failed.ObjectName, failed.VersionID, failed.Err)
	}
	for object := range client.ListObjects(ctx, name, minio.ListObjectsOptions{WithVersions: true}) {
		t.Fatalf("left over: %+v", object)
	}
}

func TestObjectLock(t *testing.T) {
	client, ctx := connect(t), context.Background()
	name := bucket(t, client, minio.MakeBucketOptions{ObjectLocking: true})
	mode, validity, unit := minio.Governance, uint(30), minio.Days
	must(t, client.SetBucketObjectLockConfig(ctx, name, &mode, &validity, &unit))
	enabled, gotMode, gotValidity, gotUnit, err := client.GetObjectLockConfig(ctx, name)
	must(t, err)
	same(t, enabled, "Enabled")
	same(t, *gotMode, mode)
	same(t, *gotValidity, validity)
	same(t, *gotUnit, unit)

	// A protected object comes with a checksum, as on AWS.
	byDefault := put(t, client, name, "default", "x", minio.PutObjectOptions{SendContentMd5: true})
	heldMode, until, err := client.GetObjectRetention(ctx, name, "default", byDefault.VersionID)
	must(t, err)
	same(t, *heldMode, minio.Governance)
	if rest := time.Until(*until); rest < 29*24*time.Hour || rest > 31*24*time.Hour {
		t.Fatalf("retained for %v", rest)
	}
	err = client.RemoveObject(ctx, name, "default", minio.RemoveObjectOptions{VersionID: byDefault.VersionID})
	refused(t, err, "AccessDenied")

	// With its own retention and a legal hold, from the start.
	later := time.Now().UTC().Add(48 * time.Hour).Truncate(time.Second)
	own := put(t, client, name, "own", "x", minio.PutObjectOptions{
		Mode: minio.Governance, RetainUntilDate: later, LegalHold: minio.LegalHoldEnabled, SendContentMd5: true,
	})
	_, until, err = client.GetObjectRetention(ctx, name, "own", "")
	must(t, err)
	if !until.Equal(later) {
		t.Fatalf("%v, not %v", until, later)
	}
	hold, err := client.GetObjectLegalHold(ctx, name, "own", minio.GetObjectLegalHoldOptions{})
	must(t, err)
	same(t, *hold, minio.LegalHoldEnabled)
	// The bypass is for the retention, not for the hold.
	err = client.RemoveObject(ctx, name, "own", minio.RemoveObjectOptions{VersionID: own.VersionID, GovernanceBypass: true})
	refused(t, err, "AccessDenied")
	off := minio.LegalHoldDisabled
	must(t, client.PutObjectLegalHold(ctx, name, "own", minio.PutObjectLegalHoldOptions{Status: &off}))

	// Longer is always allowed, shorter with the bypass only.
	longer, shorter := later.Add(24*time.Hour), later.Add(-24*time.Hour)
	must(t, client.PutObjectRetention(ctx, name, "own", minio.PutObjectRetentionOptions{Mode: &mode, RetainUntilDate: &longer}))
	err = client.PutObjectRetention(ctx, name, "own", minio.PutObjectRetentionOptions{Mode: &mode, RetainUntilDate: &shorter})
	refused(t, err, "AccessDenied")
	must(t, client.PutObjectRetention(ctx, name, "own", minio.PutObjectRetentionOptions{
		Mode: &mode, RetainUntilDate: &shorter, GovernanceBypass: true,
	}))
	must(t, client.SetBucketObjectLockConfig(ctx, name, nil, nil, nil))
}

func TestTags(t *testing.T) {
	client, ctx := connect(t), context.Background()
	name := bucket(t, client, minio.MakeBucketOptions{})
	must(t, client.EnableVersioning(ctx, name))
	one := put(t, client, name, "k", "x", minio.PutObjectOptions{UserTags: map[string]string{"Project": "One", "User": "a b"}})
	got, err := client.GetObjectTagging(ctx, name, "k", minio.GetObjectTaggingOptions{})
	must(t, err)
	same(t, got.ToMap()["User"], "a b")
	put(t, client, name, "k", "y", minio.PutObjectOptions{})
	set, err := tags.NewTags(map[string]string{"key": "1"}, true)
	must(t, err)
	must(t, client.PutObjectTagging(ctx, name, "k", set, minio.PutObjectTaggingOptions{VersionID: one.VersionID}))
	got, err = client.GetObjectTagging(ctx, name, "k", minio.GetObjectTaggingOptions{VersionID: one.VersionID})
	must(t, err)
	same(t, got.String(), "key=1")
	stat, err := client.StatObject(ctx, name, "k", minio.StatObjectOptions{VersionID: one.VersionID})
	must(t, err)
	same(t, stat.UserTagCount, 1)
	_, err = client.CopyObject(ctx,
		minio.CopyDestOptions{Bucket: name, Object: "copy", ReplaceTags: true, UserTags: map[string]string{"new": "2"}},
		minio.CopySrcOptions{Bucket: name, Object: "k", VersionID: one.VersionID})
	must(t, err)
	got, err = client.GetObjectTagging(ctx, name, "copy", minio.GetObjectTaggingOptions{})
	must(t, err)
	same(t, got.String(), "new=2")
	must(t, client.RemoveObjectTagging(ctx, name, "copy", minio.RemoveObjectTaggingOptions{}))
	got, err = client.GetObjectTagging(ctx, name, "copy", minio.GetObjectTaggingOptions{})
	must(t, err)
	same(t, got.Count(), 0)

	_, err = client.GetBucketTagging(ctx, name)
	refused(t, err, "NoSuchTagSet")
	set, err = tags.NewTags(map[string]string{"Tag1": "Value1", "Tag2": "Value2"}, false)
	must(t, err)
	must(t, client.SetBucketTagging(ctx, name, set))
	got, err = client.GetBucketTagging(ctx, name)
	must(t, err)
	same(t, got.Count(), 2)
	must(t, client.RemoveBucketTagging(ctx, name))
}

func TestLifecycle(t *testing.T) {
	client, ctx := connect(t), context.Background()
	name := bucket(t, client, minio.MakeBucketOptions{})
	_, err := client.GetBucketLifecycle(ctx, name)
	refused(t, err, "NoSuchLifecycleConfiguration")
	config := lifecycle.NewConfiguration()
	config.Rules = []lifecycle.Rule{
		{
			ID:         "expire-bucket",
			Status:     "Enabled",
			RuleFilter: lifecycle.Filter{Prefix: "logs/"},
			Expiration: lifecycle.Expiration{Days: 365},
		},
		{
			ID:         "old-versions",
			Status:     "Enabled",
			RuleFilter: lifecycle.Filter{And: lifecycle.And{Prefix: "a/", Tags: []lifecycle.Tag{{Key: "k", Value: "v"}}}},
			NoncurrentVersionExpiration: lifecycle.NoncurrentVersionExpiration{
				NoncurrentDays: 10, NewerNoncurrentVersions: 3,
			},
		},
		{
			ID:                             "uploads",
			Status:                         "Disabled",
			AbortIncompleteMultipartUpload: lifecycle.AbortIncompleteMultipartUpload{DaysAfterInitiation: 2},
		},
	}
	must(t, client.SetBucketLifecycle(ctx, name, config))
	got, err := client.GetBucketLifecycle(ctx, name)
	must(t, err)
	sort.Slice(got.Rules, func(a, b int) bool { return got.Rules[a].ID < got.Rules[b].ID })
	same(t, len(got.Rules), 3)
	same(t, got.Rules[0].Expiration.Days, lifecycle.ExpirationDays(365))
	same(t, got.Rules[1].RuleFilter.And.Prefix, "a/")
	same(t, got.Rules[1].NoncurrentVersionExpiration.NewerNoncurrentVersions, 3)
	same(t, got.Rules[2].Status, "Disabled")
	put(t, client, name, "logs/x", "x", minio.PutObjectOptions{})
	stat, err := client.StatObject(ctx, name, "logs/x", minio.StatObjectOptions{})
	must(t, err)
	same(t, stat.ExpirationRuleID, "expire-bucket")

	// What is not there is refused, and leaves the rules as they were.
	config.Rules[0].Transition = lifecycle.Transition{Days: 30, StorageClass: "GLACIER"}
	err = client.SetBucketLifecycle(ctx, name, config)
	if err == nil {
		t.Fatal("a transition was accepted")
	}
	got, err = client.GetBucketLifecycle(ctx, name)
	must(t, err)
	same(t, len(got.Rules), 3)
	must(t, client.SetBucketLifecycle(ctx, name, lifecycle.NewConfiguration()))
	_, err = client.GetBucketLifecycle(ctx, name)
	refused(t, err, "NoSuchLifecycleConfiguration")
}

func TestFormWithPolicy(t *testing.T) {
	client, ctx := connect(t), context.Background()
	name := bucket(t, client, minio.MakeBucketOptions{})
	must(t, client.EnableVersioning(ctx, name))
	policy := minio.NewPostPolicy()
	for _, err := range []error{
		policy.SetBucket(name),
		policy.SetKeyStartsWith("in/"),
		policy.SetExpires(time.Now().UTC().Add(time.Hour)),
		policy.SetContentLengthRange(1, 100),
	} {
		must(t, err)
	}
	url, fields, err := client.PresignedPostPolicy(ctx, policy)
	must(t, err)
	fields["key"] = "in/k"
	answer, err := send(url.String(), fields, "by a form")
	must(t, err)
	same(t, answer.StatusCode, http.StatusNoContent)
	same(t, read(t, client, name, "in/k", answer.Header.Get("x-amz-version-id")), "by a form")
	fields["key"] = "out/k"
	answer, err = send(url.String(), fields, "elsewhere")
	must(t, err)
	same(t, answer.StatusCode, http.StatusForbidden)
}

func send(url string, fields map[string]string, content string) (*http.Response, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range fields {
		if err := form.WriteField(name, value); err != nil {
			return nil, err
		}
	}
	file, err := form.CreateFormFile("file", "name")
	if err != nil {
		return nil, err
	}
	if _, err = file.Write([]byte(content)); err != nil {
		return nil, err
	}
	if err = form.Close(); err != nil {
		return nil, err
	}
	answer, err := http.Post(url, form.FormDataContentType(), &body)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer, errors.Join(err, answer.Body.Close())
}
