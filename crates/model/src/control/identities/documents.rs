//! Policies as documents: inline policies, managed policies with their versions, and the trust policies
//! of roles.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_access::Policy;
use archipel_base::boxed;

use crate::Model;
use crate::error::Error;
use crate::identity::{
    Attached, Changed, Held, IdentityPolicy, Limits, ManagedPolicy, NewPolicy, NewRole,
    PolicyVersion, Role, RoleChange, TrustPolicy, check_name, check_path,
};

/// The longest name of a policy.
const MAX_POLICY_NAME: usize = 128;

/// The longest name of a role.
const MAX_ROLE_NAME: usize = 64;

/// The usual limit of a role's sessions in seconds.
const USUAL_SESSION: u32 = 3600;

/// The longest description of a role or a managed policy, in characters.
const MAX_DESCRIPTION: usize = 1000;

/// The longest managed policy, without white space.
const MAX_MANAGED: usize = 6144;

/// The longest trust policy, without white space.
const MAX_TRUST: usize = 2048;

fn read(document: &str) -> Result<IdentityPolicy, Error> {
    let policy = IdentityPolicy::parse(document);
    policy.map_err(|why| Error::MalformedPolicy(why.to_string()))
}

/// Reads a document of a managed policy.
fn read_managed(document: &str) -> Result<IdentityPolicy, Error> {
    let policy = read(document)?;
    if policy.size() > MAX_MANAGED {
        let why = format!("Cannot exceed quota for PolicySize: {MAX_MANAGED}");
        return Err(Error::LimitExceeded(why));
    }
    Ok(policy)
}

fn check_description(text: &str) -> Result<(), Error> {
    if text.chars().count() > MAX_DESCRIPTION {
        let why = format!("The description has more than {MAX_DESCRIPTION} characters");
        return Err(Error::InvalidName(why));
    }
    Ok(())
}

impl Model {
    /// Adds an inline policy to a user, group or role, or replaces it.
    ///
    /// # Errors
    /// [`Error::MalformedPolicy`]; [`Error::InvalidName`]; [`Error::NoSuchEntity`];
    /// [`Error::LimitExceeded`] if all its inline policies together are too long.
    pub async fn put_inline<E: Attached>(
        &self,
        name: &str,
        policy: &str,
        document: &str,
    ) -> Result<Changed<Arc<E>>, Error> {
        self.put_inline_if::<E>(name, policy, document, |_| true)
            .await
    }

    /// Adds or replaces an inline policy as [`put_inline`](Model::put_inline) does, if the one of this name
    /// so far passes the test.
    ///
    /// # Errors
    /// Those of [`put_inline`](Model::put_inline); [`Error::PreconditionFailed`] if it does not
    /// pass.
    pub async fn put_inline_if<E: Attached>(
        &self,
        name: &str,
        policy: &str,
        document: &str,
        test: impl Fn(Option<&IdentityPolicy>) -> bool + Send + Sync,
    ) -> Result<Changed<Arc<E>>, Error> {
        check_name("policyName", policy, MAX_POLICY_NAME)?;
        let (policy, document) = (policy.to_owned(), read(document)?);
        self.change_entity::<E>(name, move |entity| {
            let inline = &mut entity.held_mut().inline;
            if !test(inline.get(&policy)) {
                return Err(Error::PreconditionFailed);
            }
            inline.insert(policy.clone(), document.clone());
            let size: usize = inline.values().map(IdentityPolicy::size).sum();
            if size > E::INLINE_CHARS {
                return Err(Error::LimitExceeded(format!(
                    "Maximum policy size of {} bytes exceeded for {}",
                    E::INLINE_CHARS,
                    entity.name()
                )));
            }
            Ok(())
        })
        .await
    }

    /// Returns an inline policy of a user, group or role.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`].
    pub async fn inline<E: Attached>(
        &self,
        name: &str,
        policy: &str,
    ) -> Result<IdentityPolicy, Error> {
        let entity = self.find_entity::<E>(name).await?;
        let found = entity.held().inline.get(policy);
        found.cloned().ok_or_else(|| no_policy(policy))
    }

    /// Removes an inline policy of a user, group or role.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`].
    pub async fn delete_inline<E: Attached>(
        &self,
        name: &str,
        policy: &str,
    ) -> Result<Changed<Arc<E>>, Error> {
        self.delete_inline_if::<E>(name, policy, |_| true).await
    }

