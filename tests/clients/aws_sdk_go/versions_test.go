package aws_sdk_go

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func TestVersions(t *testing.T) {
	client := connect()
	name, key := bucket(t, client), aws.String("k")
	enabled := &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}
	_, err := client.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: name, VersioningConfiguration: enabled})
	must(t, err)
	bodies := []string{"one", "two", "three", "four"}
	ids := []string{}
	for _, body := range bodies {
		ids = append(ids, *put(t, client, name, "k", body).VersionId)
	}
	for n, id := range ids {
		got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: key, VersionId: &id})
		must(t, err)
		same(t, *got.VersionId, id)
		same(t, string(whole(t, got.Body)), bodies[n])
	}
	marker, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: name, Key: key})
	must(t, err)
	same(t, *marker.DeleteMarker, true)
	_, err = client.GetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: key})
	is[*types.NoSuchKey](t, err)
	_, err = client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: name, Key: key, VersionId: marker.VersionId})
	refused(t, err, 405, "")
	wanted := []version{}
	for n := range ids {
		wanted = append(wanted, version{"k", ids[len(ids)-1-n], false, false})
	}
	wanted = append(wanted, version{"k", *marker.VersionId, true, true})
	alike(t, versions(t, client, name), wanted)

	_, err = client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: name, Key: key, VersionId: marker.VersionId})
	must(t, err)
	holds(t, client, name, "k", []byte("four"))
	source := aws.String(*name + "/k?versionId=" + ids[0])
	_, err = client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: name, Key: aws.String("copy"), CopySource: source})
	must(t, err)
	holds(t, client, name, "copy", []byte("one"))
	objects := []types.ObjectIdentifier{}
	for _, id := range ids[1:] {
		objects = append(objects, types.ObjectIdentifier{Key: key, VersionId: &id})
	}
	gone, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: name, Delete: &types.Delete{Objects: objects}})
	must(t, err)
	same(t, len(gone.Deleted), 3)
	same(t, len(gone.Errors), 0)
	holds(t, client, name, "k", []byte("one"))
	_, err = client.GetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: key, VersionId: &ids[1]})
	refused(t, err, 404, "NoSuchVersion")
}
