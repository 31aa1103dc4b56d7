//! Headers that ask for what is missing.

use crate::s3::error::{Code, S3Error, S3Result};

/// The beginnings of headers that ask for missing features; such headers are refused.
const REFUSED_PREFIXES: [&str; 6] = [
    "x-amz-bucket-namespace",
    "x-amz-if-match-",
    "x-amz-mfa",
    "x-amz-object-lock-event-hold",
    "x-amz-rename-source",
    "x-amz-write-offset-bytes",
];

/// Refuses headers that would change the meaning of a request if they were implemented.
///
/// # Errors
/// [`Code::NotImplemented`], with the header's name.
pub fn refuse_headers<'h>(headers: impl Iterator<Item = (&'h str, &'h [u8])>) -> S3Result<()> {
    for (name, _) in headers.filter(|(name, _)| name.starts_with("x-amz-")) {
        let refused = REFUSED_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix));
        if refused {
            return Err(S3Error::from(Code::NotImplemented).with("Header", name));
        }
    }
    Ok(())
}
