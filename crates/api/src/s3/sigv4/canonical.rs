//! The canonical request and the string to sign.

use ring::digest;

use super::credential::{Presented, Scope, Source, Timestamp};
use super::{ALGORITHM, SignedParts};
use crate::s3::error::S3Result;
use crate::s3::uri;

/// The spelling of the signed path and query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Candidate {
    /// Every reserved character encoded once, as the documentation demands.
    Encoded,
    /// Exactly as it was sent.
    AsSent,
    /// As it was sent, and that encoded once more: all services but S3.
    Twice,
    /// Encoded once, with parameters of one name in the order in which they were sent: minio-go
    /// signs so when it listens.
    Listening,
}

/// Returns the canonical request. S3 neither normalises the path nor encodes it twice.
pub fn request(
    presented: &Presented,
    request: &SignedParts<'_>,
    payload: &str,
    candidate: Candidate,
) -> S3Result<Vec<u8>> {
    let path = match candidate {
        Candidate::Encoded | Candidate::Listening => {
            uri::encode_path(&uri::decode_path(request.path)?)
        }
        Candidate::AsSent => request.path.to_owned(),
        Candidate::Twice => uri::encode_path(request.path),
    };
    let skip = (presented.source == Source::Query).then_some("X-Amz-Signature");
    let query = match candidate {
        Candidate::Listening => request.query.sorted_by_name(skip),
        _ => request.query.canonical(skip),
    };
    let mut text = format!("{}\n{path}\n{query}\n", request.method).into_bytes();
    for name in &presented.signed_headers {
        push_header(&mut text, name, presented, request);
    }
    let signed = presented.signed_headers.join(";");
    text.extend_from_slice(format!("\n{signed}\n{payload}").as_bytes());
    Ok(text)
}

/// Returns the parameter of a presigned URL that stands for a signed header which is not there: the
/// old SDK for JavaScript signs such a header, and moves it into the query. The query is signed as
/// well.
pub fn in_query<'q>(
    presented: &Presented,
    request: &SignedParts<'q>,
    name: &str,
) -> Option<&'q str> {
    if presented.source != Source::Query
        || !name.starts_with("x-amz-")
        || request.headers.contains_key(name)
    {
        return None;
    }
    let query = request.query.iter();
    let mut values = query.filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let (_, value) = values.next()?;
    values.next().is_none().then_some(value)
}

/// Appends `name:value,value\n` without outer spaces and with inner ones merged. A header that is
/// not there has no value.
fn push_header(text: &mut Vec<u8>, name: &str, presented: &Presented, request: &SignedParts<'_>) {
    text.extend_from_slice(name.as_bytes());
    text.push(b':');
    if name == "host" {
        text.extend_from_slice(request.host.as_bytes());
    } else if let Some(value) = in_query(presented, request, name) {
        push_trimmed(text, value.as_bytes());
    } else {
        let mut values = request.headers.get_all(name).iter().peekable();
        while let Some(value) = values.next() {
            push_trimmed(text, value.as_bytes());
            if values.peek().is_some() {
                text.push(b',');
            }
        }
    }
    text.push(b'\n');
}

fn push_trimmed(text: &mut Vec<u8>, value: &[u8]) {
    let words = value
        .split(|b| *b == b' ' || *b == b'\t')
        .filter(|word| !word.is_empty());
    for (n, word) in words.enumerate() {
        if n > 0 {
            text.push(b' ');
        }
        text.extend_from_slice(word);
    }
}

/// Returns the string to sign of a request.
pub fn string_to_sign(timestamp: &Timestamp, scope: &Scope, canonical: &[u8]) -> String {
    let hash = hex::encode(digest::digest(&digest::SHA256, canonical));
    let (time, scope) = (&timestamp.text, scope.signed_text());
    format!("{ALGORITHM}\n{time}\n{scope}\n{hash}")
}
