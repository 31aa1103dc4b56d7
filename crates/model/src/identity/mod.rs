//! Users, groups, roles, managed policies and identity providers, as data.
//!
//! Each is one row of the control partition, and a register. A reference to another one (a user is
//! in a group, a policy is attached, a key belongs to a user) names the other and its incarnation.
//! It counts while that incarnation exists, so no operation has to change two rows at once, and
//! nothing comes back when a name is used again.
//!
//! Names are not told apart by case, as in IAM: the row's key is in lower case.
//!
//! | module | what it holds |
//! |---|---|
//! | `names` | rules of names, ARNs and unique ids |
//! | `policies` | policies and what they are attached to |
//! | `subject` | for whom a key acts, and which policies count |
//! | `session` | temporary credentials as sealed tokens |
//! | `token_keys` | the keys that seal tokens, and their rotation |
//! | `new` | what new identities are made from, and their changes; what policies are attached to |
//! | `changed` | what changes lead to; limits |

mod changed;
mod names;
mod new;
mod policies;
pub(crate) mod session;
mod subject;
pub(crate) mod token_keys;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use archipel_base::Id;
use archipel_base::codec::Versioned;
use serde::{Deserialize, Serialize};

use crate::bucket::FencingToken;
use crate::object::Tags;
use crate::quota::Quota;

pub use changed::{Changed, Limits};
pub use names::{
    MAX_SESSION_NAME, ROOT_PATH, check_name, check_path, is_of_names, managed_policy_arn,
    provider_of_url, unique_id,
};
pub use new::{
    Attachments, GroupChange, Holder, KeyChange, NewKey, NewPolicy, NewProvider, NewRole, NewUser,
    ProviderChange, RoleChange, UserChange,
};
pub use policies::{
    Attached, BUILT_IN, Held, IdentityPolicy, ManagedPolicy, PolicyRef, PolicyVersion, TrustPolicy,
};
pub use session::{MAX_TOKEN_CHARS, NewSession, Parent, Session, SessionRole};
pub(crate) use subject::sessions_in_policies;
pub use subject::{Canonical, Kind, Subject};
pub use token_keys::TokenKeys;

/// A user, group, role, managed policy or identity provider: one row of the control partition.
pub trait Entity: Versioned + Clone + PartialEq + Send + Sync + 'static {
    /// The kind in the key of the row.
    const KIND: u8;
    /// The kind, for people.
    const WHAT: &'static str;

    /// Returns the name, as it was given.
    fn name(&self) -> &str;

    /// Returns the random identity: another one each time that the name is used.
    fn incarnation(&self) -> Id;

    /// Returns the cached entities of this kind, by name in lower case.
    #[doc(hidden)]
    fn all(identities: &Identities) -> &BTreeMap<String, Arc<Self>>;
}

impl Identities {
    /// Returns true if a user or a role has this unique id and incarnation.
    pub(crate) fn has(&self, id: &str, incarnation: Id) -> bool {
        let mut users = self.users.values();
        let mut roles = self.roles.values();
        if id == unique_id(User::PREFIX, incarnation) {
            users.any(|user| user.incarnation == incarnation)
        } else {
            id == unique_id(Role::PREFIX, incarnation)
                && roles.any(|role| role.incarnation == incarnation)
        }
    }
}

fn copy<T: Clone>(to: &mut BTreeMap<String, T>, from: &BTreeMap<String, T>, name: &str) {
    match from.get(name) {
        Some(value) => drop(to.insert(name.to_owned(), value.clone())),
        None => drop(to.remove(name)),
    }
}

/// Returns true for a number that is not stored.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Returns what a row of this kind holds, for people.
pub(crate) fn what(kind: u8) -> &'static str {
    match kind {
        User::KIND => User::WHAT,
        Group::KIND => Group::WHAT,
        Role::KIND => Role::WHAT,
        ManagedPolicy::KIND => ManagedPolicy::WHAT,
        Provider::KIND => Provider::WHAT,
        TokenKeys::KIND => "keys of session tokens:",
        _ => "identity",
    }
}

/// A name and the incarnation that is meant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Reference {
    /// The name.
    #[serde(rename = "n")]
    pub name: String,
    /// The incarnation.
    #[serde(rename = "i", default)]
    pub incarnation: Id,
}

impl Reference {
    /// Makes a reference to an entity.
    pub fn to<E: Entity>(entity: &E) -> Reference {
        Reference {
            name: entity.name().to_owned(),
            incarnation: entity.incarnation(),
        }
    }
}

