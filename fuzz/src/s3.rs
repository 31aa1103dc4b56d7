//! Requests to S3: any request as it comes, and signed ones of each operation. The server never answers 500,
//! and never panics.
use crate::Source;
use crate::endpoints::{Endpoints, HOST, Service, TIME, Unsigned, check, on_endpoints};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use md5::{Digest, Md5};

const METHODS: [&str; 6] = ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS"];
const BUCKETS: [&str; 5] = ["bucket", "bucket", "bucket", "other", ""];
const KEYS: [&str; 8] = ["", "", "a", "a", "a/b", "a%2Fb%20c", "%00%01", "%C3%A9"];

/// Parameters in the order of their names, as a signature has them.
const PARAMETERS: &[&str] = &[
    "accelerate",
    "acl",
    "attributes",
    "continuation-token",
    "cors",
    "delete",
    "delimiter",
    "encoding-type",
    "encryption",
    "events",
    "fetch-owner",
    "key-marker",
    "legal-hold",
    "lifecycle",
    "list-type",
    "location",
    "logging",
    "marker",
    "max-keys",
    "max-parts",
    "max-uploads",
    "notification",
    "object-lock",
    "ownershipControls",
    "part-number-marker",
    "partNumber",
    "policy",
    "policyStatus",
    "prefix",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "response-content-type",
    "retention",
    "start-after",
    "tagging",
    "uploadId",
    "upload-id-marker",
    "uploads",
    "versionId",
    "version-id-marker",
    "versioning",
    "versions",
    "website",
    "x-amz-tagging",
];

const VALUES: &[&str] = &[
    "",
    "",
    "",
    "1",
    "2",
    "0",
    "-1",
    "10000",
    "99999999999999999999",
    "url",
    "a",
    "%2F",
    "null",
    "true",
];

const HEADERS: &[&str] = &[
    "accept-encoding",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-md5",
    "content-type",
    "expires",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
    "origin",
    "range",
    "traceparent",
    "x-amz-acl",
    "x-amz-bucket-object-lock-enabled",
    "x-amz-bypass-governance-retention",
    "x-amz-checksum-algorithm",
    "x-amz-checksum-crc32",
    "x-amz-checksum-mode",
    "x-amz-checksum-sha256",
    "x-amz-checksum-type",
    "x-amz-content-sha256",
    "x-amz-copy-source",
    "x-amz-copy-source-if-match",
    "x-amz-copy-source-range",
    "x-amz-decoded-content-length",
    "x-amz-expected-bucket-owner",
    "x-amz-grant-read",
    "x-amz-meta-a",
    "x-amz-metadata-directive",
    "x-amz-mp-object-size",
    "x-amz-object-attributes",
    "x-amz-object-lock-legal-hold",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-object-ownership",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-server-side-encryption-customer-key-md5",
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-tagging-directive",
    "x-amz-trailer",
    "x-amz-website-redirect-location",
];

const OF_HEADERS: &[&str] = &[
    "*",
    "1",
    "0",
    "bytes=0-3",
    "bytes=-1",
    "Fri, 24 May 2013 00:00:00 GMT",
    "\"d41d8cd98f00b204e9800998ecf8427e\"",
    "/bucket/a",
    "bucket/a?versionId=null",
    "COPY",
    "REPLACE",
    "AES256",
    "ON",
    "GOVERNANCE",
    "COMPLIANCE",
    "2030-01-01T00:00:00Z",
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "UNSIGNED-PAYLOAD",
    "aws-chunked",
    "x-amz-checksum-crc32",
    "CRC32",
    "FULL_OBJECT",
    "private",
    "a=b&c=d",
    "ETag,Checksum,ObjectParts,ObjectSize,StorageClass",
    "multipart/form-data; boundary=b",
];

/// Returns one of the usual values, or an invented one that fits where `fits` says so.
fn value(source: &mut Source<'_>, usual: &[&str], fits: fn(char) -> bool) -> String {
    match source.byte() % 4 {
        0 => source.text(40).chars().filter(|c| fits(*c)).collect(),
        _ => (*source.pick(usual)).to_owned(),
    }
}

/// A signed request of any operation.
fn of_any_operation(mut source: Source<'_>) -> Unsigned {
    let method = *source.pick(&METHODS);
    let (bucket, key) = (*source.pick(&BUCKETS), *source.pick(&KEYS));
    let mut parameters: Vec<usize> = (0..source.byte() % 4)
        .map(|_| usize::from(source.byte()) % PARAMETERS.len())
        .collect();
    parameters.sort_unstable();
    parameters.dedup();
    let query: Vec<String> = parameters
        .into_iter()
        .map(|at| {
            let fits = |c: char| c.is_ascii_alphanumeric();
            format!("{}={}", PARAMETERS[at], value(&mut source, VALUES, fits))
        })
        .collect();
    let mut names: Vec<&str> = (0..source.byte() % 5)
        .map(|_| *source.pick(HEADERS))
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut headers: Vec<(String, String)> = names
        .into_iter()
        .map(|name| {
            let given = value(&mut source, OF_HEADERS, |c| (' '..='~').contains(&c));
            (
                name.to_owned(),
                given.split_whitespace().collect::<Vec<_>>().join(" "),
            )
        })
        .collect();
    let body = Bytes::copy_from_slice(source.rest());
    if query.iter().any(|parameter| parameter == "delete=") {
        headers.retain(|(name, _)| name != "content-md5");
        headers.push(("content-md5".into(), STANDARD.encode(Md5::digest(&body))));
    }
    Unsigned {
        service: Service::S3,
        method: method.into(),
        path: if key.is_empty() {
            format!("/{bucket}")
        } else {
            format!("/{bucket}/{key}")
        },
        query: query.join("&"),
        headers,
        body,
    }
}

