//! Buckets, access keys, and who may do what.

use std::collections::BTreeMap;
use std::fmt;

use archipel_base::Id;
use archipel_base::codec::Versioned;
use archipel_storage::engine::Durability;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// What an access key may do with a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Permissions {
    /// List and get objects.
    #[serde(rename = "r", default)]
    pub read: bool,
    /// Put and delete objects, all of multipart.
    #[serde(rename = "w", default)]
    pub write: bool,
    /// Change the bucket's settings and delete it.
    #[serde(rename = "o", default)]
    pub owner: bool,
}

impl Permissions {
    /// Everything.
    pub const ALL: Permissions = Permissions {
        read: true,
        write: true,
        owner: true,
    };

    /// Whether nothing is permitted.
    pub fn is_empty(&self) -> bool {
        *self == Permissions::default()
    }
}

/// A CORS rule, as S3 has it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CorsRule {
    /// A name that the user gave.
    #[serde(default)]
    pub id: Option<String>,
    /// Origins, each with at most one `*`.
    pub allowed_origins: Vec<String>,
    /// `GET`, `PUT`, `HEAD`, `POST`, `DELETE`.
    pub allowed_methods: Vec<String>,
    /// Request headers, each with at most one `*`.
    #[serde(default)]
    pub allowed_headers: Vec<String>,
    /// Response headers that a script may read.
    #[serde(default)]
    pub expose_headers: Vec<String>,
    /// How long a browser may keep a preflight's answer.
    #[serde(default)]
    pub max_age_seconds: Option<u32>,
}

/// A bucket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bucket {
    /// Its identity; a bucket that is deleted and made again is another one.
    pub id: Id,
    /// Its name, unique in the cluster.
    pub name: String,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    /// Who may do what, by access key id.
    #[serde(default)]
    pub grants: BTreeMap<String, Permissions>,
    /// CORS rules; empty if CORS is not configured.
    #[serde(default)]
    pub cors: Vec<CorsRule>,
    /// `true` if acknowledged writes may be lost in a power cut; `None` for the node's setting.
    #[serde(default)]
    pub buffered: Option<bool>,
    /// Whose turn it is to move the bucket's gates.
    #[serde(default)]
    pub(crate) turn: Turn,
}

impl Versioned for Bucket {
    const VERSION: u8 = 1;
}

impl Bucket {
    /// What `access_key` may do here.
    pub fn permissions(&self, access_key: &str) -> Permissions {
        self.grants.get(access_key).copied().unwrap_or_default()
    }

    pub(crate) fn durability(&self, default: Durability) -> Durability {
        match self.buffered {
            Some(true) => Durability::Buffered,
            Some(false) => Durability::Fsync,
            None => default,
        }
    }
}

/// Whose turn it is to move a bucket's gates: see [`gate`](crate::gate).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// Grows with each turn.
    #[serde(rename = "n", default)]
    pub number: u64,
    /// When it was taken, in milliseconds since 1970; `None` if it was given back.
    #[serde(rename = "s", default)]
    pub since_ms: Option<u64>,
}

/// What a bucket holds, exactly, as this replica counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Objects.
    pub objects: u64,
    /// Bytes of content.
    pub bytes: u64,
}

/// A secret: shown only when asked for by name, never in debug output.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: String) -> Secret {
        Secret(secret)
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// An access key: who signs requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AccessKey {
    /// The public part.
    pub id: String,
    /// The secret part.
    pub secret: Secret,
    /// What people call it.
    pub name: String,
    /// Milliseconds since 1970.
    pub created_ms: u64,
    /// Whether it may create buckets.
    #[serde(default)]
    pub may_create_buckets: bool,
}

impl Versioned for AccessKey {
    const VERSION: u8 = 1;
}

/// Checks a bucket's name by S3's rules for general purpose buckets.
///
/// Source: AWS, "Bucket naming rules".
pub fn check_bucket_name(name: &str) -> Result<(), Error> {
    let refuse = |why: &str| Err(Error::InvalidName(format!("bucket name {name:?}: {why}")));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !(3..=63).contains(&name.len()) {
        return refuse("3 to 63 characters are allowed");
    }
    if !name.chars().all(|c| plain(c) || c == '-' || c == '.') {
        return refuse("lower-case letters, digits, hyphens and dots are allowed");
    }
    if !name.starts_with(plain) || !name.ends_with(plain) {
        return refuse("it must begin and end with a letter or a digit");
    }
    if name.contains("..") {
        return refuse("two dots in a row are not allowed");
    }
    if name.split('.').count() == 4 && name.split('.').all(|p| p.parse::<u8>().is_ok()) {
        return refuse("it must not look like an IP address");
    }
    let reserved_prefix = ["xn--", "sthree-", "amzn-s3-demo-"];
    let reserved_suffix = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];
    if reserved_prefix.iter().any(|p| name.starts_with(p))
        || reserved_suffix.iter().any(|s| name.ends_with(s))
    {
        return refuse("this beginning or ending is reserved");
    }
    Ok(())
}
