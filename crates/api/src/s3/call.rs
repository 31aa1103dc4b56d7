//! One request, as handlers see it.

use archipel_base::clock::WallClock;
use archipel_model::{Bucket, Model};
use bytes::Bytes;
use http::HeaderMap;
use http::header;

use super::body::RequestBody;
use super::checksum::{Algorithm, Declared, Expected, HashPipe, content_md5};
use super::chunked::Decoder;
use super::error::{Code, S3Error, S3Result};
use super::sigv4::{Payload, Verified};
use super::target::Target;

/// One request, and what handling it takes.
pub struct Call<'a> {
    /// The product.
    pub model: &'a Model,
    /// The time.
    pub clock: &'a dyn WallClock,
    /// The region's name.
    pub region: &'a str,
    /// What is addressed.
    pub target: &'a Target,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The body.
    pub body: RequestBody,
    /// What the signature says of the body.
    payload: Payload,
    /// How long the content is, if it was told.
    length: Option<u64>,
}

impl<'a> Call<'a> {
    /// A request whose body is not (yet) covered by a signature.
    pub fn new(
        model: &'a Model,
        clock: &'a dyn WallClock,
        region: &'a str,
        target: &'a Target,
        headers: &'a HeaderMap,
        body: RequestBody,
    ) -> Call<'a> {
        Call {
            model,
            clock,
            region,
            target,
            headers,
            body,
            payload: Payload::Unsigned,
            length: number(headers, header::CONTENT_LENGTH.as_str())
                .ok()
                .flatten(),
        }
    }

    /// Lets the body be decoded and checked as the signature wants it.
    ///
    /// # Errors
    /// [`Code::MissingContentLength`] for a chunked body that does not tell its length.
    pub fn set_payload(&mut self, verified: &Verified) -> S3Result<()> {
        self.payload = verified.payload;
        if let Payload::Chunked { signed, trailer } = verified.payload {
            let length = number(self.headers, "x-amz-decoded-content-length")?
                .ok_or(Code::MissingContentLength)?;
            self.length = Some(length);
            let signer = signed.then(|| verified.chunks.clone());
            self.body.decode(Decoder::new(signer, trailer, length));
        }
        Ok(())
    }

    /// How long the content is.
    ///
    /// # Errors
    /// [`Code::MissingContentLength`].
    pub fn content_length(&self) -> S3Result<u64> {
        self.length.ok_or(Code::MissingContentLength.into())
    }

    /// What the body must agree with.
    ///
    /// # Errors
    /// As [`Expected::of`].
    pub fn expected(&self) -> S3Result<Expected> {
        let trailer = matches!(self.payload, Payload::Chunked { trailer: true, .. });
        Expected::of(self.headers, self.signed_sha256(), trailer)
    }

    /// The whole body, checked: a document.
    ///
    /// # Errors
    /// [`Code::MissingRequestBodyError`] if it is empty, [`Code::MaxMessageLengthExceeded`], and
    /// what the checks give.
    pub async fn document(&mut self, limit: usize) -> S3Result<Bytes> {
        let document = self.optional_document(limit).await?;
        match document.is_empty() {
            true => Err(Code::MissingRequestBodyError.into()),
            false => Ok(document),
        }
    }

    /// As [`document`](Call::document), but it may be empty.
    ///
    /// # Errors
    /// See there.
    pub async fn optional_document(&mut self, limit: usize) -> S3Result<Bytes> {
        let expected = self.expected()?;
        self.checked(limit, expected).await
    }

    /// As [`document`](Call::document), where checksum headers speak of something else: of the
    /// object that an upload becomes.
    ///
    /// # Errors
    /// See there.
    pub async fn completion_document(&mut self, limit: usize) -> S3Result<Bytes> {
        let expected = Expected {
            md5: content_md5(self.headers)?,
            sha256: self.signed_sha256(),
            declared: Declared::Nothing,
        };
        let document = self.checked(limit, expected).await?;
        match document.is_empty() {
            true => Err(Code::MalformedXML.into()),
            false => Ok(document),
        }
    }

    async fn checked(&mut self, limit: usize, expected: Expected) -> S3Result<Bytes> {
        // What is announced as too large is not collected first.
        if self.length.is_some_and(|length| length > limit as u64) {
            return Err(Code::MaxMessageLengthExceeded.into());
        }
        let document = self.body.collect(limit).await?;
        let mut hashes = HashPipe::new(expected.wanted(Algorithm::Crc64Nvme));
        hashes.update(document.clone()).await?;
        expected.check(&hashes.finish().await?, self.body.trailers())?;
        Ok(document)
    }

    fn signed_sha256(&self) -> Option<[u8; 32]> {
        match self.payload {
            Payload::Sha256(sha256) => Some(sha256),
            _ => None,
        }
    }

    /// A header's text, if it is there.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] if it is repeated or not ASCII.
    pub fn header(&self, name: &str) -> S3Result<Option<&str>> {
        single_header(self.headers, name)
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_millis()
    }

    /// Checks `versionId`: buckets have no versions, so that only `null` is one.
    ///
    /// # Errors
    /// [`Code::NoSuchVersion`].
    pub fn check_version(&self) -> S3Result<()> {
        check_version(self.target.query.single("versionId")?)
    }

    /// Checks `x-amz-expected-bucket-owner` (or that of a copy's source): an owner's access key.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub fn check_owner(&self, header: &str, bucket: &Bucket) -> S3Result<()> {
        match self.header(header)? {
            Some(id) if !bucket.permissions(id).owner => Err(Code::AccessDenied.into()),
            _ => Ok(()),
        }
    }
}

/// Checks a version: only `null` exists.
///
/// # Errors
/// [`Code::NoSuchVersion`], [`Code::InvalidArgument`] for an empty one.
pub fn check_version(version: Option<&str>) -> S3Result<()> {
    match version {
        None | Some("null") => Ok(()),
        Some("") => {
            let why = "Version id cannot be the empty string";
            Err(S3Error::argument("versionId", "", why))
        }
        Some(version) => Err(S3Error::from(Code::NoSuchVersion).with("VersionId", version)),
    }
}

/// A header's text, if it is there.
///
/// # Errors
/// [`Code::InvalidArgument`] if it is repeated or not ASCII.
pub fn single_header<'h>(headers: &'h HeaderMap, name: &str) -> S3Result<Option<&'h str>> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| value.to_str());
    match (first, values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(text)), None) => Ok(Some(text.trim())),
        _ => Err(S3Error::argument(
            name,
            "",
            "The header is repeated or not ASCII.",
        )),
    }
}

fn number(headers: &HeaderMap, name: &str) -> S3Result<Option<u64>> {
    let Some(text) = single_header(headers, name)? else {
        return Ok(None);
    };
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(number) if plain => Ok(Some(number)),
        _ => Err(S3Error::argument(name, text, "The header is not a number.")),
    }
}
