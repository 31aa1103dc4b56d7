use bytes::Bytes;
use md5::{Digest, Md5};

use super::client::{Endpoint, Reply};

const MIB: usize = 1 << 20;

async fn begin(s3: &Endpoint, headers: &[(&str, &str)]) -> String {
    let reply = s3.call("POST", "/bucket/k?uploads", headers, "").await.ok();
    reply.element("UploadId").unwrap()
}

async fn part(s3: &Endpoint, upload: &str, number: usize, body: Bytes) -> String {
    let path = format!("/bucket/k?partNumber={number}&uploadId={upload}");
    let reply = s3.put(&path, body).await.ok();
    reply.header("etag").to_owned()
}

async fn complete(s3: &Endpoint, upload: &str, parts: &[(usize, &str)]) -> Reply {
    let part = |(number, etag): &(usize, &str)| {
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
    };
    let parts: String = parts.iter().map(part).collect();
    let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
    s3.call("POST", &format!("/bucket/k?uploadId={upload}"), &[], body)
        .await
}

#[tokio::test]
async fn multipart_upload_completes() {
    let s3 = Endpoint::open().await;
    let upload = begin(&s3, &[("content-type", "text/x")]).await;
    let (one, two) = (Bytes::from(vec![1; 5 * MIB]), Bytes::from(vec![2; 10]));
    let first = part(&s3, &upload, 1, one.clone()).await;
    let second = part(&s3, &upload, 7, two.clone()).await;
    let listed = s3.get(&format!("/bucket/k?uploadId={upload}")).await.ok();
    assert_eq!(listed.text().matches("<Part>").count(), 2);
    let done = complete(&s3, &upload, &[(1, &first), (7, &second)])
        .await
        .ok();
    let md5s = [Md5::digest(&one), Md5::digest(&two)].concat();
    let etag = format!("\"{}-2\"", hex::encode(Md5::digest(md5s)));
    assert_eq!(done.element("ETag").unwrap(), etag);
    let whole = [one, two.clone()].concat();
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &whole).to_be_bytes();
    let crc = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, crc);
    assert_eq!(done.element("ChecksumCRC64NVME").unwrap(), crc);
    let got = s3.get("/bucket/k").await.ok();
    assert_eq!(
        (got.body, got.headers["content-type"].to_str().unwrap()),
        (whole.into(), "text/x")
    );
    let last = s3.get("/bucket/k?partNumber=2").await.ok();
    assert_eq!(
        (last.body.clone(), last.header("x-amz-mp-parts-count")),
        (two, "2")
    );
    // The client did not hear of it and asks again.
    let again = complete(&s3, &upload, &[(1, &first), (7, &second)])
        .await
        .ok();
    assert_eq!(again.element("ETag").unwrap(), etag);
    let other = complete(&s3, &upload, &[(1, &first)]).await;
    other.is(404, "NoSuchUpload");
}

/// A header about the whole object is neither passed over nor misread.
#[tokio::test]
async fn a_completion_whose_checksum_cannot_be_compared_is_refused() {
    let s3 = Endpoint::open().await;
    let upload = begin(&s3, &[]).await;
    let etag = part(&s3, &upload, 1, "content".into()).await;
    let body = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
         </CompleteMultipartUpload>"
    );
    let path = format!("/bucket/k?uploadId={upload}");
    let crc = "x-amz-checksum-crc64nvme";
    let zero = (crc, "AAAAAAAAAAA=");
    for (headers, code, why) in [
        (&[zero][..], "BadDigest", "The CRC64NVME you specified"),
        (&[(crc, "AAAA")], "InvalidRequest", crc),
        (
            &[("x-amz-checksum-foo", "AAAA")],
            "InvalidRequest",
            "algorithm",
        ),
        (
            &[zero, ("x-amz-checksum-crc32", "AAAAAA==")],
            "InvalidRequest",
            "single",
        ),
    ] {
        let refused = s3.call("POST", &path, headers, body.clone()).await;
        refused.is(400, code);
        let told = refused.element("Message").unwrap();
        assert!(told.contains(why), "{told}");
    }
    s3.call("POST", &path, &[], body).await.ok();
}

