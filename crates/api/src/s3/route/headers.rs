//! Headers that ask for what is missing.

use crate::s3::error::{Code, S3Error, S3Result};

/// The beginnings of headers that ask for missing features; such headers are refused.
const REFUSED_PREFIXES: [&str; 5] = [
    "x-amz-if-match-",
    "x-amz-mfa",
    "x-amz-object-lock-event-hold",
    "x-amz-rename-source",
    "x-amz-write-offset-bytes",
];

/// The header with the namespace of a new bucket's name.
const NAMESPACE: &str = "x-amz-bucket-namespace";

/// Refuses headers that would change the meaning of a request if they were implemented.
///
/// # Errors
/// [`Code::NotImplemented`], with the header's name; [`Code::InvalidArgument`] for an unknown
/// namespace.
pub fn refuse_headers<'h>(headers: impl Iterator<Item = (&'h str, &'h [u8])>) -> S3Result<()> {
    for (name, value) in headers.filter(|(name, _)| name.starts_with("x-amz-")) {
        let refused = match (name, value) {
            (NAMESPACE, b"global") => false,
            (NAMESPACE, b"account-regional") => true,
            (NAMESPACE, other) => {
                let other = String::from_utf8_lossy(other);
                let why = "The namespace is neither global nor account-regional.";
                return Err(S3Error::argument(name, other, why));
            }
            _ => REFUSED_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix)),
        };
        if refused {
            return Err(S3Error::from(Code::NotImplemented).with("Header", name));
        }
    }
    Ok(())
}
