package aws_sdk_go

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

func TestPresigned(t *testing.T) {
	client := connect()
	name, key := bucket(t, client), aws.String("a b/ü")
	signer := s3.NewPresignClient(client, s3.WithPresignExpires(time.Minute))
	data := content(mib, 9)
	signed, err := signer.PresignPutObject(ctx, &s3.PutObjectInput{Bucket: name, Key: key, ContentType: aws.String("text/x"), ContentLength: aws.Int64(mib)})
	must(t, err)
	for _, wrong := range []struct {
		kind string
		body []byte
	}{{"text/y", data}, {"text/x", data[1:]}} {
		header := signed.SignedHeader.Clone()
		header.Set("Content-Type", wrong.kind)
		answer, body := send(t, signed.Method, signed.URL, header, wrong.body)
		same(t, answer.StatusCode, 403)
		same(t, strings.Contains(string(body), "<Code>SignatureDoesNotMatch</Code>"), true)
	}
	answer, _ := send(t, signed.Method, signed.URL, signed.SignedHeader, data)
	same(t, answer.StatusCode, 200)
	same(t, answer.Header.Get("ETag"), etag(data))
	holds(t, client, name, *key, data)

	signed, err = signer.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: name, Key: key, ResponseContentType: aws.String("text/z")})
	must(t, err)
	answer, body := send(t, signed.Method, signed.URL, signed.SignedHeader, nil)
	same(t, answer.Header.Get("Content-Type"), "text/z")
	sameBytes(t, body, data)
	answer, body = send(t, signed.Method, signed.URL, http.Header{"Range": {"bytes=5-9"}}, nil)
	same(t, answer.StatusCode, 206)
	sameBytes(t, body, data[5:10])
	answer, body = send(t, signed.Method, strings.Replace(signed.URL, "X-Amz-Signature=", "X-Amz-Signature=0", 1), nil, nil)
	same(t, answer.StatusCode, 403)
	same(t, strings.Contains(string(body), "<Code>SignatureDoesNotMatch</Code>"), true)

	signed, err = signer.PresignHeadObject(ctx, &s3.HeadObjectInput{Bucket: name, Key: key})
	must(t, err)
	answer, _ = send(t, signed.Method, signed.URL, signed.SignedHeader, nil)
	same(t, answer.ContentLength, mib)
	signed, err = signer.PresignDeleteObject(ctx, &s3.DeleteObjectInput{Bucket: name, Key: key})
	must(t, err)
	answer, _ = send(t, signed.Method, signed.URL, signed.SignedHeader, nil)
	same(t, answer.StatusCode, 204)
	same(t, len(keys(t, client, s3.ListObjectsV2Input{Bucket: name})), 0)
}

func TestForm(t *testing.T) {
	client := connect()
	name := bucket(t, client)
	form, err := s3.NewPresignClient(client).PresignPostObject(ctx, &s3.PutObjectInput{Bucket: name, Key: aws.String("in/ü")}, func(o *s3.PresignPostOptions) {
		o.Expires = time.Minute
		o.Conditions = []any{[]any{"content-length-range", 1, 100}, []any{"starts-with", "$x-amz-meta-a", "1"}}
	})
	must(t, err)
	post := func(key, value, content string) *http.Response {
		var body bytes.Buffer
		fields := multipart.NewWriter(&body)
		for name, value := range form.Values {
			if name == "key" && key != "" {
				value = key
			}
			must(t, fields.WriteField(name, value))
		}
		must(t, fields.WriteField("x-amz-meta-a", value))
		file, err := fields.CreateFormFile("file", "name")
		must(t, err)
		_, err = file.Write([]byte(content))
		must(t, err)
		must(t, fields.Close())
		answer, _ := send(t, http.MethodPost, form.URL, http.Header{"Content-Type": {fields.FormDataContentType()}}, body.Bytes())
		return answer
	}
	same(t, post("", "12", "by a form").StatusCode, 204)
	holds(t, client, name, "in/ü", []byte("by a form"))
	head, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: name, Key: aws.String("in/ü")})
	must(t, err)
	same(t, head.Metadata["a"], "12")
	same(t, post("out", "12", "x").StatusCode, 403)
	same(t, post("", "2", "x").StatusCode, 403)
	same(t, post("", "12", strings.Repeat("x", 101)).StatusCode, 400)
	alike(t, keys(t, client, s3.ListObjectsV2Input{Bucket: name}), []string{"in/ü"})
}
