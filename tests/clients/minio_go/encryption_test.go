package minio_go

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/encrypt"
)

// An upload in parts repeats how it is encrypted when it is completed, except to AWS.
func TestEncryptedUpload(t *testing.T) {
	client, ctx := connect(t), context.Background()
	name := bucket(t, client, minio.MakeBucketOptions{})
	content := bytes.Repeat([]byte("0123456789abcdef"), 12<<16)
	for key, size := range map[string]int64{"known": int64(len(content)), "unknown": -1} {
		options := minio.PutObjectOptions{PartSize: 5 << 20, ServerSideEncryption: encrypt.NewSSE()}
		_, err := client.PutObject(ctx, name, key, bytes.NewReader(content), size, options)
		must(t, err)
		object, err := client.GetObject(ctx, name, key, minio.GetObjectOptions{})
		must(t, err)
		stored, err := io.ReadAll(object)
		must(t, err)
		same(t, bytes.Equal(stored, content), true)
		info, err := object.Stat()
		must(t, err)
		same(t, info.Metadata.Get("X-Amz-Server-Side-Encryption"), "AES256")
	}
}
