// The AWS SDK for Go, version 2, against the server that the environment names. tests/clients/test_aws_sdk_go.py runs it.
package aws_sdk_go

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	mathrand "math/rand"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

const mib = 1 << 20

var ctx = context.Background()

// connectAs returns a client with the SDK's defaults, except that no retry hides anything.
func connectAs(id, secret string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint:     aws.String(os.Getenv("ARCHIPEL_TEST_ENDPOINT")),
		Region:           region(),
		UsePathStyle:     true,
		RetryMaxAttempts: 1,
		// As in every configuration that the SDK loads.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: id, SecretAccessKey: secret}, nil
		}),
	})
}

func connect() *s3.Client {
	return connectAs(os.Getenv("ARCHIPEL_TEST_ACCESS_KEY"), os.Getenv("ARCHIPEL_TEST_SECRET_KEY"))
}

func region() string { return os.Getenv("ARCHIPEL_TEST_REGION") }

// bucket makes a bucket, and removes it with all that it holds when the test is over.
func bucket(t *testing.T, client *s3.Client) *string {
	t.Helper()
	var random [6]byte
	_, err := rand.Read(random[:])
	must(t, err)
	name := aws.String("aws-go-" + hex.EncodeToString(random[:]))
	_, err = client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: name})
	must(t, err)
	t.Cleanup(func() {
		for _, one := range versions(t, client, name) {
			_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: name, Key: aws.String(one.key), VersionId: aws.String(one.id)})
			must(t, err)
		}
		uploads, err := client.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: name})
		must(t, err)
		for _, one := range uploads.Uploads {
			_, err := client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: name, Key: one.Key, UploadId: one.UploadId})
			must(t, err)
		}
		_, err = client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: name})
		must(t, err)
	})
	return name
}

// version is a version or a delete marker.
type version struct {
	key, id          string
	latest, isMarker bool
}

// versions returns all versions of a bucket and then its delete markers, read in small pages.
func versions(t *testing.T, client *s3.Client, name *string) []version {
	t.Helper()
	var found, markers []version
	pages := s3.NewListObjectVersionsPaginator(client, &s3.ListObjectVersionsInput{Bucket: name, MaxKeys: aws.Int32(3)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		must(t, err)
		for _, one := range page.Versions {
			found = append(found, version{*one.Key, *one.VersionId, *one.IsLatest, false})
		}
		for _, one := range page.DeleteMarkers {
			markers = append(markers, version{*one.Key, *one.VersionId, *one.IsLatest, true})
		}
	}
	return append(found, markers...)
}

func put(t *testing.T, client *s3.Client, name *string, key, body string) *s3.PutObjectOutput {
	t.Helper()
	done, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: name, Key: &key, Body: strings.NewReader(body)})
	must(t, err)
	return done
}

// holds asserts that an object has exactly this content.
func holds(t *testing.T, client *s3.Client, name *string, key string, wanted []byte) {
	t.Helper()
	got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: &key})
	must(t, err)
	sameBytes(t, whole(t, got.Body), wanted)
}

func whole(t *testing.T, body io.ReadCloser) []byte {
	t.Helper()
	read, err := io.ReadAll(body)
	must(t, errors.Join(err, body.Close()))
	return read
}

func keys(t *testing.T, client *s3.Client, input s3.ListObjectsV2Input) []string {
	t.Helper()
	found := []string{}
	pages := s3.NewListObjectsV2Paginator(client, &input)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		must(t, err)
		same(t, int(*page.KeyCount), len(page.Contents))
		for _, one := range page.Contents {
			found = append(found, *one.Key)
		}
	}
	return found
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same[T comparable](t *testing.T, got, wanted T) {
	t.Helper()
	if got != wanted {
		t.Fatalf("%v, not %v", got, wanted)
	}
}

// alike asserts that two values print alike.
func alike(t *testing.T, got, wanted any) {
	t.Helper()
	same(t, fmt.Sprintf("%q", got), fmt.Sprintf("%q", wanted))
}

func sameBytes(t *testing.T, got, wanted []byte) {
	t.Helper()
	if !bytes.Equal(got, wanted) {
		t.Fatalf("%d other bytes, not these %d", len(got), len(wanted))
	}
}

// refused asserts that a call failed with this HTTP status and, if one is given, with this code.
func refused(t *testing.T, err error, status int, code string) {
	t.Helper()
	var answer *awshttp.ResponseError
	if !errors.As(err, &answer) || answer.HTTPStatusCode() != status {
		t.Fatalf("%v, not %d %s", err, status, code)
	}
	var named smithy.APIError
	if code != "" && (!errors.As(err, &named) || named.ErrorCode() != code) {
		t.Fatalf("%v, not %s", err, code)
	}
}

// is asserts that an error has one of the SDK's types.
func is[T error](t *testing.T, err error) {
	t.Helper()
	var wanted T
	if !errors.As(err, &wanted) {
		t.Fatalf("%v is no %T", err, wanted)
	}
}

// content returns bytes that follow from a seed.
func content(size int, seed int64) []byte {
	made := make([]byte, size)
	mathrand.New(mathrand.NewSource(seed)).Read(made)
	return made
}

func etag(data []byte) string { return fmt.Sprintf("\"%x\"", md5.Sum(data)) }

// etagOfParts returns the ETag of an object that was uploaded in these parts.
func etagOfParts(parts ...[]byte) string {
	var all []byte
	for _, part := range parts {
		sum := md5.Sum(part)
		all = append(all, sum[:]...)
	}
	return fmt.Sprintf("\"%x-%d\"", md5.Sum(all), len(parts))
}

func crc(data []byte) []byte { return binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(data)) }

func crcOf(data []byte) string { return base64.StdEncoding.EncodeToString(crc(data)) }

// crcOfParts returns the composite checksum of an object that was uploaded in these parts.
func crcOfParts(parts ...[]byte) string {
	var all []byte
	for _, part := range parts {
		all = append(all, crc(part)...)
	}
	return fmt.Sprintf("%s-%d", crcOf(all), len(parts))
}

// send makes a request, such as a presigned one, and returns its answer with the body.
func send(t *testing.T, method, url string, header http.Header, body []byte) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	must(t, err)
	for name, values := range header {
		if name != "Host" && name != "Content-Length" {
			request.Header[name] = values
		}
	}
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	return answer, whole(t, answer.Body)
}

func tag(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }
