package aws_sdk_go

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const partSize = 5 * mib

func TestManager(t *testing.T) {
	client := connect()
	name := bucket(t, client)
	data := content(2*partSize+7, 5)
	parts := [][]byte{data[:partSize], data[partSize : 2*partSize], data[2*partSize:]}
	uploader := manager.NewUploader(client, func(u *manager.Uploader) { u.PartSize = partSize })
	bodies := map[string]io.Reader{"known": bytes.NewReader(data), "stream": io.MultiReader(bytes.NewReader(data))}
	for key, body := range bodies {
		done, err := uploader.Upload(ctx, &s3.PutObjectInput{
			Bucket: name, Key: &key, Body: body, ContentType: aws.String("text/x"), Tagging: aws.String("k=v+w"),
		})
		must(t, err)
		same(t, *done.ETag, etagOfParts(parts...))
		same(t, *done.ChecksumCRC32, crcOfParts(parts...))
		same(t, len(done.CompletedParts), 3)
		alike(t, tags(t, client, name, key), []string{"k=v w"})
		holds(t, client, name, key, data)

		into := manager.NewWriteAtBuffer(nil)
		downloader := manager.NewDownloader(client, func(d *manager.Downloader) { d.PartSize = partSize })
		size, err := downloader.Download(ctx, into, &s3.GetObjectInput{Bucket: name, Key: &key})
		must(t, err)
		same(t, size, int64(len(data)))
		sameBytes(t, into.Bytes(), data)
	}
	_, err := uploader.Upload(ctx, &s3.PutObjectInput{Bucket: name, Key: aws.String("small"), Body: io.MultiReader(bytes.NewReader(data[:9]))})
	must(t, err)
	holds(t, client, name, "small", data[:9])
	found, err := manager.GetBucketRegion(ctx, client, *name)
	must(t, err)
	same(t, found, region())
}

func TestManagerLeavesNothingOfWhatFails(t *testing.T) {
	client := connect()
	name, broken := bucket(t, client), errors.New("broken")
	body := io.MultiReader(bytes.NewReader(content(2*partSize, 6)), iotest.ErrReader(broken))
	uploader := manager.NewUploader(client, func(u *manager.Uploader) { u.PartSize = partSize })
	_, err := uploader.Upload(ctx, &s3.PutObjectInput{Bucket: name, Key: aws.String("k"), Body: body})
	same(t, errors.Is(err, broken), true)
	uploads, err := client.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: name})
	must(t, err)
	same(t, len(uploads.Uploads), 0)
	same(t, len(keys(t, client, s3.ListObjectsV2Input{Bucket: name})), 0)
}

func TestParts(t *testing.T) {
	client := connect()
	name, key := bucket(t, client), aws.String("k")
	data := content(2*partSize+9, 7)
	parts := [][]byte{data[:partSize], data[partSize : 2*partSize], data[2*partSize:]}
	begun, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: name, Key: key, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32})
	must(t, err)
	upload := func(number int32, body []byte) types.CompletedPart {
		done, err := client.UploadPart(ctx, &s3.UploadPartInput{Bucket: name, Key: key, UploadId: begun.UploadId, PartNumber: &number, Body: bytes.NewReader(body)})
		must(t, err)
		same(t, *done.ETag, etag(body))
		same(t, *done.ChecksumCRC32, crcOf(body))
		return types.CompletedPart{PartNumber: &number, ETag: done.ETag, ChecksumCRC32: done.ChecksumCRC32}
	}
	made := []types.CompletedPart{}
	for n, body := range parts {
		made = append(made, upload(int32(n)+1, body))
	}
	listed := ""
	pages := s3.NewListPartsPaginator(client, &s3.ListPartsInput{Bucket: name, Key: key, UploadId: begun.UploadId, MaxParts: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		must(t, err)
		for _, one := range page.Parts {
			listed += fmt.Sprint(*one.PartNumber, *one.Size, *one.ETag, ";")
		}
	}
	wanted := ""
	for n, body := range parts {
		wanted += fmt.Sprint(n+1, len(body), etag(body), ";")
	}
	same(t, listed, wanted)

	complete := func(noneMatch *string, parts ...types.CompletedPart) (*s3.CompleteMultipartUploadOutput, error) {
		return client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: name, Key: key, UploadId: begun.UploadId, IfNoneMatch: noneMatch,
			MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
		})
	}
	_, err = complete(nil, made[1], made[0])
	refused(t, err, 400, "InvalidPartOrder")
	_, err = complete(nil, made[0], types.CompletedPart{PartNumber: aws.Int32(2), ETag: made[0].ETag})
	refused(t, err, 400, "InvalidPart")
	put(t, client, name, "k", "before")
	_, err = complete(aws.String("*"), made...)
	refused(t, err, 412, "PreconditionFailed")
	holds(t, client, name, "k", []byte("before"))
	done, err := complete(nil, made...)
	must(t, err)
	same(t, *done.ETag, etagOfParts(parts...))
	same(t, *done.ChecksumCRC32, crcOfParts(parts...))
	holds(t, client, name, "k", data)

	second, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: key, PartNumber: aws.Int32(2)})
	must(t, err)
	same(t, *second.PartsCount, 3)
	sameBytes(t, whole(t, second.Body), parts[1])
	read, err := client.GetObjectAttributes(ctx, &s3.GetObjectAttributesInput{
		Bucket: name, Key: key, ObjectAttributes: []types.ObjectAttributes{types.ObjectAttributesEtag, types.ObjectAttributesObjectParts, types.ObjectAttributesObjectSize},
	})
	must(t, err)
	same(t, "\""+*read.ETag+"\"", etagOfParts(parts...))
	same(t, *read.ObjectSize, int64(len(data)))
	same(t, *read.ObjectParts.TotalPartsCount, 3)
	same(t, *read.ObjectParts.Parts[2].Size, 9)
	same(t, *read.ObjectParts.Parts[2].ChecksumCRC32, crcOf(parts[2]))
}

func TestCopiedParts(t *testing.T) {
	client := connect()
	name, key := bucket(t, client), aws.String("k")
	data := content(partSize+11, 8)
	put(t, client, name, "sou rce", string(data))
	begun, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: name, Key: key})
	must(t, err)
	parts := []types.CompletedPart{}
	for n, part := range [][2]int{{0, partSize - 1}, {partSize, partSize + 10}} {
		number := aws.Int32(int32(n) + 1)
		done, err := client.UploadPartCopy(ctx, &s3.UploadPartCopyInput{
			Bucket: name, Key: key, UploadId: begun.UploadId, PartNumber: number,
			CopySource: aws.String(*name + "/sou%20rce"), CopySourceRange: aws.String(fmt.Sprintf("bytes=%d-%d", part[0], part[1])),
		})
		must(t, err)
		same(t, *done.CopyPartResult.ETag, etag(data[part[0]:part[1]+1]))
		parts = append(parts, types.CompletedPart{PartNumber: number, ETag: done.CopyPartResult.ETag})
	}
	_, err = client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: name, Key: key, UploadId: begun.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	must(t, err)
	holds(t, client, name, "k", data)
	_, err = client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: name, Key: key, UploadId: begun.UploadId})
	refused(t, err, 404, "NoSuchUpload")
}
