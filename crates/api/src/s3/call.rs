//! One request, as handlers see it.

use std::net::IpAddr;
use std::sync::Arc;

use archipel_base::clock::WallClock;
use archipel_model::{GivenVersion, Model, NotAnId, ObjectLock, Tags, UploadMeta};
use bytes::Bytes;
use http::HeaderMap;
use http::header;
use http::request::Parts;
use ring::digest;

use super::auth::Caller;
use super::body::RequestBody;
use super::checksum::{Algorithm, Declared, Expected, HashPipe, content_md5, wrong_sha256};
use super::chunked::Decoder;
use super::endpoint::Learned;
use super::error::{Code, S3Error, S3Result};
use super::signer::{self, Signer};
use super::sigv4::{ChunkSigner, Lookup, Payload, SignedParts, Verifier};
use super::target::Target;
use super::{signed, uri};
use crate::serve::Rates;

/// The largest body of an operation that reads none. S3 ignores such a body.
const MAX_UNREAD_BYTES: usize = 64 << 10;

/// One request, with all that its handler needs.
pub struct Call<'a> {
    /// The product.
    pub model: &'a Model,
    /// The time.
    pub clock: &'a Arc<dyn WallClock>,
    /// The region's name.
    pub region: &'a str,
    /// The addressed bucket and key.
    pub target: &'a Target,
    /// The headers, with those that the query carries.
    pub headers: &'a HeaderMap,
    /// The body.
    pub body: RequestBody,
    /// The client's address, if it is known.
    pub peer: Option<IpAddr>,
    /// Requests a second of clients.
    pub rates: Rates,
    /// The facts for logs and counters.
    pub learned: &'a mut Learned,
    /// The tags that the request gives in its body, once they are known.
    pub tags: Option<Tags>,
    /// The metadata of the upload that the request goes on with, once it is known.
    pub begun: Option<UploadMeta>,
    /// The protection that the request asks for in its body, once it is known.
    pub asked_lock: Option<ObjectLock>,
    /// The fields of a form, as headers: they describe the object.
    pub form: Option<HeaderMap>,
    /// `s3:ObjectCreationOperation`: true for a request that makes an object, false for one that
    /// prepares it, `None` for all others.
    pub creates: Option<bool>,
    /// True if customers may give keys over plain HTTP.
    pub plain_keys: bool,
    /// `https` if the request came over TLS, else `http`.
    pub scheme: &'static str,
    /// The body's hash or encoding, as it was signed.
    payload: Payload,
    /// The content's length, if the request declares it.
    length: Option<u64>,
}

