package aws_sdk_go

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func TestLifeOfBucket(t *testing.T) {
	client := connect()
	name := aws.String(*bucket(t, client) + "-life")
	made, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: name})
	must(t, err)
	same(t, *made.Location, "/"+*name)
	head, err := client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: name})
	must(t, err)
	same(t, *head.BucketRegion, region())
	listed, err := client.ListBuckets(ctx, &s3.ListBucketsInput{Prefix: name})
	must(t, err)
	same(t, len(listed.Buckets), 1)
	same(t, *listed.Buckets[0].Name, *name)
	same(t, time.Since(*listed.Buckets[0].CreationDate) < 10*time.Minute, true)
	put(t, client, name, "k", "x")
	_, err = client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: name})
	refused(t, err, 409, "BucketNotEmpty")
	_, err = client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: name, Key: aws.String("k")})
	must(t, err)
	_, err = client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: name})
	must(t, err)
	_, err = client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: name})
	refused(t, err, 404, "NotFound")
	is[*types.NotFound](t, err)
}

func TestPages(t *testing.T) {
	client := connect()
	name := bucket(t, client)
	wanted := []string{}
	for n := range 25 {
		wanted = append(wanted, fmt.Sprintf("a+b/ü %02d", n))
		put(t, client, name, wanted[n], "x")
	}
	put(t, client, name, "a b/other", "x")
	put(t, client, name, "z", "x")
	alike(t, keys(t, client, s3.ListObjectsV2Input{Bucket: name, Prefix: aws.String("a+b/"), MaxKeys: aws.Int32(10)}), wanted)
	alike(t, keys(t, client, s3.ListObjectsV2Input{Bucket: name, StartAfter: &wanted[23]}), []string{wanted[24], "z"})
	folders, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: name, Delimiter: aws.String("/")})
	must(t, err)
	same(t, len(folders.CommonPrefixes), 2)
	same(t, *folders.CommonPrefixes[0].Prefix+*folders.CommonPrefixes[1].Prefix, "a b/a+b/")
	same(t, len(folders.Contents), 1)
	same(t, *folders.Contents[0].Key, "z")

	names := []string{}
	for _, end := range []string{"-a", "-b", "-c"} {
		more := aws.String(*name + end)
		names = append(names, *more)
		_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: more})
		must(t, err)
		t.Cleanup(func() {
			_, err := client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: more})
			must(t, err)
		})
	}
	seen := []string{}
	pages := s3.NewListBucketsPaginator(client, &s3.ListBucketsInput{Prefix: aws.String(*name + "-"), MaxBuckets: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		must(t, err)
		for _, one := range page.Buckets {
			seen = append(seen, *one.Name)
		}
	}
	alike(t, seen, names)
}

func TestWaiters(t *testing.T) {
	client := connect()
	name := aws.String(*bucket(t, client) + "-waited")
	object := &s3.HeadObjectInput{Bucket: name, Key: aws.String("k")}
	of := &s3.HeadBucketInput{Bucket: name}
	soon := time.Minute
	steps := []struct{ change, wait func() error }{
		{
			func() error { _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: name}); return err },
			func() error {
				return s3.NewBucketExistsWaiter(client, func(o *s3.BucketExistsWaiterOptions) { o.MinDelay = time.Second }).Wait(ctx, of, soon)
			},
		},
		{
			func() error {
				_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: name, Key: object.Key, Body: strings.NewReader("x")})
				return err
			},
			func() error {
				return s3.NewObjectExistsWaiter(client, func(o *s3.ObjectExistsWaiterOptions) { o.MinDelay = time.Second }).Wait(ctx, object, soon)
			},
		},
		{
			func() error {
				_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: name, Key: object.Key})
				return err
			},
			func() error {
				return s3.NewObjectNotExistsWaiter(client, func(o *s3.ObjectNotExistsWaiterOptions) { o.MinDelay = time.Second }).Wait(ctx, object, soon)
			},
		},
		{
			func() error { _, err := client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: name}); return err },
			func() error {
				return s3.NewBucketNotExistsWaiter(client, func(o *s3.BucketNotExistsWaiterOptions) { o.MinDelay = time.Second }).Wait(ctx, of, soon)
			},
		},
	}
	for _, step := range steps {
		waiting := make(chan error, 1)
		go func() { waiting <- step.wait() }()
		must(t, step.change())
		must(t, <-waiting)
	}
}

func TestErrors(t *testing.T) {
	client := connect()
	name := bucket(t, client)
	missing, none := aws.String("missing"), aws.String(*name+"-none")
	_, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: missing})
	refused(t, err, 404, "NoSuchKey")
	is[*types.NoSuchKey](t, err)
	_, err = client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: name, Key: missing})
	refused(t, err, 404, "NotFound")
	is[*types.NotFound](t, err)
	_, err = client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: none})
	refused(t, err, 404, "NoSuchBucket")
	is[*types.NoSuchBucket](t, err)
	_, err = client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: name, Key: missing, UploadId: aws.String("none")})
	refused(t, err, 404, "NoSuchUpload")
	is[*types.NoSuchUpload](t, err)
	_, err = client.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: name})
	refused(t, err, 404, "NoSuchBucketPolicy")
	_, err = client.GetBucketCors(ctx, &s3.GetBucketCorsInput{Bucket: name})
	refused(t, err, 404, "NoSuchCORSConfiguration")
	_, err = client.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{Bucket: name})
	refused(t, err, 404, "NoSuchTagSet")
	_, err = connectAs("AKUNKNOWN", "secret").ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: name})
	refused(t, err, 403, "InvalidAccessKeyId")
	creds, err := client.Options().Credentials.Retrieve(ctx)
	must(t, err)
	wrong := connectAs(creds.AccessKeyID, "wrong")
	_, err = wrong.PutObject(ctx, &s3.PutObjectInput{Bucket: name, Key: missing, Body: strings.NewReader("x")})
	refused(t, err, 403, "SignatureDoesNotMatch")
	same(t, len(keys(t, client, s3.ListObjectsV2Input{Bucket: name})), 0)
}
