//! Access keys.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use archipel_base::Id;
use archipel_base::codec::{self, DecodeError, Versioned};
use serde::{Deserialize, Serialize};

use super::Alias;
use crate::cipher::sealed::{OpenSecrets, Purpose, Sealed, Sealer};
use crate::error::Error;
use crate::identity::{Attached, Reference, Role, Session, User, unique_id};

/// A secret. Debug output does not show it.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: String) -> Secret {
        Secret(secret)
    }

    /// Returns the secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// An access key, with which a client signs requests.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AccessKey {
    /// The id, which is public.
    pub id: String,
    /// The secret. Rows hold it only if nothing seals secrets: see [`AccessKey::row`].
    #[serde(default, skip_serializing_if = "Secret::is_empty")]
    pub secret: Secret,
    /// The secret, sealed by the keyring.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub(crate) sealed: Option<Sealed>,
    /// The name for people.
    pub name: String,
    /// The time of creation in milliseconds since 1970.
    pub created_ms: u64,
    /// True if the key may create buckets.
    #[serde(default)]
    pub may_create_buckets: bool,
    /// The names that only this key has for buckets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, Alias>,
    /// A random identity. A key that is deleted and imported again under its id gets another one.
    #[serde(default)]
    pub incarnation: Id,
    /// The user; `None` if the key is a user of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Reference>,
    /// True if the key does not count for now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// The time from which on the key does not count, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// The session, if the key is a temporary one. It is in no row.
    #[serde(skip)]
    pub session: Option<Arc<Session>>,
}

impl Versioned for AccessKey {
    const VERSION: u8 = 1;
}

impl AccessKey {
    /// Makes a key that is a user of its own and may do nothing.
    pub fn new(id: String, secret: Secret) -> AccessKey {
        AccessKey {
            id,
            secret,
            sealed: None,
            name: String::new(),
            created_ms: 0,
            may_create_buckets: false,
            names: BTreeMap::new(),
            incarnation: Id::default(),
            user: None,
            disabled: false,
            expires_ms: None,
            session: None,
        }
    }

    /// Returns the metadata of the row. It holds no secret in plain text if the secret is sealed.
    pub(crate) fn row(&self) -> Vec<u8> {
        match self.sealed {
            None => codec::encode(self),
            Some(_) => codec::encode(&AccessKey {
                secret: Secret::default(),
                ..self.clone()
            }),
        }
    }

    /// Reads a row. Leaves the secret empty if it is sealed and this node cannot open it.
    pub(crate) fn of_row(row: &[u8], ring: &dyn OpenSecrets) -> Result<AccessKey, DecodeError> {
        let mut key: AccessKey = codec::decode(row)?;
        key.open(ring);
        Ok(key)
    }

    fn open(&mut self, ring: &dyn OpenSecrets) {
        let opened = self.sealed.as_ref().and_then(|sealed| {
            let secret = ring.open(Purpose::AccessKey, &self.id, sealed)?;
            String::from_utf8(secret).ok()
        });
        if let Some(secret) = opened {
            self.secret = Secret::new(secret);
        }
    }

    /// Seals the secret, which must be known.
    pub(crate) fn seal(&mut self, sealer: &Sealer) -> Result<(), Error> {
        let secret = self.secret.expose().as_bytes();
        let sealed = sealer.seal(Purpose::AccessKey, &self.id, secret);
        self.sealed = Some(sealed.ok_or_else(Error::not_sealed)?);
        Ok(())
    }

    /// Seals the secret by another key of the ring.
    pub(crate) fn reseal(&mut self, sealer: &Sealer, ring: &dyn OpenSecrets) -> Result<(), Error> {
        self.open(ring);
        match self.is_closed() {
            true => Err(Error::NoMasterKey("its secret does not open".into())),
            false => self.seal(sealer),
        }
    }

    /// Returns the key of the ring that seals the secret; `None` if nothing does.
    pub(crate) fn sealed_by(&self) -> Option<Id> {
        self.sealed.as_ref().map(|sealed| sealed.by)
    }

    /// Returns true if this node does not know the secret. Nothing signs with such a key.
    pub(crate) fn is_closed(&self) -> bool {
        self.secret.is_empty()
    }

    /// Returns those whose grants count for the key, as rows of buckets name them: the key, its
    /// user, its role. The first of them owns what the key creates.
    pub(crate) fn grantees(&self) -> Vec<Reference> {
        let session = self.session.as_deref();
        if let Some(role) = session.and_then(|session| session.role.as_ref()) {
            return vec![grantee(Role::PREFIX, &role.role)];
        }
        let (key, user) = match session.map(|session| session.parent.as_ref()) {
            None => {
                let key = Reference {
                    name: self.id.clone(),
                    incarnation: self.incarnation,
                };
                (key, self.user.as_ref())
            }
            Some(Some(parent)) => (parent.key.clone(), parent.user.as_ref()),
            Some(None) => return Vec::new(),
        };
        let user = user.map(|user| grantee(User::PREFIX, user));
        user.into_iter().chain([key]).collect()
    }
}

/// Returns the user or role as a grant names it: by its unique id.
fn grantee(prefix: &str, to: &Reference) -> Reference {
    Reference {
        name: unique_id(prefix, to.incarnation),
        incarnation: to.incarnation,
    }
}