impl<'a> Call<'a> {
    /// Makes a request whose body is not (yet) covered by a signature.
    pub fn new(
        model: &'a Model,
        clock: &'a Arc<dyn WallClock>,
        region: &'a str,
        target: &'a Target,
        headers: &'a HeaderMap,
        body: RequestBody,
        learned: &'a mut Learned,
    ) -> Call<'a> {
        Call {
            model,
            clock,
            region,
            target,
            headers,
            body,
            peer: None,
            rates: Rates::default(),
            learned,
            tags: None,
            begun: None,
            asked_lock: None,
            form: None,
            creates: None,
            plain_keys: false,
            scheme: "http",
            payload: Payload::Unsigned,
            length: number(headers, header::CONTENT_LENGTH.as_str())
                .ok()
                .flatten(),
        }
    }

    /// Verifies the signature, and finds out for whom its key acts. Returns `None` for a request
    /// without a signature. `version_2` says whether that version counts.
    ///
    /// # Errors
    /// Those of [`signed::verify`] and of [`Caller::verified`].
    pub async fn identify(
        &mut self,
        parts: &Parts,
        verifier: &Verifier,
        version_2: bool,
    ) -> S3Result<Option<(Caller, Signer)>> {
        let (target, now_ms) = (self.target, self.now_ms());
        let verify = |signed: &SignedParts<'_>, lookup: Lookup<'_>| {
            signer::verify(verifier, version_2, signed, target, now_ms, lookup)
        };
        let signer = signed::verify(self.model, &self.rates, parts, target, verify).await?;
        let Some(signer) = signer else {
            return Ok(None);
        };
        self.learned.who = Some(signer.key.id.clone());
        let (key, credential) = (&signer.key, signer.credential);
        let caller = Caller::verified(self.model, &self.rates, key, credential).await?;
        self.name(&caller);
        Ok(Some((caller, signer)))
    }

    /// Goes on with a request whose signer is known: sets how the body is checked, and looks for a
    /// bucket that this node does not know yet.
    ///
    /// # Errors
    /// Those of [`Call::set_payload`], and those of reading the bucket.
    pub async fn accept(&mut self, signer: &Signer) -> S3Result<()> {
        self.set_payload(signer.payload, signer.chunks.as_ref())?;
        if let Some(name) = self.target.bucket.as_deref() {
            self.model.find_bucket_of_key(&signer.key, name).await?;
        }
        Ok(())
    }

    /// Takes down who the client is, for the audit log and for events.
    pub fn name(&mut self, caller: &Caller) {
        self.learned.name(caller);
        if let Some(user) = &self.learned.user {
            self.model.acts_for(user);
        }
    }

    /// Returns true if the client may give a key: nobody can have read it on its way.
    pub fn may_give_keys(&self) -> bool {
        let is_here = self
            .peer
            .is_some_and(|peer| peer.to_canonical().is_loopback());
        self.scheme == "https" || is_here || self.plain_keys
    }

    /// Returns the address of an object in the bucket of the request, as the client writes
    /// addresses.
    pub fn location(&self, bucket: &str, key: &str) -> String {
        let (origin, path) = (&self.target.host, uri::encode_path(key));
        match self.target.virtual_host {
            true => format!("{}://{origin}/{path}", self.scheme),
            false => format!("{}://{origin}/{bucket}/{path}", self.scheme),
        }
    }

    /// Returns the headers that describe the object of the request: those of the form, if it is
    /// one.
    pub fn described_by(&self) -> &HeaderMap {
        self.form.as_ref().unwrap_or(self.headers)
    }

    /// Sets how the body is decoded and checked. `chunks` checks the signatures of chunks.
    ///
    /// # Errors
    /// [`Code::MissingContentLength`] for a chunked body that does not tell its length;
    /// [`Code::AccessDenied`] for signed chunks that nothing can check.
    pub fn set_payload(&mut self, payload: Payload, chunks: Option<&ChunkSigner>) -> S3Result<()> {
        self.payload = payload;
        if let Payload::Chunked { signed, trailer } = payload {
            let length = number(self.headers, "x-amz-decoded-content-length")?
                .ok_or(Code::MissingContentLength)?;
            self.length = Some(length);
            let signer = match signed {
                true => Some(chunks.ok_or(Code::AccessDenied)?.clone()),
                false => None,
            };
            self.body.decode(Decoder::new(signer, trailer, length));
        }
        Ok(())
    }

    /// Returns the content's length.
    ///
    /// # Errors
    /// [`Code::MissingContentLength`]; [`Code::NotImplemented`] if the body comes in chunks of HTTP
    /// instead.
    pub fn content_length(&self) -> S3Result<u64> {
        self.length.ok_or_else(|| {
            let name = "Transfer-Encoding";
            match self.headers.contains_key(name) {
                true => S3Error::not_implemented("A body without a length").with("Header", name),
                false => Code::MissingContentLength.into(),
            }
        })
    }

    /// Returns the hashes that the body must match.
    ///
    /// # Errors
    /// As [`Expected::of`].
    pub fn expected(&self) -> S3Result<Expected> {
        let trailer = matches!(self.payload, Payload::Chunked { trailer: true, .. });
        Expected::of(self.headers, self.signed_sha256(), trailer)
    }

    /// Returns the whole body, checked: a document.
    ///
    /// # Errors
    /// [`Code::MissingRequestBodyError`] if it is empty, [`Code::MaxMessageLengthExceeded`], and
    /// what the checks give.
    pub async fn document(&mut self, limit: usize) -> S3Result<Bytes> {
        let document = self.optional_document(limit).await?;
        if document.is_empty() {
            Err(Code::MissingRequestBodyError.into())
        } else {
            Ok(document)
        }
    }

    /// Returns what [`document`](Call::document) does, but it may be empty.
    ///
    /// # Errors
    /// See there.
    pub async fn optional_document(&mut self, limit: usize) -> S3Result<Bytes> {
        let expected = self.expected()?;
        self.checked(limit, expected).await
    }

    /// Returns what [`document`](Call::document) does, for a request whose checksum headers
    /// describe the object that an upload becomes.
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
        if document.is_empty() {
            let why = "You must specify at least one part";
            Err(S3Error::new(Code::InvalidRequest, why))
        } else {
            Ok(document)
        }
    }

    /// Checks the body of an operation that reads none: it must be the one that was signed, which
    /// is nearly always the empty one.
    ///
    /// # Errors
    /// [`Code::XAmzContentSHA256Mismatch`], [`Code::MaxMessageLengthExceeded`], and those of
    /// reading.
    pub async fn check_unread_body(&mut self) -> S3Result<()> {
        let Some(signed) = self.signed_sha256() else {
            return Ok(());
        };
        let body = self.body.collect(MAX_UNREAD_BYTES).await?;
        let found = digest::digest(&digest::SHA256, &body);
        if found.as_ref() == signed {
            Ok(())
        } else {
            Err(wrong_sha256(&signed, Some(found.as_ref())))
        }
    }

    async fn checked(&mut self, limit: usize, expected: Expected) -> S3Result<Bytes> {
        // A body that is announced as too large is not read.
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

    /// Returns a header's text, if it is there.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] if it is repeated or not ASCII.
    pub fn header(&self, name: &str) -> S3Result<Option<&str>> {
        single_header(self.headers, name)
    }

    /// Returns the time in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_millis()
    }

    /// Returns the version that the request names.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] if it is named more than once, or cannot be an id.
    pub fn version(&self) -> S3Result<Option<GivenVersion>> {
        let text = self.target.query.single("versionId")?;
        text.map(|text| version_of("versionId", text)).transpose()
    }
}

/// Reads the id of a version, which the argument `name` gives.
///
/// # Errors
/// [`Code::InvalidArgument`] for text that cannot be an id.
pub fn version_of(name: &'static str, text: &str) -> S3Result<GivenVersion> {
    text.parse().map_err(|NotAnId| {
        let why = match text {
            "" => "Version id cannot be the empty string",
            _ => "Invalid version id specified",
        };
        S3Error::argument(name, text, why)
    })
}

/// Returns a header's text, if it is there.
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
