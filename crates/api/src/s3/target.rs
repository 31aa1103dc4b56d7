//! The target of a request: bucket and key, in path style or virtual-host style.
//!
//! The request is parsed once: signature, authorisation, storage and log see the same values.

use http::{HeaderMap, Uri, Version, header};

use super::error::{Code, S3Error, S3Result};
use super::s3_control;
use super::uri::{self, Query};

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 1024;

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The host, as the client signed it.
    pub host: String,
    /// The path as it was sent.
    pub path: String,
    /// The bucket, decoded.
    pub bucket: Option<String>,
    /// True if the host names the bucket.
    pub virtual_host: bool,
    /// The key, decoded; never empty.
    pub key: Option<String>,
    /// True for S3 Control, another API on the same address; then the resource is the bucket.
    pub control: bool,
    /// The query, decoded.
    pub query: Query,
}

impl Target {
    /// Reads a request's address. `domains` are those whose sub-domains are buckets.
    ///
    /// # Errors
    /// [`Code::InvalidURI`], those of [`s3_control::bucket`], [`Code::BadRequest`] for a host that
    /// is missing, repeated or malformed, [`Code::KeyTooLongError`].
    pub fn of(
        uri: &Uri,
        headers: &HeaderMap,
        version: Version,
        domains: &[String],
    ) -> S3Result<Target> {
        let host = host(uri, headers, version)?;
        let path = uri.path();
        let plain = path.strip_prefix('/').ok_or(Code::InvalidURI)?;
        if s3_control::is_asked(uri, headers) {
            return Ok(Target {
                path: path.to_owned(),
                query: Query::parse(uri.query().unwrap_or_default())?,
                // The host may begin with the account, which is no bucket then.
                host,
                virtual_host: false,
                bucket: s3_control::bucket(path)?,
                key: None,
                control: true,
            });
        }
        let of_host = virtual_bucket(&host, domains);
        let virtual_host = of_host.is_some();
        let (bucket, key) = match of_host {
            Some(bucket) => (Some(bucket), plain),
            None => {
                let (bucket, key) = plain.split_once('/').unwrap_or((plain, ""));
                let bucket = uri::decode_path(bucket)?;
                (Some(bucket).filter(|b| !b.is_empty()), key)
            }
        };
        let key = Some(uri::decode_path(key)?).filter(|key| !key.is_empty());
        if bucket.is_none() && key.is_some() {
            return Err(Code::InvalidURI.into());
        }
        if let Some(key) = &key {
            check_key(key)?;
        }
        Ok(Target {
            path: path.to_owned(),
            query: Query::parse(uri.query().unwrap_or_default())?,
            host,
            virtual_host,
            bucket,
            key,
            control: false,
        })
    }
}

/// Checks a key's length.
///
/// # Errors
/// [`Code::KeyTooLongError`], with the sizes.
pub fn check_key(key: &str) -> S3Result<()> {
    if key.len() <= MAX_KEY_BYTES {
        return Ok(());
    }
    Err(S3Error::from(Code::KeyTooLongError)
        .with("Size", key.len().to_string())
        .with("MaxSizeAllowed", MAX_KEY_BYTES.to_string()))
}

/// Returns the host of a request.
///
/// # Errors
/// [`Code::BadRequest`] for a host that is missing, repeated or malformed.
pub fn host(uri: &Uri, headers: &HeaderMap, version: Version) -> S3Result<String> {
    let bad = |why: &'static str| S3Error::new(Code::BadRequest, why);
    let authority = uri.authority().map(|a| a.as_str());
    let mut hosts = headers.get_all(header::HOST).iter();
    let first = hosts.next().map(|host| host.to_str());
    let host = match (first, hosts.next(), authority) {
        (_, Some(_), _) => return Err(bad("There must be one Host header.")),
        (Some(Ok(host)), None, Some(authority)) if host != authority => {
            return Err(bad("The Host header is not the host that is addressed."));
        }
        (Some(Ok(host)), None, _) => host,
        (None, None, Some(authority)) if version == Version::HTTP_2 => authority,
        _ => return Err(bad("There must be one Host header.")),
    };
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b);
    if !host.is_empty() && host.len() <= 255 && host.bytes().all(legal) {
        Ok(host.to_owned())
    } else {
        Err(bad("The Host header is malformed."))
    }
}

/// Returns true if a host names a bucket. `domains` are those whose sub-domains are buckets.
pub fn names_bucket(host: &str, domains: &[String]) -> bool {
    virtual_bucket(host, domains).is_some()
}

/// Returns the bucket that stands before one of the domains.
fn virtual_bucket(host: &str, domains: &[String]) -> Option<String> {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|b| b.is_ascii_digit()) {
            name
        } else {
            host
        }
    });
    let name = name.to_ascii_lowercase();
    let before = |domain: &String| {
        let bucket = name
            .strip_suffix(&domain.to_ascii_lowercase())?
            .strip_suffix('.')?;
        (!bucket.is_empty()).then(|| bucket.to_owned())
    };
    domains.iter().find_map(before)
}

#[cfg(test)]
mod tests;