/// A user.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct User {
    /// The name.
    pub name: String,
    /// The path, from slash to slash.
    #[serde(default)]
    pub path: String,
    /// The time of creation in milliseconds since 1970.
    #[serde(default)]
    pub created_ms: u64,
    /// The random identity.
    #[serde(default)]
    pub incarnation: Id,
    /// The number of references to it that were confirmed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) confirmed: u64,
    /// True if the user's access keys, and the sessions that they began, do not count for now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// The most that the buckets which the user created may hold together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// The fencing token of the division of the quota among buckets.
    #[serde(default, skip_serializing_if = "FencingToken::is_new")]
    pub(crate) token: FencingToken,
    /// True until the buckets have portions of the quota that was set last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_undivided: bool,
    /// The groups.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<Reference>,
    /// The policies.
    #[serde(default)]
    pub held: Held,
    /// The tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Tags,
}

/// A group of users.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Group {
    /// The name.
    pub name: String,
    /// The path, from slash to slash.
    #[serde(default)]
    pub path: String,
    /// The time of creation in milliseconds since 1970.
    #[serde(default)]
    pub created_ms: u64,
    /// The random identity.
    #[serde(default)]
    pub incarnation: Id,
    /// The number of references to it that were confirmed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) confirmed: u64,
    /// The policies.
    #[serde(default)]
    pub held: Held,
}

/// A role: an identity that a principal takes for some time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Role {
    /// The name.
    pub name: String,
    /// The path, from slash to slash.
    #[serde(default)]
    pub path: String,
    /// The time of creation in milliseconds since 1970.
    #[serde(default)]
    pub created_ms: u64,
    /// The random identity.
    #[serde(default)]
    pub incarnation: Id,
    /// The description.
    #[serde(default)]
    pub description: String,
    /// The longest session in seconds.
    #[serde(default)]
    pub max_session_s: u32,
    /// The principals that may assume the role.
    pub trust: TrustPolicy,
    /// Sessions that began before this time, in milliseconds since 1970, are revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<u64>,
    /// The policies.
    #[serde(default)]
    pub held: Held,
    /// The tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Tags,
}

/// An identity provider of OpenID Connect.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Provider {
    /// The issuer without its scheme: host and path.
    pub name: String,
    /// The issuer's URL.
    pub url: String,
    /// The time of creation in milliseconds since 1970.
    #[serde(default)]
    pub created_ms: u64,
    /// The random identity.
    #[serde(default)]
    pub incarnation: Id,
    /// The audiences that tokens may be for.
    #[serde(default)]
    pub clients: BTreeSet<String>,
    /// Thumbprints of certificates, as they were given. They are shown and do not count: the
    /// certificate has to be one that the system trusts.
    #[serde(default)]
    pub thumbprints: Vec<String>,
    /// The tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Tags,
}

/// Implements [`Entity`].
macro_rules! entities {
    ($($type:ident $kind:literal $what:literal $field:ident,)*) => {
        $(
            impl Versioned for $type {
                const VERSION: u8 = 1;
            }

            impl Entity for $type {
                const KIND: u8 = $kind;
                const WHAT: &'static str = $what;

                fn name(&self) -> &str {
                    &self.name
                }

                fn incarnation(&self) -> Id {
                    self.incarnation
                }

                fn all(identities: &Identities) -> &BTreeMap<String, Arc<Self>> {
                    &identities.$field
                }
            }
        )*

        /// All entities that are cached, by name in lower case.
        #[derive(Default)]
        pub struct Identities {
            $(pub(crate) $field: BTreeMap<String, Arc<$type>>,)*
            /// The keys that seal tokens.
            pub(crate) token_keys: Option<Arc<TokenKeys>>,
        }

        impl Identities {
            /// Updates the cache with the value of a row.
            pub(crate) fn put(
                &mut self,
                key: &[u8],
                metadata: Option<&bytes::Bytes>,
                ring: &dyn crate::cipher::sealed::OpenSecrets,
            ) -> Result<(), archipel_base::codec::DecodeError> {
                let Some((kind, name)) = crate::rowkeys::identity_of(key) else {
                    return Ok(());
                };
                match (kind, metadata) {
                    $(
                        ($kind, None) => drop(self.$field.remove(name)),
                        ($kind, Some(row)) => {
                            let value = archipel_base::codec::decode(row)?;
                            self.$field.insert(name.to_owned(), Arc::new(value));
                        }
                    )*
                    (TokenKeys::KIND, row) => {
                        let keys = row.map(|row| TokenKeys::of_row(row, ring));
                        self.token_keys = keys.transpose()?.map(Arc::new);
                    }
                    _ => {}
                }
                Ok(())
            }

            /// Makes a row what it is in `other`.
            pub(crate) fn copy(&mut self, key: &[u8], other: &Identities) {
                let Some((kind, name)) = crate::rowkeys::identity_of(key) else {
                    return;
                };
                match kind {
                    $($kind => copy(&mut self.$field, &other.$field, name),)*
                    TokenKeys::KIND => self.token_keys.clone_from(&other.token_keys),
                    _ => {}
                }
            }
        }
    };
}

entities! {
    User b'u' "user" users,
    Group b'g' "group" groups,
    Role b'r' "role" roles,
    ManagedPolicy b'p' "policy" policies,
    Provider b'o' "OIDC provider" providers,
}
