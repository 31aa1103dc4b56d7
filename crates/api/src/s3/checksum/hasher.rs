//! Computes the checksums of a stream, off the async threads.

use std::hash::Hasher;

use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use md5::{Digest, Md5};
use ring::digest;
use tokio::task::JoinHandle;
use twox_hash::{XxHash3_64, XxHash3_128, XxHash64};

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

impl Wanted {
    /// Returns the hashes of a copy: nobody declares any.
    pub fn of_copy(kept: Algorithm) -> Wanted {
        Wanted {
            kept,
            declared: None,
            sha256: false,
        }
    }
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
    /// Returns the value of an algorithm that was wanted.
    pub fn value(&self, algorithm: Algorithm) -> Option<&Value> {
        let all = [Some(&self.checksum), self.declared.as_ref()];
        all.into_iter().flatten().find(|v| v.algorithm == algorithm)
    }

    /// Returns MD5 as an ETag.
    pub fn etag(&self) -> String {
        hex::encode(self.md5)
    }
}

/// Returns the CRC parameters of an algorithm; `None` for all others.
pub(super) fn crc_algorithm(algorithm: Algorithm) -> Option<CrcAlgorithm> {
    match algorithm {
        Algorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
        Algorithm::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
        Algorithm::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
        _ => None,
    }
}

/// Returns a CRC as bytes, big-endian.
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
pub(super) struct Running {
    algorithm: Algorithm,
    state: RunningState,
}

enum RunningState {
    Crc(crc_fast::Digest),
    Md5(Md5),
    Sha(digest::Context),
    Xxhash64(XxHash64),
    Xxhash3(Box<XxHash3_64>),
    Xxhash128(Box<XxHash3_128>),
}

impl Running {
    pub(super) fn new(algorithm: Algorithm) -> Running {
        use RunningState as S;
        let crc = |parameters| S::Crc(crc_fast::Digest::new(parameters));
        let sha = |parameters| S::Sha(digest::Context::new(parameters));
        let state = match algorithm {
            Algorithm::Crc32 => crc(CrcAlgorithm::Crc32IsoHdlc),
            Algorithm::Crc32c => crc(CrcAlgorithm::Crc32Iscsi),
            Algorithm::Crc64Nvme => crc(CrcAlgorithm::Crc64Nvme),
            Algorithm::Md5 => S::Md5(Md5::new()),
            Algorithm::Sha1 => sha(&digest::SHA1_FOR_LEGACY_USE_ONLY),
            Algorithm::Sha256 => sha(&digest::SHA256),
            Algorithm::Sha512 => sha(&digest::SHA512),
            Algorithm::Xxhash64 => S::Xxhash64(XxHash64::with_seed(0)),
            Algorithm::Xxhash3 => S::Xxhash3(Box::new(XxHash3_64::new())),
            Algorithm::Xxhash128 => S::Xxhash128(Box::new(XxHash3_128::new())),
        };
        Running { algorithm, state }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            RunningState::Crc(crc) => crc.update(bytes),
            RunningState::Md5(md5) => Digest::update(md5, bytes),
            RunningState::Sha(sha) => sha.update(bytes),
            RunningState::Xxhash64(xxhash) => xxhash.write(bytes),
            RunningState::Xxhash3(xxhash) => xxhash.write(bytes),
            RunningState::Xxhash128(xxhash) => xxhash.write(bytes),
        }
    }

    pub(super) fn finish(self) -> Value {
        let algorithm = self.algorithm;
        let bytes = match self.state {
            RunningState::Crc(crc) => crc_bytes(algorithm, crc.finalize()),
            RunningState::Md5(md5) => md5.finalize().to_vec(),
            RunningState::Sha(sha) => sha.finish().as_ref().to_vec(),
            RunningState::Xxhash64(xxhash) => xxhash.finish().to_be_bytes().to_vec(),
            RunningState::Xxhash3(xxhash) => xxhash.finish().to_be_bytes().to_vec(),
            RunningState::Xxhash128(xxhash) => xxhash.finish_128().to_be_bytes().to_vec(),
        };
        Value { algorithm, bytes }
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

    /// Returns the results.
    pub async fn finish(mut self) -> S3Result<Digests> {
        Ok(self.idle().await?.finish())
    }
}