#[tokio::test]
async fn wrong_completions_are_refused() {
    let s3 = Endpoint::open().await;
    let upload = begin(&s3, &[]).await;
    let one = part(&s3, &upload, 1, "small".into()).await;
    let two = part(&s3, &upload, 2, "other".into()).await;
    complete(&s3, &upload, &[(1, &one), (2, &two)])
        .await
        .is(400, "EntityTooSmall");
    complete(&s3, &upload, &[(2, &two), (1, &one)])
        .await
        .is(400, "InvalidPartOrder");
    complete(&s3, &upload, &[(1, &two)])
        .await
        .is(400, "InvalidPart");
    complete(&s3, &upload, &[(3, &two)])
        .await
        .is(400, "InvalidPart");
    complete(&s3, &upload, &[]).await.is(400, "MalformedXML");
    complete(&s3, "none", &[(1, &one)])
        .await
        .is(404, "NoSuchUpload");
    complete(&s3, &upload, &[(2, &two)]).await.ok();
    assert_eq!(s3.get("/bucket/k").await.text(), "other");
}

/// A part was sent through a node whose clock is ahead, and again through another node: the one
/// that was sent last is listed. The client may mean either of them, and says which.
#[tokio::test]
async fn the_tag_chooses_among_parts_that_clocks_put_in_the_wrong_order() {
    let (ahead, behind) = Endpoint::two_of_one_store().await;
    for meant in ["second", "first"] {
        let upload = begin(&behind, &[]).await;
        let first = part(&ahead, &upload, 1, "first".into()).await;
        let second = part(&behind, &upload, 1, "second".into()).await;
        let listed = behind.get(&format!("/bucket/k?uploadId={upload}")).await;
        let lists = |tag: &str| listed.text().contains(tag.trim_matches('"'));
        assert_eq!((lists(&first), lists(&second)), (false, true), "{listed:?}");
        complete(&behind, &upload, &[(1, "00000000000000000000000000000000")])
            .await
            .is(400, "InvalidPart");
        let tag = match meant {
            "first" => first,
            _ => second,
        };
        complete(&behind, &upload, &[(1, &tag)]).await.ok();
        assert_eq!(behind.get("/bucket/k").await.text(), meant);
    }
}

#[tokio::test]
async fn a_size_is_that_of_the_part_that_the_tag_chose() {
    let s3 = Endpoint::open().await;
    let upload = begin(&s3, &[]).await;
    let large = part(&s3, &upload, 1, Bytes::from(vec![1; 5 * MIB])).await;
    let small = part(&s3, &upload, 1, "small".into()).await;
    let last = part(&s3, &upload, 2, "last".into()).await;
    complete(&s3, &upload, &[(1, &small), (2, &last)])
        .await
        .is(400, "EntityTooSmall");
    complete(&s3, &upload, &[(1, &large), (2, &last)])
        .await
        .ok();
    assert_eq!(s3.get("/bucket/k").await.body.len(), 5 * MIB + 4);
}

#[tokio::test]
async fn composite_checksums() {
    let s3 = Endpoint::open().await;
    let upload = begin(&s3, &[("x-amz-checksum-algorithm", "SHA256")]).await;
    let path = format!("/bucket/k?partNumber=1&uploadId={upload}");
    let crc = [("x-amz-checksum-crc32", "AAAAAA==")];
    s3.call("PUT", &path, &crc, "")
        .await
        .is(400, "InvalidRequest");
    let one = part(&s3, &upload, 1, "content".into()).await;
    let done = complete(&s3, &upload, &[(1, &one)]).await.ok();
    assert!(done.element("ChecksumSHA256").unwrap().ends_with("=-1"));
    assert_eq!(done.element("ChecksumType").unwrap(), "COMPOSITE");
}

#[tokio::test]
async fn part_from_a_range() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/source", "0123456789").await.ok();
    let upload = begin(&s3, &[]).await;
    let path = format!("/bucket/k?partNumber=1&uploadId={upload}");
    let copy = |range| {
        [
            ("x-amz-copy-source", "/bucket/source"),
            ("x-amz-copy-source-range", range),
        ]
    };
    s3.call("PUT", &path, &copy("bytes=5-10"), "")
        .await
        .is(400, "InvalidArgument");
    let reply = s3.call("PUT", &path, &copy("bytes=5-9"), "").await.ok();
    complete(&s3, &upload, &[(1, &reply.element("ETag").unwrap())])
        .await
        .ok();
    assert_eq!(s3.get("/bucket/k").await.text(), "56789");
}

