//! An object's headers: which are kept, their limits, how they are given back.
//!
//! Source: AWS, "Working with object metadata".

use http::{HeaderMap, HeaderValue, header};

use super::call::single_header;
use super::error::{Code, S3Error, S3Result};

/// The prefix of user metadata.
const USER: &str = "x-amz-meta-";

/// The most that user metadata may have: names without prefix, and values.
const MAX_USER_BYTES: usize = 2 << 10;

/// The most that all kept headers may have.
const MAX_BYTES: usize = 8 << 10;

/// The type of an object that was given none.
const DEFAULT_TYPE: &str = "binary/octet-stream";

/// System metadata that is kept unchanged.
const SYSTEM: [&str; 5] = [
    "cache-control",
    "content-disposition",
    "content-language",
    "content-type",
    "expires",
];

/// The name under which a storage class is kept.
pub const STORAGE_CLASS: &str = "x-amz-storage-class";

/// The name under which is kept where websites redirect requests for the object to.
pub const REDIRECT: &str = "x-amz-website-redirect-location";

/// The longest redirect.
const MAX_REDIRECT_BYTES: usize = 2 << 10;

/// The usual storage class.
const STANDARD: &str = "STANDARD";

/// The storage classes of general purpose buckets whose objects are read at once. All are stored
/// alike, and the name is returned.
const CLASSES: [&str; 6] = [
    STANDARD,
    "REDUCED_REDUNDANCY",
    "STANDARD_IA",
    "ONEZONE_IA",
    "INTELLIGENT_TIERING",
    "GLACIER_IR",
];

/// The classes of archives. Clients restore such an object before they read it, which nothing does
/// here.
const ARCHIVES: [&str; 2] = ["GLACIER", "DEEP_ARCHIVE"];

/// Returns the headers of a request that are kept with the object, by lower-case name.
///
/// # Errors
/// [`Code::MetadataTooLarge`], [`Code::InvalidStorageClass`], [`Code::InvalidRedirectLocation`],
/// [`Code::InvalidArgument`] for a value that is not text.
pub fn of_headers(headers: &HeaderMap) -> S3Result<Vec<(String, String)>> {
    let mut kept = Vec::new();
    for name in headers.keys().map(|name| name.as_str()) {
        let user = name.strip_prefix(USER).is_some_and(|rest| !rest.is_empty());
        if user || SYSTEM.contains(&name) {
            kept.push((name.to_owned(), joined(headers, name)?));
        }
    }
    if let Some(encoding) = content_encoding(&joined(headers, "content-encoding")?) {
        kept.push(("content-encoding".to_owned(), encoding));
    }
    finish(kept, headers)
}

/// Completes and checks the headers to keep: `kept`, and those of the request that a copy never
/// takes from its source.
///
/// # Errors
/// As [`of_headers`].
pub fn finish(
    mut kept: Vec<(String, String)>,
    request: &HeaderMap,
) -> S3Result<Vec<(String, String)>> {
    kept.retain(|(name, value)| name.starts_with(USER) || !value.is_empty());
    if !kept.iter().any(|(name, _)| name == "content-type") {
        kept.push(("content-type".to_owned(), DEFAULT_TYPE.to_owned()));
    }
    let storage_class = single_header(request, STORAGE_CLASS)?;
    if let Some(class) = storage_class.filter(|class| !["", STANDARD].contains(class)) {
        check_class(class)?;
        kept.push((STORAGE_CLASS.to_owned(), class.to_owned()));
    }
    let redirect = single_header(request, REDIRECT)?;
    if let Some(location) = redirect.filter(|location| !location.is_empty()) {
        check_redirect(location)?;
        kept.push((REDIRECT.to_owned(), location.to_owned()));
    }
    check_size(&kept)?;
    kept.sort();
    Ok(kept)
}

/// Returns the storage class among the kept headers, or the usual one, which is not kept.
pub fn storage_class(kept: &[(String, String)]) -> &str {
    let found = kept.iter().find(|(name, _)| name == STORAGE_CLASS);
    found.map_or(STANDARD, |(_, value)| value)
}

/// Returns true if the header of this lower-case name is kept.
pub fn is_kept(name: &str) -> bool {
    name.starts_with(USER) || SYSTEM.contains(&name) || name == "content-encoding"
}

fn check_class(class: &str) -> S3Result<()> {
    if CLASSES.contains(&class) {
        return Ok(());
    }
    let error = if ARCHIVES.contains(&class) {
        let why = "Objects of this storage class must be restored before they are read, and there are no archives \
                   here. GLACIER_IR is read at once.";
        S3Error::new(Code::InvalidStorageClass, why)
    } else {
        Code::InvalidStorageClass.into()
    };
    Err(error.with("StorageClassRequested", class))
}

fn check_redirect(location: &str) -> S3Result<()> {
    let known = ["/", "http://", "https://"]
        .iter()
        .any(|prefix| location.starts_with(prefix));
    if !known {
        Err(Code::InvalidRedirectLocation.into())
    } else if location.len() > MAX_REDIRECT_BYTES {
        let why = "The website redirect location must not be longer than 2048 bytes.";
        Err(S3Error::new(Code::InvalidRedirectLocation, why))
    } else {
        Ok(())
    }
}