/// A document that sets or changes something, below the operation that takes it.
fn document(mut source: Source<'_>) -> Unsigned {
    const TAKERS: &[(&str, &str, &str)] = &[
        ("PUT", "/new", ""),
        ("PUT", "/bucket", "acl="),
        ("PUT", "/bucket", "cors="),
        ("PUT", "/bucket", "encryption="),
        ("PUT", "/bucket", "lifecycle="),
        ("PUT", "/bucket", "notification="),
        ("PUT", "/bucket", "object-lock="),
        ("PUT", "/bucket", "ownershipControls="),
        ("PUT", "/bucket", "policy="),
        ("PUT", "/bucket", "publicAccessBlock="),
        ("PUT", "/bucket", "requestPayment="),
        ("PUT", "/bucket", "tagging="),
        ("PUT", "/bucket", "versioning="),
        ("PUT", "/bucket", "website="),
        ("POST", "/bucket", "delete="),
        ("PUT", "/bucket/a", "acl="),
        ("PUT", "/bucket/a", "legal-hold="),
        ("PUT", "/bucket/a", "retention="),
        ("PUT", "/bucket/a", "tagging="),
        ("POST", "/bucket/a", "uploadId=x"),
    ];
    let (method, path, query) = *source.pick(TAKERS);
    let body = Bytes::copy_from_slice(source.rest());
    let md5 = STANDARD.encode(Md5::digest(&body));
    Unsigned {
        service: Service::S3,
        method: method.into(),
        path: path.into(),
        query: query.into(),
        headers: vec![("content-md5".into(), md5)],
        body,
    }
}

/// An upload in chunks.
fn chunks(mut source: Source<'_>) -> Unsigned {
    const KINDS: [&str; 4] = [
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
        "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
    ];
    let kind = *source.pick(&KINDS);
    let length = source.byte() % 32;
    let mut headers = vec![
        ("x-amz-content-sha256".to_owned(), kind.to_owned()),
        (
            "x-amz-decoded-content-length".to_owned(),
            length.to_string(),
        ),
        ("content-encoding".to_owned(), "aws-chunked".to_owned()),
    ];
    if source.flag() {
        headers.push(("x-amz-trailer".into(), "x-amz-checksum-crc32".into()));
    }
    Unsigned {
        service: Service::S3,
        method: "PUT".into(),
        path: "/bucket/chunks".into(),
        query: String::new(),
        headers,
        body: Bytes::copy_from_slice(source.rest()),
    }
}

/// A browser form. Its policy is signed.
fn form(endpoints: &Endpoints, mut source: Source<'_>) -> Option<Request<Full<Bytes>>> {
    let conditions = source.text(120);
    let policy = match source.flag() {
        true => conditions,
        false => format!(
            r#"{{"expiration":"2013-05-24T01:00:00Z","conditions":[{{"bucket":"bucket"}},["starts-with","$key",""],["starts-with","$x-amz-credential",""],["starts-with","$x-amz-date",""],["starts-with","$x-amz-algorithm",""],{conditions}]}}"#
        ),
    };
    let policy = STANDARD.encode(policy);
    let fields = [
        ("key", "a/${filename}".to_owned()),
        ("x-amz-algorithm", "AWS4-HMAC-SHA256".to_owned()),
        ("x-amz-credential", endpoints.credential()),
        ("x-amz-date", TIME.to_owned()),
        ("x-amz-signature", endpoints.signature(Service::S3, &policy)),
        ("policy", policy),
    ];
    let field = |(name, value): &(&str, String)| {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let mut body: Vec<u8> = fields.iter().map(field).collect::<String>().into_bytes();
    body.extend_from_slice(source.rest());
    Request::builder()
        .method("POST")
        .uri("/bucket")
        .header("host", HOST)
        .header("content-type", "multipart/form-data; boundary=b")
        .header("content-length", body.len())
        .body(Full::new(body.into()))
        .ok()
}

/// A request as the input has it: the first line, lines of headers, an empty line, a body.
fn as_it_comes(bytes: &[u8]) -> Option<Request<Full<Bytes>>> {
    let end = bytes.windows(2).position(|two| two == b"\n\n");
    let (head, body) = bytes.split_at(end.unwrap_or(bytes.len()));
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let space = first.iter().position(|byte| *byte == b' ')?;
    let (method, target) = first.split_at(space);
    let mut request = Request::builder().method(method).uri(&target[1..]);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at(colon);
        request = request.header(name, &value[1..]);
    }
    let body = Bytes::copy_from_slice(body.get(2..).unwrap_or_default());
    request.body(Full::new(body)).ok()
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    on_endpoints(async |endpoints| {
        let source = Source::new(rest);
        let reply = match kind {
            b'd' => endpoints.send(document(source)).await,
            b'c' => endpoints.send(chunks(source)).await,
            b'f' => match form(endpoints, source) {
                Some(request) => Some(endpoints.send_as_is(Service::S3, request).await),
                None => None,
            },
            b'r' => match as_it_comes(rest) {
                Some(request) => Some(endpoints.send_as_is(Service::S3, request).await),
                None => None,
            },
            _ => endpoints.send(of_any_operation(source)).await,
        };
        if let Some(reply) = reply {
            check(&reply);
        }
    });
}