/// A checksum that nothing can be compared with is not taken for right, and parts that make a
/// composite checksum are numbered without gaps.
#[tokio::test]
async fn checksums_of_parts_are_those_of_the_upload() {
    let s3 = Endpoint::open().await;
    let id = begin(&s3, &[("x-amz-checksum-algorithm", "SHA256")]).await;
    let etag = part(&s3, &id, 2, Bytes::from_static(b"x")).await;
    let gap = complete(&s3, &id, &[(2, &etag)]).await;
    gap.is(400, "InvalidPartOrder");
    let etag = part(&s3, &id, 1, Bytes::from_static(b"x")).await;
    let document = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag>\
         <ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part></CompleteMultipartUpload>"
    );
    let path = format!("/bucket/k?uploadId={id}");
    s3.call("POST", &path, &[], document)
        .await
        .is(400, "InvalidPart");
    complete(&s3, &id, &[(1, &etag)]).await.ok();
}

/// As on AWS, parts have checksums of their own where these make the object's, and nowhere else.
#[tokio::test]
async fn checksums_of_parts_are_told_for_composite_ones_only() {
    let s3 = Endpoint::open().await;
    let attributes = [("x-amz-object-attributes", "Checksum,ObjectParts")];
    let algorithm = ("x-amz-checksum-algorithm", "CRC32");
    let ask = async |path: &'static str| {
        let asked = [("x-amz-checksum-mode", "ENABLED")];
        let reply = s3.call("GET", path, &asked, "").await.ok();
        let header = |name: &str| reply.header(name).to_owned();
        (
            header("x-amz-checksum-crc32"),
            header("x-amz-checksum-type"),
        )
    };
    for chosen in [
        &[algorithm, ("x-amz-checksum-type", "COMPOSITE")][..],
        &[algorithm, ("x-amz-checksum-type", "FULL_OBJECT")],
        &[],
    ] {
        let upload = begin(&s3, chosen).await;
        let one = part(&s3, &upload, 1, Bytes::from(vec![1; 5 * MIB])).await;
        let two = part(&s3, &upload, 2, "last".into()).await;
        complete(&s3, &upload, &[(1, &one), (2, &two)]).await.ok();
        let told = s3
            .call("GET", "/bucket/k?attributes", &attributes, "")
            .await
            .ok();
        let is_composite = told.element("ChecksumType").unwrap() == "COMPOSITE";
        assert_eq!(
            is_composite,
            chosen.contains(&("x-amz-checksum-type", "COMPOSITE"))
        );
        assert_eq!(told.element("PartsCount").unwrap(), "2");
        let shown = if is_composite { 2 } else { 0 };
        assert_eq!(told.text().matches("<Part>").count(), shown, "{chosen:?}");
        assert_eq!(told.element("MaxParts").is_some(), is_composite);
        assert_eq!(told.element("IsTruncated").is_some(), is_composite);
        let (whole, _) = ask("/bucket/k").await;
        if !chosen.is_empty() {
            // Only the attributes leave out the number of parts.
            let plain = told.element("ChecksumCRC32").unwrap();
            let suffix = if is_composite { "-2" } else { "" };
            assert_eq!(whole, format!("{plain}{suffix}"));
        }
        let (part, kind) = ask("/bucket/k?partNumber=2").await;
        assert_eq!(!part.is_empty(), is_composite);
        assert_eq!(kind, if is_composite { "COMPOSITE" } else { "" });
    }
    // A part that is the whole object has the object's.
    let upload = begin(&s3, &[algorithm, ("x-amz-checksum-type", "FULL_OBJECT")]).await;
    let one = part(&s3, &upload, 1, "all".into()).await;
    complete(&s3, &upload, &[(1, &one)]).await.ok();
    let whole = ask("/bucket/k").await;
    assert_eq!(whole.1, "FULL_OBJECT");
    assert_eq!(ask("/bucket/k?partNumber=1").await, whole);
}
