//! The errors that signatures of all versions share.

use crate::s3::error::{Code, S3Error};

/// Makes an `InvalidAccessKeyId` that names the key.
pub fn unknown_key(id: &str) -> S3Error {
    S3Error::from(Code::InvalidAccessKeyId).with("AWSAccessKeyId", id)
}

/// Makes a `SignatureDoesNotMatch`, with the text that the client should have signed. It repeats
/// the request and tells nothing of the key.
pub fn mismatch(id: &str, text: &str, signature: &str) -> S3Error {
    let bytes: Vec<_> = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    S3Error::from(Code::SignatureDoesNotMatch)
        .with("AWSAccessKeyId", id)
        .with("StringToSign", text)
        .with("SignatureProvided", signature)
        .with("StringToSignBytes", bytes.join(" "))
}

/// Returns the error for a signature of a kind that is not accepted.
pub fn unsupported_mechanism() -> S3Error {
    let why = "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.";
    S3Error::new(Code::InvalidRequest, why)
}
