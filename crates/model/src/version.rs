//! Versions as data: their ids, and the versioning state of a bucket. Pure.

use std::fmt;
use std::str::FromStr;

use archipel_base::Stamp;
use serde::{Deserialize, Serialize};

use crate::version_rows::Making;

/// The text that names the null version.
const NULL: &str = "null";

/// The number of characters of any other id, as in S3.
const ID_CHARACTERS: usize = 32;

/// The id of a version of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum VersionId {
    /// The version that was written while the bucket had no versions or suspended them.
    #[default]
    Null,
    /// A version that was written while versioning was enabled: the stamp of its first attempt.
    At(Stamp),
}

impl VersionId {
    /// Returns the id of a value that names this version, or none.
    pub fn of(at: Option<Stamp>) -> VersionId {
        at.map_or(VersionId::Null, VersionId::At)
    }

    /// Returns the stamp, unless this is the null version.
    pub fn at(self) -> Option<Stamp> {
        match self {
            VersionId::Null => None,
            VersionId::At(stamp) => Some(stamp),
        }
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VersionId::Null => f.write_str(NULL),
            VersionId::At(stamp) => {
                let number = u128::from_be_bytes(stamp.to_bytes());
                write!(f, "{number:032x}")
            }
        }
    }
}

/// The id of a version as a client gave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GivenVersion {
    /// An id that this store may have given out.
    Id(VersionId),
    /// A well-formed id that this store never gives out. No version has it.
    Foreign,
}

/// Text that cannot be the id of a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAnId;

impl FromStr for GivenVersion {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<GivenVersion, NotAnId> {
        if text == NULL {
            return Ok(GivenVersion::Id(VersionId::Null));
        }
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if text.len() != ID_CHARACTERS || !text.bytes().all(legal) {
            return Err(NotAnId);
        }
        // Only the text that was given out is the id, so that no version has two.
        let own = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let number = text
            .bytes()
            .all(own)
            .then(|| u128::from_str_radix(text, 16).ok())
            .flatten();
        Ok(number.map_or(GivenVersion::Foreign, |number| {
            let stamp = Stamp::from_bytes(number.to_be_bytes());
            GivenVersion::Id(VersionId::At(stamp))
        }))
    }
}

/// The versioning state of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Versioning {
    /// It was never enabled. A bucket that leaves this state never returns to it.
    #[default]
    #[serde(rename = "n")]
    Never,
    /// Each write makes a version.
    #[serde(rename = "e")]
    Enabled,
    /// Each write replaces the null version. Other versions stay.
    #[serde(rename = "s")]
    Suspended,
}

impl Versioning {
    /// Returns which version a write of an object makes.
    pub(crate) fn of_writes(self) -> Making {
        match self {
            Versioning::Enabled => Making::New,
            Versioning::Suspended => Making::Null,
            Versioning::Never => Making::Plain,
        }
    }

    /// Returns true if the bucket may have versions with ids.
    pub fn has_versions(self) -> bool {
        self != Versioning::Never
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ids_are_read_back(bytes: [u8; 16]) {
            let id = VersionId::At(Stamp::from_bytes(bytes));
            let text = id.to_string();
            prop_assert_eq!(text.len(), ID_CHARACTERS);
            prop_assert_eq!(text.parse(), Ok(GivenVersion::Id(id)));
        }

        #[test]
        fn each_id_has_one_text(text in "[0-9a-fA-F]{32}|[a-zA-Z0-9._-]{30,34}|null") {
            match text.parse::<GivenVersion>() {
                Ok(GivenVersion::Id(id)) => prop_assert_eq!(id.to_string(), text),
                Ok(GivenVersion::Foreign) => prop_assert_eq!(text.len(), ID_CHARACTERS),
                Err(NotAnId) => prop_assert_ne!(text.len(), ID_CHARACTERS),
            }
        }
    }

    #[test]
    fn text_that_cannot_be_an_id_is_refused() {
        for text in ["", "1", "NULL", "3sL4kqtJlcpXroDTDmJ/rmSpXd3dIbrH"] {
            assert_eq!(text.parse::<GivenVersion>(), Err(NotAnId), "{text}");
        }
    }
}
