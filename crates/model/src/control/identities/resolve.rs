//! Finds out for whom an access key acts, and which policies count.

use std::sync::Arc;

use archipel_access::identity::Named;
use archipel_access::{Identity, Policy};
use archipel_base::boxed;
use archipel_storage::RowKey;

use crate::Model;
use crate::bucket::AccessKey;
use crate::control::Cached;
use crate::error::Error;
use crate::identity::{
    Attached, BUILT_IN, Entity, Group, Held, Kind, ManagedPolicy, PolicyRef, Provider, Reference,
    Role, Session, Subject, User,
};
use crate::rowkeys;

/// The reason why a key does not count.
enum Void {
    /// Something that it needs is gone, disabled or over.
    Gone,
    /// The session is over.
    Expired,
}

/// Resolves a key by the cache, and notes the rows that the cache lacks.
struct Resolver<'a> {
    cached: &'a Cached,
    now_ms: u64,
    missing: Vec<RowKey>,
}

impl Resolver<'_> {
    /// Returns the entity that is meant.
    fn find<E: Entity>(&mut self, meant: &Reference) -> Result<Arc<E>, Void> {
        let name = meant.name.to_ascii_lowercase();
        match E::all(&self.cached.identities).get(&name) {
            Some(found) if found.incarnation() == meant.incarnation => Ok(found.clone()),
            Some(_) => Err(Void::Gone),
            None => {
                self.missing.push(rowkeys::identity(E::KIND, &name));
                Err(Void::Gone)
            }
        }
    }

    fn check_key(&self, key: &AccessKey) -> Result<(), Void> {
        let over = key.expires_ms.is_some_and(|end| end <= self.now_ms);
        match key.disabled || over {
            true => Err(Void::Gone),
            false => Ok(()),
        }
    }

    /// Checks that the access key which asked for a session counts.
    fn check_parent(&mut self, meant: &Reference) -> Result<(), Void> {
        let cached = self.cached;
        match cached.keys.get(&meant.name) {
            Some(key) if key.incarnation == meant.incarnation => self.check_key(key),
            Some(_) => Err(Void::Gone),
            None => {
                self.missing.push(rowkeys::access_key(&meant.name));
                Err(Void::Gone)
            }
        }
    }

    fn resolve(&mut self, key: &Arc<AccessKey>) -> Result<Subject, Void> {
        self.check_key(key)?;
        let mut user = key.user.clone();
        let mut own = &key.id;
        if let Some(session) = &key.session {
            if session.expires_ms <= self.now_ms {
                return Err(Void::Expired);
            }
            if let Some(parent) = &session.parent {
                self.check_parent(&parent.key)?;
                user.clone_from(&parent.user);
                own = &parent.key.name;
            }
            if let Some(provider) = &session.provider {
                self.find::<Provider>(provider)?;
            }
        }
        // A user that is gone takes its keys with it, and the sessions of its keys.
        let user = user.map(|user| self.find::<User>(&user)).transpose()?;
        if user.as_ref().is_some_and(|user| user.disabled) {
            return Err(Void::Gone);
        }
        let session = key.session.as_ref();
        let role = session.and_then(|session| session.role.as_ref());
        let mut identity = Identity::default();
        let (kind, id) = match (role, user) {
            (Some(meant), _) => {
                let role = self.find::<Role>(&meant.role)?;
                let issued_ms = session.map_or(0, |session| session.issued_ms);
                if role.not_before_ms.is_some_and(|time| issued_ms < time) {
                    return Err(Void::Expired);
                }
                self.collect(&role.held, &mut identity.policies);
                let id = role.id();
                let session = meant.session.clone();
                (Kind::Role { role, session }, id)
            }
            (None, Some(user)) => {
                self.collect(&user.held, &mut identity.policies);
                for group in &user.groups {
                    if let Ok(group) = self.find::<Group>(group) {
                        self.collect(&group.held, &mut identity.policies);
                    }
                }
                let id = user.id();
                (Kind::User(user), id)
            }
            // A session without a role needs a parent.
            (None, None) if session.is_some_and(|session| session.parent.is_none()) => {
                return Err(Void::Gone);
            }
            (None, None) => (Kind::Key, own.clone()),
        };
        identity.session = session.and_then(|session| self.limits(session));
        Ok(Subject {
            key: key.clone(),
            kind,
            id,
            identity,
        })
    }

    fn collect(&mut self, held: &Held, into: &mut Vec<Named>) {
        let inline = held.inline.iter();
        into.extend(inline.map(|(name, policy)| (name.clone(), policy.policy().clone())));
        for policy in &held.attached {
            into.push(self.managed(policy));
        }
    }

    /// Returns a policy that is attached. One that is gone denies everything: what it denied must
    /// not be allowed without it.
    fn managed(&mut self, policy: &PolicyRef) -> Named {
        if let Some(policy) = built_in(&policy.arn) {
            return policy.named();
        }
        let name = policy.name().to_ascii_lowercase();
        let found = self.cached.identities.policies.get(&name);
        match found.filter(|found| found.incarnation == policy.incarnation) {
            Some(found) => found.named(),
            None => {
                let row = rowkeys::identity(ManagedPolicy::KIND, &name);
                self.missing.push(row);
                gone(&policy.arn)
            }
        }
    }

    /// Returns the policies that limit a session; `None` if nothing does. One that is gone denies
    /// everything: what it denied must not be allowed without it.
    fn limits(&mut self, session: &Session) -> Option<Vec<Named>> {
        if session.policy.is_none() && session.policies.is_empty() {
            return None;
        }
        let inline = session.policy.iter();
        let mut all: Vec<Named> = inline
            .map(|policy| ("session".to_owned(), policy.policy().clone()))
            .collect();
        let managed = session.policies.iter();
        all.extend(managed.map(|policy| self.managed(policy)));
        Some(all)
    }
}

/// Returns what stands for a policy that is gone: it denies everything.
fn gone(arn: &str) -> Named {
    (arn.to_owned(), Arc::new(Policy::unreadable()))
}

fn built_in(arn: &str) -> Option<&'static ManagedPolicy> {
    let name = arn.strip_prefix("arn:aws:iam::aws:policy/")?;
    BUILT_IN.iter().find(|policy| policy.name == name)
}

impl Model {
    /// Returns who an access key acts for, with the policies that count now. `None` if the key does
    /// not count: it is disabled or over, or what it was made from is gone. Reads rows that the
    /// cache lacks.
    ///
    /// # Errors
    /// [`Error::SessionExpired`]; as [`Model::find_bucket`].
    #[boxed]
    pub async fn subject(&self, key: &Arc<AccessKey>) -> Result<Option<Subject>, Error> {
        let mut found = self.resolve(key)?;
        if !found.1.is_empty() {
            // Another node may have made them a moment ago.
            for row in found.1 {
                match key.session {
                    // Its token may have outlived all that it was made from.
                    Some(_) => self.look_up_for_stranger(row).await?,
                    None => self.look_up(row).await?,
                }
            }
            found = self.resolve(key)?;
        }
        match found.0 {
            Ok(subject) => Ok(Some(subject)),
            Err(Void::Gone) => Ok(None),
            Err(Void::Expired) => Err(Error::SessionExpired),
        }
    }

    fn resolve(&self, key: &Arc<AccessKey>) -> Result<(Result<Subject, Void>, Vec<RowKey>), Error> {
        let now_ms = self.now_ms();
        self.look(|cached| {
            let mut resolver = Resolver {
                cached,
                now_ms,
                missing: Vec::new(),
            };
            let subject = resolver.resolve(key);
            (subject, resolver.missing)
        })
    }
}