fn check_size(kept: &[(String, String)]) -> S3Result<()> {
    let size = |(name, value): &(String, String)| name.len() + value.len();
    let user: usize = kept
        .iter()
        .filter(|(name, _)| name.starts_with(USER))
        .map(|pair| size(pair) - USER.len())
        .sum();
    let all = kept.iter().map(size).sum::<usize>();
    for (size, most) in [(user, MAX_USER_BYTES), (all, MAX_BYTES)] {
        if size > most {
            return Err(S3Error::from(Code::MetadataTooLarge)
                .with("Size", size.to_string())
                .with("MaxSizeAllowed", most.to_string()));
        }
    }
    Ok(())
}

/// Returns the values of a header, joined by commas as HTTP allows; empty if there is none.
fn joined(headers: &HeaderMap, name: &str) -> S3Result<String> {
    let mut all = String::new();
    for value in headers.get_all(name) {
        let text = std::str::from_utf8(value.as_bytes())
            .map_err(|_| S3Error::argument(name, "", "Metadata must be UTF-8."))?;
        if !all.is_empty() {
            all.push(',');
        }
        all.push_str(text);
    }
    Ok(all)
}

/// Returns `Content-Encoding` without `aws-chunked`, which describes the transfer only. A value
/// without it stays as it is.
fn content_encoding(value: &str) -> Option<String> {
    let of_transfer = |coding: &&str| coding.eq_ignore_ascii_case("aws-chunked");
    let codings = value.split(',').map(str::trim);
    if !codings.clone().any(|coding| of_transfer(&coding)) {
        return (!value.trim().is_empty()).then(|| value.to_owned());
    }
    let codings: Vec<_> = codings
        .filter(|c| !c.is_empty() && !of_transfer(c))
        .collect();
    (!codings.is_empty()).then(|| codings.join(","))
}

/// Adds kept headers to an answer.
pub fn give_back(kept: &[(String, String)], headers: &mut HeaderMap) {
    for (name, value) in kept {
        let name = header::HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::{give_back, of_headers};
    use crate::s3::error::Code;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            map.append(HeaderName::from_static(name), value);
        }
        map
    }

    #[test]
    fn metadata_headers_are_kept_and_returned() {
        let kept = of_headers(&headers(&[
            ("x-amz-meta-a", "1"),
            ("x-amz-meta-a", "ü"),
            ("content-encoding", "aws-chunked, gzip"),
            ("x-amz-storage-class", "GLACIER_IR"),
            ("x-other", "no"),
            ("x-amz-meta-", "no name"),
        ]))
        .unwrap();
        let text: Vec<_> = kept.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(
            text,
            [
                "content-encoding=gzip",
                "content-type=binary/octet-stream",
                "x-amz-meta-a=1,ü",
                "x-amz-storage-class=GLACIER_IR"
            ]
        );
        let mut back = HeaderMap::new();
        give_back(&kept, &mut back);
        assert_eq!(
            back.get("x-amz-meta-a").unwrap().as_bytes(),
            "1,ü".as_bytes()
        );
    }

    #[test]
    fn redirect_is_kept_if_it_can_be_one() {
        let of = |value: &str| {
            of_headers(&headers(&[("x-amz-website-redirect-location", value)]))
                .map(|kept| kept.into_iter().find(|(name, _)| name == super::REDIRECT))
                .map_err(|error| error.code())
        };
        for value in ["/", "/a b", "http://x", "https://x/y"] {
            assert_eq!(of(value).unwrap().unwrap().1, value);
        }
        assert_eq!(of(""), Ok(None));
        let refused = Err(Code::InvalidRedirectLocation);
        for value in ["x", "ftp://x", &format!("/{}", "x".repeat(2048))] {
            assert_eq!(of(value), refused, "{value}");
        }
        let long = format!("/{}", "x".repeat(2048));
        let pairs = [("x-amz-website-redirect-location", long.as_str())];
        let error = of_headers(&headers(&pairs)).unwrap_err();
        assert!(error.message().contains("2048"), "{}", error.message());
    }

    #[test]
    fn limits() {
        let of = |value: &str| of_headers(&headers(&[("x-amz-meta-name", value)]));
        assert!(of(&"v".repeat(2044)).is_ok());
        let refused = of(&"v".repeat(2045)).map_err(|e| e.code());
        assert_eq!(refused, Err(Code::MetadataTooLarge));
        let class = of_headers(&headers(&[("x-amz-storage-class", "NONE")]));
        assert_eq!(class.map_err(|e| e.code()), Err(Code::InvalidStorageClass));
        let latin = HeaderValue::from_bytes(b"\xfc").unwrap();
        let map = HeaderMap::from_iter([(HeaderName::from_static("x-amz-meta-a"), latin)]);
        assert!(of_headers(&map).is_err());
    }
}
