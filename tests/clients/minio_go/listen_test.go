package minio_go

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/notification"
)

// The client begins to listen at an unknown time, so objects are put until it hears of one.
func TestListen(t *testing.T) {
	client := connect(t)
	name := bucket(t, client, minio.MakeBucketOptions{})
	for _, every := range []bool{false, true} {
		ctx, end := context.WithTimeout(context.Background(), time.Minute)
		events := []string{string(notification.ObjectCreatedAll), string(notification.ObjectAccessedAll)}
		var heard <-chan notification.Info
		if every {
			heard = client.ListenNotification(ctx, "photos/", ".jpg", events)
		} else {
			heard = client.ListenBucketNotification(ctx, name, "photos/", ".jpg", events)
		}
		ticks := time.NewTicker(100 * time.Millisecond)
		for is_heard := false; !is_heard; {
			select {
			case info, open := <-heard:
				if !open || info.Err != nil {
					t.Fatalf("%v: %v", open, info.Err)
				}
				record := info.Records[0]
				same(t, record.EventName, "s3:ObjectCreated:Put")
				same(t, record.S3.Bucket.Name, name)
				same(t, record.S3.Object.Size, 2)
				same(t, strings.HasPrefix(record.S3.Object.Key, "photos%2F"), true)
				is_heard = true
			case <-ticks.C:
				put(t, client, name, "photos/ü.jpg", "12", minio.PutObjectOptions{})
			}
		}
		ticks.Stop()
		end()
	}
}
