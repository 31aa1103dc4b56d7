//! The checksums that a request declares, and the check of the body against them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::HeaderMap;

use super::{Algorithm, Digests, Value, Wanted};
use crate::s3::error::{Code, S3Error, S3Result};

/// Headers that begin as those of checksums do but carry no checksum.
const NOT_VALUES: [&str; 3] = [
    "x-amz-checksum-algorithm",
    "x-amz-checksum-mode",
    "x-amz-checksum-type",
];

/// The checksum that a request declares of its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Declared {
    /// None.
    Nothing,
    /// A value in a header.
    Value(Value),
    /// A value that a trailer will carry.
    Trailer(Algorithm),
}

/// The hashes that a body must match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// `Content-MD5`.
    pub md5: Option<[u8; 16]>,
    /// The signed SHA-256.
    pub sha256: Option<[u8; 32]>,
    /// The checksum.
    pub declared: Declared,
}

/// Reads `Content-MD5`.
///
/// # Errors
/// [`Code::InvalidDigest`] if it is not 16 bytes in base64, or if there are several.
pub fn content_md5(headers: &HeaderMap) -> S3Result<Option<[u8; 16]>> {
    let mut values = headers.get_all("content-md5").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value
        .to_str()
        .ok()
        .and_then(|t| BASE64.decode(t.trim()).ok());
    let bytes = text
        .and_then(|bytes| <[u8; 16]>::try_from(bytes).ok())
        .filter(|_| values.next().is_none());
    let invalid = S3Error::new(
        Code::InvalidDigest,
        "The Content-MD5 you specified was invalid.",
    );
    bytes.map(Some).ok_or(invalid)
}

impl Expected {
    /// Reads what the headers say. `trailer` tells whether the body has trailing headers.
    ///
    /// # Errors
    /// A 4xx for what is malformed or contradicts itself.
    pub fn of(headers: &HeaderMap, sha256: Option<[u8; 32]>, trailer: bool) -> S3Result<Expected> {
        let value = declared_value(headers)?;
        let in_trailer = declared_trailer(headers, trailer)?;
        let declared = match (value, in_trailer) {
            (Some(_), Some(_)) => return Err(single()),
            (Some(value), None) => Declared::Value(value),
            (None, Some(algorithm)) => Declared::Trailer(algorithm),
            (None, None) => Declared::Nothing,
        };
        let expected = Expected {
            md5: content_md5(headers)?,
            sha256,
            declared,
        };
        expected.check_announced(headers, "x-amz-sdk-checksum-algorithm")?;
        Ok(expected)
    }

    /// Checks that the checksum whose algorithm a header announces is present.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`] if there is none, if it is of another algorithm, or if several are
    /// announced. For another algorithm, AWS's reference of PutObject names `BadDigest`, but S3
    /// answers `InvalidRequest`.
    pub fn check_announced(&self, headers: &HeaderMap, name: &str) -> S3Result<()> {
        let mut values = headers.get_all(name).iter();
        let Some(value) = values.next() else {
            return Ok(());
        };
        let algorithm = value
            .to_str()
            .ok()
            .and_then(Algorithm::of_name)
            .filter(|_| values.next().is_none());
        let why = match (algorithm, self.algorithm()) {
            (Some(_), None) => format!(
                "{name} specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found."
            ),
            (Some(a), Some(b)) if a == b => return Ok(()),
            _ => format!("Value for {name} header is invalid."),
        };
        Err(S3Error::new(Code::InvalidRequest, why))
    }

    /// Returns true if the request declares a checksum of its body.
    pub fn has_digest(&self) -> bool {
        self.md5.is_some() || self.declared != Declared::Nothing
    }

    /// Returns the algorithm that the client chose, if it did.
    pub fn algorithm(&self) -> Option<Algorithm> {
        match &self.declared {
            Declared::Nothing => None,
            Declared::Value(value) => Some(value.algorithm),
            Declared::Trailer(algorithm) => Some(*algorithm),
        }
    }

    /// Returns the hashes to compute. `default` is the kept checksum if the client chose none.
    pub fn wanted(&self, default: Algorithm) -> Wanted {
        self.wanted_with(self.algorithm().unwrap_or(default))
    }

    /// Returns the hashes to compute, with `kept` as the kept checksum.
    pub fn wanted_with(&self, kept: Algorithm) -> Wanted {
        Wanted {
            kept,
            declared: self.algorithm(),
            sha256: self.sha256.is_some(),
        }
    }

