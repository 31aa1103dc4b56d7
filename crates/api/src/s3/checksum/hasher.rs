//! Computes the checksums of a stream, off the async threads.

use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use md5::{Digest, Md5};
use ring::digest;
use tokio::task::JoinHandle;

use super::{Algorithm, Value};
use crate::s3::error::{Code, S3Result};

/// Pieces up to this size are hashed on the calling thread: another thread would cost more.
const INLINE_BYTES: usize = 16 << 10;

/// The hashes to compute besides MD5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The checksum that is kept.
    pub kept: Algorithm,
    /// The checksum that the client declared, if it did.
    pub declared: Option<Algorithm>,
    /// True if SHA-256 is needed too, because the signature covers it.
    pub sha256: bool,
}

/// The computed hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digests {
    /// MD5.
    pub md5: [u8; 16],
    /// SHA-256, if it was wanted.
    pub sha256: Option<[u8; 32]>,
    /// The checksum that is kept.
    pub checksum: Value,
    /// The one that the client declared, if it is another one.
    pub declared: Option<Value>,
}

impl Digests {
    /// The value of an algorithm that was wanted.
    pub fn value(&self, algorithm: Algorithm) -> Option<&Value> {
        let all = [Some(&self.checksum), self.declared.as_ref()];
        all.into_iter().flatten().find(|v| v.algorithm == algorithm)
    }

    /// MD5 as an ETag.
    pub fn etag(&self) -> String {
        hex::encode(self.md5)
    }
}

/// CRC parameters of an algorithm; `None` for the SHAs.
pub(super) fn crc_algorithm(algorithm: Algorithm) -> Option<CrcAlgorithm> {
    match algorithm {
        Algorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
        Algorithm::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
        Algorithm::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
        Algorithm::Sha1 | Algorithm::Sha256 => None,
    }
}

/// A CRC as bytes, big-endian.
pub(super) fn crc_bytes(algorithm: Algorithm, crc: u64) -> Vec<u8> {
    let bytes = crc.to_be_bytes();
    bytes
        .into_iter()
        .skip(8 - algorithm.length().min(8))
        .collect()
}

/// All hashes of one stream.
struct Hashes {
    md5: Md5,
    sha256: Option<digest::Context>,
    kept: Running,
    /// The declared checksum, if it is another one.
    declared: Option<Running>,
}

/// A checksum while it is computed.
enum Running {
    Crc(Algorithm, crc_fast::Digest),
    Sha(Algorithm, digest::Context),
}

impl Running {
    fn new(algorithm: Algorithm) -> Running {
        let sha = |parameters| Running::Sha(algorithm, digest::Context::new(parameters));
        match (algorithm, crc_algorithm(algorithm)) {
            (_, Some(crc)) => Running::Crc(algorithm, crc_fast::Digest::new(crc)),
            (Algorithm::Sha1, None) => sha(&digest::SHA1_FOR_LEGACY_USE_ONLY),
            (_, None) => sha(&digest::SHA256),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Running::Crc(_, crc) => crc.update(bytes),
            Running::Sha(_, sha) => sha.update(bytes),
        }
    }

    fn finish(self) -> Value {
        match self {
            Running::Crc(algorithm, crc) => Value {
                algorithm,
                bytes: crc_bytes(algorithm, crc.finalize()),
            },
            Running::Sha(algorithm, sha) => Value {
                algorithm,
                bytes: sha.finish().as_ref().to_vec(),
            },
        }
    }
}

impl Hashes {
    fn new(wanted: Wanted) -> Hashes {
        let other = wanted.declared.filter(|declared| *declared != wanted.kept);
        Hashes {
            md5: Md5::new(),
            sha256: wanted.sha256.then(|| digest::Context::new(&digest::SHA256)),
            kept: Running::new(wanted.kept),
            declared: other.map(Running::new),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        Digest::update(&mut self.md5, bytes);
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        self.kept.update(bytes);
        if let Some(declared) = &mut self.declared {
            declared.update(bytes);
        }
    }

    fn finish(self) -> Digests {
        let sha256 = self.sha256.map(|sha256| {
            let mut bytes = [0; 32];
            bytes.copy_from_slice(sha256.finish().as_ref());
            bytes
        });
        Digests {
            md5: self.md5.finalize().into(),
            sha256,
            checksum: self.kept.finish(),
            declared: self.declared.map(Running::finish),
        }
    }
}

/// Hashes a stream piece by piece. While one piece is hashed on a blocking thread, the caller
/// may store it and receive the next: hashing and I/O overlap, and at most one piece is under way.
pub struct HashPipe(State);

enum State {
    Idle(Box<Hashes>),
    Busy(JoinHandle<Box<Hashes>>),
    /// `None` only while another thread has it, or if a piece's task was lost.
    Gone,
}

impl HashPipe {
    /// Begins to hash a stream.
    pub fn new(wanted: Wanted) -> HashPipe {
        HashPipe(State::Idle(Box::new(Hashes::new(wanted))))
    }

    async fn idle(&mut self) -> S3Result<Box<Hashes>> {
        match std::mem::replace(&mut self.0, State::Gone) {
            State::Idle(hashes) => Ok(hashes),
            State::Busy(task) => Ok(task.await.map_err(|_| Code::InternalError)?),
            State::Gone => Err(Code::InternalError.into()),
        }
    }

    /// Adds the next piece, after waiting for the one before.
    pub async fn update(&mut self, piece: Bytes) -> S3Result<()> {
        let mut hashes = self.idle().await?;
        self.0 = if piece.len() <= INLINE_BYTES {
            hashes.update(&piece);
            State::Idle(hashes)
        } else {
            State::Busy(tokio::task::spawn_blocking(move || {
                hashes.update(&piece);
                hashes
            }))
        };
        Ok(())
    }

    /// The results.
    pub async fn finish(mut self) -> S3Result<Digests> {
        Ok(self.idle().await?.finish())
    }
}