    /// Removes an inline policy as [`delete_inline`](Model::delete_inline) does, if it passes the test.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`]; [`Error::PreconditionFailed`] if it does not pass.
    pub async fn delete_inline_if<E: Attached>(
        &self,
        name: &str,
        policy: &str,
        test: impl Fn(Option<&IdentityPolicy>) -> bool + Send + Sync,
    ) -> Result<Changed<Arc<E>>, Error> {
        let policy = policy.to_owned();
        self.change_entity::<E>(name, move |entity| {
            let inline = &mut entity.held_mut().inline;
            if !test(inline.get(&policy)) {
                return Err(Error::PreconditionFailed);
            }
            let removed = inline.remove(&policy);
            removed.map(drop).ok_or_else(|| no_policy(&policy))
        })
        .await
    }

    /// Creates a managed policy with one version.
    ///
    /// # Errors
    /// [`Error::MalformedPolicy`]; [`Error::InvalidName`]; [`Error::LimitExceeded`];
    /// [`Error::EntityExists`].
    #[boxed]
    pub async fn create_policy(&self, new: NewPolicy) -> Result<Arc<ManagedPolicy>, Error> {
        check_name("policyName", &new.name, MAX_POLICY_NAME)?;
        check_path(&new.path)?;
        check_description(&new.description)?;
        let now_ms = self.now_ms();
        let version = PolicyVersion {
            policy: read_managed(&new.document)?,
            created_ms: now_ms,
        };
        self.create_entity(ManagedPolicy {
            name: new.name,
            path: new.path,
            description: new.description,
            created_ms: now_ms,
            changed_ms: now_ms,
            incarnation: self.new_incarnation(),
            confirmed: 0,
            versions: BTreeMap::from([(1, version)]),
            default: 1,
            newest: 1,
            tags: new.tags,
        })
        .await
    }

    /// Adds a version to a managed policy, as the one that counts if `counts`.
    ///
    /// # Errors
    /// [`Error::MalformedPolicy`]; [`Error::NoSuchEntity`]; [`Error::LimitExceeded`] if the policy has
    /// [`Limits::VERSIONS`] versions already.
    #[boxed]
    pub async fn add_policy_version(
        &self,
        name: &str,
        document: &str,
        counts: bool,
    ) -> Result<Changed<Arc<ManagedPolicy>>, Error> {
        self.add_version(name, document, counts, |policy| {
            if policy.versions.len() < Limits::VERSIONS {
                return Ok(());
            }
            Err(Error::LimitExceeded(format!(
                "A managed policy can have up to {} versions. Before you create a new version, you \
                 must delete an existing version.",
                Limits::VERSIONS
            )))
        })
        .await
    }

    /// Replaces the document of a managed policy that passes the test: adds a version, which counts
    /// from now on. If the policy has [`Limits::VERSIONS`] versions, the oldest that does not count
    /// goes.
    ///
    /// # Errors
    /// [`Error::MalformedPolicy`]; [`Error::NoSuchEntity`]; [`Error::LimitExceeded`] for a document that
    /// is too long; [`Error::PreconditionFailed`] if the policy does not pass.
    pub async fn replace_policy_if(
        &self,
        name: &str,
        document: &str,
        test: impl Fn(&ManagedPolicy) -> bool + Send + Sync,
    ) -> Result<Changed<Arc<ManagedPolicy>>, Error> {
        self.add_version(name, document, true, move |policy| {
            if !test(policy) {
                return Err(Error::PreconditionFailed);
            }
            let mut numbers = policy.versions.keys();
            let oldest = numbers.find(|number| **number != policy.default).copied();
            if policy.versions.len() >= Limits::VERSIONS
                && let Some(oldest) = oldest
            {
                policy.versions.remove(&oldest);
            }
            Ok(())
        })
        .await
    }

