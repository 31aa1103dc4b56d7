//! The subject that an access key acts for, and the policies that count.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_access::{Identity, Principal};
use archipel_base::Id;

use super::{Parent, ROOT_PATH, Reference, Role, Session, TrustPolicy, User};
use crate::bucket::AccessKey;

/// The subject that an access key acts for.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A user of its own: the key itself.
    Key,
    /// A user.
    User(Arc<User>),
    /// A session of a role.
    Role {
        /// The role.
        role: Arc<Role>,
        /// The name of the session.
        session: String,
    },
}

/// An access key that counts, who it acts for, and the policies of that identity.
#[derive(Clone, Debug)]
pub struct Subject {
    pub(crate) key: Arc<AccessKey>,
    pub(crate) kind: Kind,
    pub(crate) id: String,
    pub(crate) identity: Identity,
}

impl Subject {
    /// Returns the access key.
    pub fn key(&self) -> &Arc<AccessKey> {
        &self.key
    }

    /// Returns who the key acts for.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns the unique id: that of the user or role, or the id of a key that is its own user.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the policies.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the session, if the key is a temporary one.
    pub fn session(&self) -> Option<&Session> {
        self.key.session.as_deref()
    }

    /// Returns the principal. `canonical_id` is its canonical user id, if it is known.
    pub fn principal<'a>(&'a self, canonical_id: Option<&'a str>) -> Principal<'a> {
        match &self.kind {
            Kind::Key => Principal::User {
                name: &self.id,
                path: ROOT_PATH,
                id: &self.id,
                canonical_id,
            },
            Kind::User(user) => Principal::User {
                name: &user.name,
                path: &user.path,
                id: &self.id,
                canonical_id,
            },
            Kind::Role { role, session } => Principal::Role {
                name: &role.name,
                path: &role.path,
                id: &self.id,
                session,
            },
        }
    }

    /// Returns the principal for which the trust policy of a role takes it.
    pub fn principal_for<'a>(&'a self, trust: &'a TrustPolicy) -> Principal<'a> {
        self.principal_by(trust.named(), None)
    }

    /// Returns the principal for which a policy takes it that names those in `named`. A name means
    /// one incarnation: another user of that name is not meant, and a user with a new path still
    /// is.
    pub(crate) fn principal_by<'a>(
        &'a self,
        named: &'a BTreeMap<String, Id>,
        canonical_id: Option<&'a str>,
    ) -> Principal<'a> {
        // A unique id is compared as such.
        let is_name_of = |user: &User, (name, meant): &(&String, &Id)| {
            **meant == user.incarnation && **name != self.id
        };
        if let Kind::User(user) = &self.kind
            && let Some((known, _)) = named.iter().find(|entry| is_name_of(user, entry))
        {
            let name = known.rsplit('/').next().unwrap_or(known);
            return Principal::User {
                name,
                path: known.strip_suffix(name).unwrap_or_default(),
                id: &self.id,
                canonical_id,
            };
        }
        match self.is_meant(named) {
            true => self.principal(canonical_id),
            false => Principal::of_key(""),
        }
    }

    /// Returns what a session that it asks for remembers of it.
    pub fn as_parent(&self) -> Option<Parent> {
        match &self.key.session {
            Some(session) => session.parent.clone(),
            None => Some(Parent {
                key: Reference {
                    name: self.key.id.clone(),
                    incarnation: self.key.incarnation,
                },
                user: self.key.user.clone(),
            }),
        }
    }

    /// Returns true if a list of those whom a policy names does not mean another incarnation.
    fn is_meant(&self, named: &BTreeMap<String, Id>) -> bool {
        if named.is_empty() {
            return true;
        }
        let means = |name: &str, incarnation| {
            let meant = named.get(name);
            meant.is_none_or(|meant| *meant == incarnation)
        };
        match &self.kind {
            Kind::Key => match &self.key.session {
                None => means(&self.id, self.key.incarnation),
                Some(session) => {
                    let parent = session.parent.as_ref();
                    parent.is_none_or(|parent| means(&self.id, parent.key.incarnation))
                }
            },
            Kind::User(user) => {
                let name = in_policies(None, &user.path, &user.name);
                means(&name, user.incarnation)
            }
            Kind::Role { role, .. } => {
                let name = in_policies(Some("role"), &role.path, &role.name);
                means(&name, role.incarnation)
                    && means(&sessions_in_policies(&role.name), role.incarnation)
            }
        }
    }
}

/// Returns the name under which policies remember a user or role: `path/name`, or `role/path/name`.
fn in_policies(kind: Option<&str>, path: &str, name: &str) -> String {
    match kind {
        Some(kind) => format!("{kind}{path}{name}"),
        None => format!("{}{name}", path.trim_start_matches('/')),
    }
}

/// Returns the name under which a policy that names sessions of a role remembers the role:
/// `session:NAME`. It is the name of no user: a name has no colon.
pub(crate) fn sessions_in_policies(role: &str) -> String {
    format!("session:{role}")
}

/// A user, or an access key, that can be named by a canonical user id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Canonical {
    /// The unique id, from which the canonical one is derived.
    pub id: String,
    /// The name under which policies remember it.
    pub name: String,
    /// The incarnation.
    pub incarnation: Id,
}
