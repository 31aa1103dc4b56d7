//! Access keys.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use archipel_base::Id;
use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

use super::Alias;
use crate::identity::{Attached, Reference, Role, Session, User, unique_id};

/// A secret. Debug output does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The secret.
    pub secret: Secret,
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
    /// A key that is a user of its own and may do nothing.
    pub fn new(id: String, secret: Secret) -> AccessKey {
        AccessKey {
            id,
            secret,
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

/// The user or role as a grant names it: by its unique id.
fn grantee(prefix: &str, to: &Reference) -> Reference {
    Reference {
        name: unique_id(prefix, to.incarnation),
        incarnation: to.incarnation,
    }
}
