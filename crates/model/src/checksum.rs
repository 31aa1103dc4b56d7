//! Checksums of objects and parts, opaque to this crate.

use serde::{Deserialize, Serialize};

/// The bytes that a checksum covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ChecksumKind {
    /// The bytes of the whole object.
    #[serde(rename = "f")]
    FullObject,
    /// The checksums of the parts.
    #[serde(rename = "c")]
    Composite,
}

/// A checksum that a client gave or asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Checksum {
    /// The name of the algorithm in S3: `CRC32`, `CRC32C`, `CRC64NVME`, `SHA1` or `SHA256`.
    #[serde(rename = "a")]
    pub algorithm: String,
    /// Base64; a composite checksum ends with `-N`, where N is the number of parts.
    #[serde(rename = "v")]
    pub value: String,
    /// The bytes that the checksum covers.
    #[serde(rename = "k")]
    pub kind: ChecksumKind,
}
