//! The version of an object in a row: MessagePack with names, so that later fields are skipped.

use archipel_base::codec::{self, DecodeError};

use crate::engine::Result;
use crate::error::Error;
use crate::row::RowVersion;

pub fn encode(version: &RowVersion) -> Vec<u8> {
    codec::encode(version)
}

pub fn decode(bytes: &[u8]) -> Result<RowVersion> {
    codec::decode(bytes).map_err(|error| match error {
        DecodeError::Version { found, .. } => {
            Error::Newer(format!("a version of an object in the encoding {found}"))
        }
        error => Error::Damaged(format!("a version of an object: {error}")),
    })
}