    /// Compares the computed hashes with the declared ones.
    ///
    /// # Errors
    /// [`Code::BadDigest`], [`Code::XAmzContentSHA256Mismatch`], or a trailer that is missing.
    pub fn check(&self, digests: &Digests, trailers: &[(String, String)]) -> S3Result<()> {
        if let Some(md5) = self.md5.filter(|md5| *md5 != digests.md5) {
            let why = "The Content-MD5 you specified did not match what we received.";
            return Err(S3Error::new(Code::BadDigest, why)
                .with("ExpectedDigest", BASE64.encode(md5))
                .with("CalculatedDigest", BASE64.encode(digests.md5)));
        }
        if let Some(signed) = self.sha256.filter(|_| self.sha256 != digests.sha256) {
            return Err(wrong_sha256(
                &signed,
                digests.sha256.as_ref().map(<[u8; 32]>::as_slice),
            ));
        }
        let expected = match &self.declared {
            Declared::Nothing => None,
            Declared::Value(value) => Some(value.clone()),
            Declared::Trailer(algorithm) => Some(trailer_value(*algorithm, trailers)?),
        };
        match expected {
            Some(value) if digests.value(value.algorithm) != Some(&value) => {
                Err(bad_checksum(value.algorithm))
            }
            None if !trailers.is_empty() => Err(Code::MalformedTrailerError.into()),
            _ => Ok(()),
        }
    }
}

/// Makes an `XAmzContentSHA256Mismatch`, with the hash that was signed and that of the body.
pub fn wrong_sha256(signed: &[u8], found: Option<&[u8]>) -> S3Error {
    S3Error::from(Code::XAmzContentSHA256Mismatch)
        .with("ClientComputedContentSHA256", hex::encode(signed))
        .or_with("S3ComputedContentSHA256", found.map(hex::encode))
}

/// Makes a `BadDigest`, with the algorithm's name.
pub fn bad_checksum(algorithm: Algorithm) -> S3Error {
    let message = format!(
        "The {} you specified did not match the calculated checksum.",
        algorithm.name()
    );
    S3Error::new(Code::BadDigest, message)
}

fn single() -> S3Error {
    let why = "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.";
    S3Error::new(Code::InvalidRequest, why)
}

/// Returns the one header with a checksum: its algorithm and its text.
///
/// # Errors
/// [`Code::InvalidRequest`] for several of them, and for an unknown algorithm.
pub fn declared_text(headers: &HeaderMap) -> S3Result<Option<(Algorithm, &str)>> {
    let mut found = None;
    for (name, text) in headers {
        let name = name.as_str();
        if !name.starts_with("x-amz-checksum-") || NOT_VALUES.contains(&name) {
            continue;
        }
        if found.is_some() {
            return Err(single());
        }
        let unknown = || {
            let why = "The algorithm type you specified in x-amz-checksum- header is invalid.";
            S3Error::new(Code::InvalidRequest, why)
        };
        let algorithm = Algorithm::of_header(name).ok_or_else(unknown)?;
        let text = text.to_str().map_err(|_| invalid_value(algorithm))?;
        found = Some((algorithm, text));
    }
    Ok(found)
}

/// Makes the error for a header that holds no checksum of its algorithm.
pub fn invalid_value(algorithm: Algorithm) -> S3Error {
    let why = format!("Value for {} header is invalid.", algorithm.header());
    S3Error::new(Code::InvalidRequest, why)
}

fn declared_value(headers: &HeaderMap) -> S3Result<Option<Value>> {
    let Some((algorithm, text)) = declared_text(headers)? else {
        return Ok(None);
    };
    let value = Value::parse(algorithm, text);
    value.map(Some).ok_or_else(|| invalid_value(algorithm))
}

fn declared_trailer(headers: &HeaderMap, trailer: bool) -> S3Result<Option<Algorithm>> {
    let Some(value) = headers.get("x-amz-trailer") else {
        return Ok(None);
    };
    let name = value
        .to_str()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let algorithm = Algorithm::of_header(&name).filter(|_| trailer);
    let why = "The value specified in the x-amz-trailer header is not supported";
    algorithm
        .map(Some)
        .ok_or(S3Error::new(Code::InvalidRequest, why))
}

/// Returns the value of the one trailer that was announced.
fn trailer_value(algorithm: Algorithm, trailers: &[(String, String)]) -> S3Result<Value> {
    match trailers {
        [(name, text)] if name == algorithm.header() => {
            let why = format!("Value for {name} trailing header is invalid.");
            let value = Value::parse(algorithm, text);
            value.ok_or_else(|| S3Error::new(Code::InvalidRequest, why))
        }
        _ => Err(Code::MalformedTrailerError.into()),
    }
}
