//! Checksums: the algorithms that S3 knows, the claims of a request, the computation.
//!
//! MD5 is always computed, because it is the ETag. One further checksum is kept with each
//! object: the one that the client chose, or CRC64NVME, as S3 does by default.
//!
//! Source: AWS, "Checking object integrity in Amazon S3".

mod combine;
mod hasher;
mod request;

use archipel_model::{Checksum, ChecksumKind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use hasher::Running;

pub use combine::{composite, full_object};
pub use hasher::{Digests, HashPipe, Wanted};
pub use request::{
    Declared, Expected, bad_checksum, content_md5, declared_text, invalid_value, wrong_sha256,
};

/// An algorithm that S3 knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// CRC-32 as in zlib.
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// CRC-64/NVME.
    Crc64Nvme,
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// XXH64, with the seed 0.
    Xxhash64,
    /// XXH3 with 64 bits.
    Xxhash3,
    /// XXH3 with 128 bits.
    Xxhash128,
}

use Algorithm::{
    Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256, Sha512, Xxhash3, Xxhash64, Xxhash128,
};

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 10] = [
        Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256, Sha512, Xxhash64, Xxhash3, Xxhash128,
    ];

    /// Returns the name that S3 gives it.
    pub fn name(self) -> &'static str {
        match self {
            Crc32 => "CRC32",
            Crc32c => "CRC32C",
            Crc64Nvme => "CRC64NVME",
            Md5 => "MD5",
            Sha1 => "SHA1",
            Sha256 => "SHA256",
            Sha512 => "SHA512",
            Xxhash64 => "XXHASH64",
            Xxhash3 => "XXHASH3",
            Xxhash128 => "XXHASH128",
        }
    }

    /// Returns the header (or trailer) that carries its value.
    pub fn header(self) -> &'static str {
        match self {
            Crc32 => "x-amz-checksum-crc32",
            Crc32c => "x-amz-checksum-crc32c",
            Crc64Nvme => "x-amz-checksum-crc64nvme",
            Md5 => "x-amz-checksum-md5",
            Sha1 => "x-amz-checksum-sha1",
            Sha256 => "x-amz-checksum-sha256",
            Sha512 => "x-amz-checksum-sha512",
            Xxhash64 => "x-amz-checksum-xxhash64",
            Xxhash3 => "x-amz-checksum-xxhash3",
            Xxhash128 => "x-amz-checksum-xxhash128",
        }
    }

    /// Returns the XML element that carries its value.
    pub fn element(self) -> &'static str {
        match self {
            Crc32 => "ChecksumCRC32",
            Crc32c => "ChecksumCRC32C",
            Crc64Nvme => "ChecksumCRC64NVME",
            Md5 => "ChecksumMD5",
            Sha1 => "ChecksumSHA1",
            Sha256 => "ChecksumSHA256",
            Sha512 => "ChecksumSHA512",
            Xxhash64 => "ChecksumXXHASH64",
            Xxhash3 => "ChecksumXXHASH3",
            Xxhash128 => "ChecksumXXHASH128",
        }
    }

    /// Returns its length in bytes.
    pub fn length(self) -> usize {
        match self {
            Crc32 | Crc32c => 4,
            Crc64Nvme | Xxhash64 | Xxhash3 => 8,
            Md5 | Xxhash128 => 16,
            Sha1 => 20,
            Sha256 => 32,
            Sha512 => 64,
        }
    }

    /// Returns the algorithm of this name, in upper or lower case.
    pub fn of_name(name: &str) -> Option<Algorithm> {
        let found = Algorithm::ALL
            .iter()
            .find(|a| a.name().eq_ignore_ascii_case(name));
        found.copied()
    }

    /// Returns the algorithm of this header.
    pub fn of_header(header: &str) -> Option<Algorithm> {
        Algorithm::ALL
            .iter()
            .find(|a| a.header() == header)
            .copied()
    }

    /// Returns the kind of a multipart object's checksum if the client does not choose.
    pub fn default_kind(self) -> ChecksumKind {
        match self {
            Crc64Nvme => ChecksumKind::FullObject,
            _ => ChecksumKind::Composite,
        }
    }

    /// Returns true if a multipart object may have such a checksum of that kind.
    pub fn has_kind(self, kind: ChecksumKind) -> bool {
        match kind {
            ChecksumKind::FullObject => matches!(self, Crc32 | Crc32c | Crc64Nvme),
            ChecksumKind::Composite => self != Crc64Nvme,
        }
    }
}

/// A checksum's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The bytes; numbers are big-endian.
    pub bytes: Vec<u8>,
}

impl Value {
    /// Computes the checksum of bytes.
    pub fn of(algorithm: Algorithm, bytes: &[u8]) -> Value {
        let mut running = Running::new(algorithm);
        running.update(bytes);
        running.finish()
    }

    /// Reads base64; `None` if it is not that, or not of the algorithm's length.
    pub fn parse(algorithm: Algorithm, text: &str) -> Option<Value> {
        let bytes = BASE64.decode(text).ok()?;
        (bytes.len() == algorithm.length()).then_some(Value { algorithm, bytes })
    }

    /// Returns the value in base64.
    pub fn to_base64(&self) -> String {
        BASE64.encode(&self.bytes)
    }

    /// Returns the stored form, for a whole object or a part.
    pub fn stored(&self) -> Checksum {
        Checksum {
            algorithm: self.algorithm.name().to_owned(),
            value: self.to_base64(),
            kind: ChecksumKind::FullObject,
        }
    }

    /// Parses the stored form of a part's checksum.
    pub fn of_stored(checksum: &Checksum) -> Option<Value> {
        Value::parse(Algorithm::of_name(&checksum.algorithm)?, &checksum.value)
    }
}

/// Returns the kind as S3 names it.
pub fn kind_name(kind: ChecksumKind) -> &'static str {
    match kind {
        ChecksumKind::FullObject => "FULL_OBJECT",
        ChecksumKind::Composite => "COMPOSITE",
    }
}

/// Reads a kind.
pub fn parse_kind(text: &str) -> Option<ChecksumKind> {
    match text {
        "FULL_OBJECT" => Some(ChecksumKind::FullObject),
        "COMPOSITE" => Some(ChecksumKind::Composite),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
