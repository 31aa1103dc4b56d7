use super::client::{Endpoint, NOW_MS};

fn rules(rules: &[&str]) -> String {
    let rules: String = rules
        .iter()
        .map(|rule| format!("<Rule>{rule}<Status>Enabled</Status></Rule>"))
        .collect();
    format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>")
}

#[tokio::test]
async fn configuration_is_kept_told_and_removed() {
    let s3 = Endpoint::open().await;
    let path = "/bucket?lifecycle";
    s3.get(path).await.is(404, "NoSuchLifecycleConfiguration");
    let body = rules(&["<Filter/><Expiration><Days>1</Days></Expiration>"]);
    let header = "x-amz-transition-default-minimum-object-size";
    let varies = [(header, "varies_by_storage_class")];
    let put = s3.call("PUT", path, &varies, body.clone()).await.ok();
    assert_eq!(put.header(header), "varies_by_storage_class");
    let got = s3.get(path).await.ok();
    assert_eq!(got.header(header), "varies_by_storage_class");
    assert_eq!(got.element("Days").unwrap(), "1");
    assert_eq!(got.element("ID").unwrap().len(), 32, "a rule gets a name");

    let transition =
        "<Filter/><Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>";
    s3.put(path, rules(&[transition]))
        .await
        .is(501, "NotImplemented");
    let none = "<Filter/><Expiration><Days>0</Days></Expiration>";
    s3.put(path, rules(&[none]))
        .await
        .is(400, "InvalidArgument");
    let unknown = [(header, "none")];
    let refused = s3.call("PUT", path, &unknown, body.clone()).await;
    refused.is(400, "InvalidArgument");
    let huge = format!("<Filter><Prefix>{}</Prefix></Filter>", "p".repeat(1000));
    let huge = huge + "<Expiration><Days>1</Days></Expiration>";
    let huge = rules(&vec![huge.as_str(); 300]);
    s3.put(path, huge).await.is(400, "MaxMessageLengthExceeded");
    assert_eq!(s3.get(path).await.ok().text(), got.text());

    let put = s3.put(path, body).await.ok();
    assert_eq!(put.header(header), "all_storage_classes_128K");
    assert_eq!(s3.call("DELETE", path, &[], "").await.status, 204);
    s3.get(path).await.is(404, "NoSuchLifecycleConfiguration");
    assert_eq!(s3.call("DELETE", path, &[], "").await.status, 204);
}

/// Returns the date that a header tells, and the rest of the header.
fn date_of(header: &str) -> (u64, String) {
    let (_, rest) = header.split_once("expiry-date=\"").unwrap();
    let (date, rest) = rest.split_once('"').unwrap();
    let since = httpdate::parse_http_date(date).unwrap();
    let since = since.duration_since(std::time::UNIX_EPOCH).unwrap();
    (since.as_millis() as u64, rest.to_owned())
}

#[tokio::test]
async fn expiration_is_told_where_an_object_is_written_or_read() {
    let s3 = Endpoint::open().await;
    let tagged = "<ID>tagged</ID><Filter><Tag><Key>a</Key><Value>1</Value></Tag></Filter>\
                  <Expiration><Days>2</Days></Expiration>";
    let dated = "<ID>by date</ID><Filter><Prefix>d/</Prefix></Filter>\
                 <Expiration><Date>2100-01-01T00:00:00Z</Date></Expiration>";
    let aborted = "<ID>up&amp;loads</ID><Filter><Prefix>t</Prefix></Filter>\
                   <AbortIncompleteMultipartUpload><DaysAfterInitiation>3</DaysAfterInitiation>\
                   </AbortIncompleteMultipartUpload>";
    s3.put("/bucket?lifecycle", rules(&[tagged, dated, aborted]))
        .await
        .ok();
    let name = "x-amz-expiration";
    let tags = [("x-amz-tagging", "a=1")];
    let put = s3.call("PUT", "/bucket/t", &tags, "x").await.ok();
    let told = put.header(name);
    let (at_ms, rest) = date_of(told);
    assert_eq!(rest, ", rule-id=\"tagged\"");
    let now_ms = s3.model.cluster().now_ms();
    let day = 24 * 3600 * 1000;
    assert!(at_ms % day == 0 && at_ms > now_ms + day && at_ms <= now_ms + 3 * day);
    assert!(NOW_MS < now_ms, "the model's clock is not the endpoint's");
    for method in ["GET", "HEAD"] {
        let got = s3.call(method, "/bucket/t", &[], "").await.ok();
        assert_eq!(got.header(name), told);
    }
    let dated = s3.put("/bucket/d/x", "x").await.ok();
    let expected = "expiry-date=\"Fri, 01 Jan 2100 00:00:00 GMT\", rule-id=\"by%20date\"";
    assert_eq!(dated.header(name), expected);
    assert_eq!(s3.put("/bucket/other", "x").await.ok().header(name), "");
    let source = [("x-amz-copy-source", "bucket/t")];
    let copied = s3.call("PUT", "/bucket/d/t", &source, "").await.ok();
    assert_eq!(date_of(copied.header(name)).1, ", rule-id=\"tagged\"");

    let begun = s3.call("POST", "/bucket/t?uploads", &tags, "").await.ok();
    assert_eq!(begun.header("x-amz-abort-rule-id"), "up%26loads");
    let id = begun.element("UploadId").unwrap();
    let path = format!("/bucket/t?uploadId={id}");
    let listed = s3.get(&path).await.ok();
    let abort = "x-amz-abort-date";
    assert_eq!(listed.header(abort), begun.header(abort));
    let part = s3.put(&format!("{path}&partNumber=1"), "x").await.ok();
    let body = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part>\
         </CompleteMultipartUpload>",
        part.header("etag")
    );
    for _ in 0..2 {
        let done = s3.call("POST", &path, &[], body.clone()).await.ok();
        assert_eq!(date_of(done.header(name)).1, ", rule-id=\"tagged\"");
    }
    let begun = s3.call("POST", "/bucket/z?uploads", &[], "").await.ok();
    assert_eq!(begun.header(abort), "");
}