    async fn add_version(
        &self,
        name: &str,
        document: &str,
        counts: bool,
        make_room: impl Fn(&mut ManagedPolicy) -> Result<(), Error> + Send + Sync,
    ) -> Result<Changed<Arc<ManagedPolicy>>, Error> {
        let now_ms = self.now_ms();
        let version = PolicyVersion {
            policy: read_managed(document)?,
            created_ms: now_ms,
        };
        self.change_entity(name, move |policy: &mut ManagedPolicy| {
            make_room(policy)?;
            policy.newest += 1;
            policy.versions.insert(policy.newest, version.clone());
            if counts {
                policy.default = policy.newest;
            }
            policy.changed_ms = now_ms;
            Ok(())
        })
        .await
    }

    /// Creates a role without policies.
    ///
    /// # Errors
    /// [`Error::MalformedPolicy`]; [`Error::InvalidName`]; [`Error::LimitExceeded`];
    /// [`Error::EntityExists`].
    #[boxed]
    pub async fn create_role(&self, new: NewRole) -> Result<Arc<Role>, Error> {
        check_name("roleName", &new.name, MAX_ROLE_NAME)?;
        check_path(&new.path)?;
        check_description(&new.description)?;
        let max_session_s = new.max_session_s.unwrap_or(USUAL_SESSION);
        check_session(max_session_s)?;
        self.create_entity(Role {
            trust: self.read_trust(&new.trust).await?,
            name: new.name,
            path: new.path,
            created_ms: self.now_ms(),
            incarnation: self.new_incarnation(),
            description: new.description,
            max_session_s,
            not_before_ms: None,
            held: Held::default(),
            tags: new.tags,
        })
        .await
    }

    /// Changes a role in one write.
    ///
    /// # Errors
    /// [`Error::MalformedPolicy`]; [`Error::InvalidName`]; [`Error::NoSuchEntity`];
    /// [`Error::LimitExceeded`].
    #[boxed]
    pub async fn change_role(
        &self,
        name: &str,
        change: RoleChange,
    ) -> Result<Changed<Arc<Role>>, Error> {
        self.change_role_if(name, change, |_| true).await
    }

    /// Changes a role as [`change_role`](Model::change_role) does, if it passes the test.
    ///
    /// # Errors
    /// Those of [`change_role`](Model::change_role); [`Error::PreconditionFailed`] if it does not
    /// pass.
    pub async fn change_role_if(
        &self,
        name: &str,
        change: RoleChange,
        test: impl Fn(&Role) -> bool + Send + Sync + 'static,
    ) -> Result<Changed<Arc<Role>>, Error> {
        let RoleChange {
            description,
            max_session_s,
            ..
        } = change;
        check_description(description.as_deref().unwrap_or_default())?;
        max_session_s.map_or(Ok(()), check_session)?;
        let trust = match &change.trust {
            Some(text) => Some(self.read_trust(text).await?),
            None => None,
        };
        let policies = self.find_attachments(change.policies).await?;
        self.change_attached::<Role>(name, policies, move |role| {
            if !test(role) {
                return Err(Error::PreconditionFailed);
            }
            if let Some(description) = &description {
                role.description.clone_from(description);
            }
            role.max_session_s = max_session_s.unwrap_or(role.max_session_s);
            if let Some(trust) = &trust {
                role.trust = trust.clone();
            }
            Ok(())
        })
        .await
    }

    /// Reads a trust policy, and finds those whom it names.
    async fn read_trust(&self, text: &str) -> Result<TrustPolicy, Error> {
        if text.chars().filter(|c| !c.is_whitespace()).count() > MAX_TRUST {
            let why = format!("Cannot exceed quota for ACLSizePerRole: {MAX_TRUST}");
            return Err(Error::LimitExceeded(why));
        }
        let malformed = Error::MalformedPolicy;
        let policy = Policy::parse_trust(text).map_err(|why| malformed(why.to_string()))?;
        let named = self.incarnations_of(&policy).await?;
        let named = named.map_err(|name| {
            malformed(format!("Invalid principal in policy: there is no {name:?}"))
        })?;
        Ok(TrustPolicy::new(text.to_owned(), policy, named))
    }
}

fn no_policy(policy: &str) -> Error {
    Error::NoSuchEntity(format!("The policy with name {policy} cannot be found."))
}

fn check_session(seconds: u32) -> Result<(), Error> {
    let [least, most] = Limits::SESSION_SECONDS;
    if (least..=most).contains(&seconds) {
        return Ok(());
    }
    let why = format!("MaxSessionDuration: {seconds} is not between {least} and {most} seconds");
    Err(Error::InvalidName(why))
}
