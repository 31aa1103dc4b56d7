//! Creating, changing and deleting users, groups, roles, policies and identity providers.

use std::collections::BTreeSet;
use std::sync::Arc;

use archipel_base::{Id, boxed, codec};
use archipel_storage::{RowKey, Value};

use crate::Model;
use crate::bucket::{AccessKey, FencingToken};
use crate::control::{Cached, row};
use crate::error::{Error, damaged_row};
use crate::identity::{
    Attached, Attachments, BUILT_IN, Changed, Entity, Group, Held, Limits, ManagedPolicy, NewUser,
    PolicyRef, Provider, Reference, Role, User, check_name, check_path, managed_policy_arn,
};
use crate::rowkeys;

/// The longest name of a user.
const MAX_USER_NAME: usize = 64;

/// The longest name of a group.
const MAX_GROUP_NAME: usize = 128;

pub(super) fn row_of<E: Entity>(name: &str) -> RowKey {
    rowkeys::identity(E::KIND, &name.to_ascii_lowercase())
}

pub(super) fn none<E: Entity>(name: &str) -> Error {
    Error::NoSuchEntity(format!("The {} with name {name} cannot be found.", E::WHAT))
}

impl Model {
    /// Returns a random identity for a new entity.
    pub fn new_incarnation(&self) -> Id {
        self.random_id()
    }

    /// Returns the cached entity of that name.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn entity<E: Entity>(&self, name: &str) -> Result<Option<Arc<E>>, Error> {
        let name = name.to_ascii_lowercase();
        self.look(|cached| E::all(&cached.identities).get(&name).cloned())
    }

    /// Returns all cached entities of a kind, sorted by name.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn entities<E: Entity>(&self) -> Result<Vec<Arc<E>>, Error> {
        self.look(|cached| E::all(&cached.identities).values().cloned().collect())
    }

    /// Returns the entity of that name. Reads its row if the cache lacks it.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`]; as [`Model::find_bucket`].
    pub async fn find_entity<E: Entity>(&self, name: &str) -> Result<Arc<E>, Error> {
        if let Some(entity) = self.entity(name)? {
            return Ok(entity);
        }
        self.look_up(row_of::<E>(name)).await?;
        self.entity(name)?.ok_or_else(|| none::<E>(name))
    }

    /// Reads an entity's row into the cache and returns it.
    pub(crate) async fn refresh_entity<E: Entity>(
        &self,
        name: &str,
    ) -> Result<Option<Arc<E>>, Error> {
        self.reread(&row_of::<E>(name).key).await?;
        self.entity(name)
    }

    /// Creates an entity.
    ///
    /// # Errors
    /// [`Error::EntityExists`]; [`Error::LimitExceeded`].
    pub async fn create_entity<E: Entity>(&self, entity: E) -> Result<Arc<E>, Error> {
        let name = entity.name().to_owned();
        if self.look(|cached| E::all(&cached.identities).len())? >= Limits::ENTITIES {
            let why = format!("Cannot exceed quota: {} of each kind", Limits::ENTITIES);
            return Err(Error::LimitExceeded(why));
        }
        let exists =
            || Error::EntityExists(format!("The {} with name {name} already exists.", E::WHAT));
        let row_key = row_of::<E>(&name);
        let value = row(codec::encode(&entity));
        let put = self.put_if_absent(row_key.clone(), value, exists()).await;
        if put.is_err() {
            self.reread(&row_key.key).await?;
        }
        put?;
        self.tell_changed(&row_key).await;
        Ok(Arc::new(entity))
    }

    /// Creates a user without access keys and groups.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::EntityExists`]; [`Error::NoSuchEntity`] for a policy that
    /// does not exist; [`Error::LimitExceeded`].
    #[boxed]
    pub async fn create_user(&self, new: NewUser) -> Result<Arc<User>, Error> {
        check_name("userName", &new.name, MAX_USER_NAME)?;
        check_path(&new.path)?;
        // In policies a key that is its own user is named as users are.
        let key = self.find_access_key(&new.name).await?;
        if key.is_some_and(|key| key.user.is_none()) {
            let why = format!("{} is the id of an access key", new.name);
            return Err(Error::EntityExists(why));
        }
        let mut user = User {
            name: new.name,
            path: new.path,
            created_ms: self.now_ms(),
            incarnation: self.new_incarnation(),
            disabled: false,
            confirmed: 0,
            quota: None,
            token: FencingToken::default(),
            is_undivided: false,
            groups: BTreeSet::new(),
            held: Held::default(),
            tags: new.tags,
        };
        let policies = Attachments {
            attach: new.attach,
            ..Attachments::default()
        };
        let policies = self.find_attachments(policies).await?;
        policies.apply(&mut user)?;
        self.create_with(user, policies).await
    }

    /// Creates a group without users and policies.
    ///
    /// # Errors
    /// [`Error::InvalidName`]; [`Error::EntityExists`]; [`Error::LimitExceeded`].
    #[boxed]
    pub async fn create_group(&self, name: &str, path: &str) -> Result<Arc<Group>, Error> {
        check_name("groupName", name, MAX_GROUP_NAME)?;
        check_path(path)?;
        self.create_entity(Group {
            name: name.to_owned(),
            path: path.to_owned(),
            created_ms: self.now_ms(),
            incarnation: self.new_incarnation(),
            confirmed: 0,
            held: Held::default(),
        })
        .await
    }

    /// Changes an entity's row and then the caches of all nodes, unless `change` fails. Returns the
    /// entity as this change wrote it: the row may have been changed again since.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`]; those of `change`.
    pub async fn change_entity<E: Entity>(
        &self,
        name: &str,
        change: impl Fn(&mut E) -> Result<(), Error> + Send + Sync,
    ) -> Result<Changed<Arc<E>>, Error> {
        let row_key = row_of::<E>(name);
        let read = |current: Option<&Value>| match current {
            Some(value) => codec::decode::<E>(&value.metadata).map_err(damaged_row),
            None => Err(none::<E>(name)),
        };
        let written = self.rewrite(&row_key, read, change).await?;
        let (read, unconfirmed) = self.announce(&row_key).await;
        let entity = read?.map(|metadata| codec::decode(&metadata).map_err(damaged_row));
        let now = entity.transpose()?.ok_or_else(|| none::<E>(name))?;
        Ok(Changed {
            value: Arc::new(written.unwrap_or(now)),
            unconfirmed,
        })
    }

    /// Deletes a user without access keys, groups and policies.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`], [`Error::EntityInUse`].
    #[boxed]
    pub async fn delete_user(&self, name: &str) -> Result<Changed<()>, Error> {
        let uses = |cached: &Cached, user: &User| {
            let own = Reference::to(user);
            let has_keys = cached
                .keys
                .values()
                .any(|key| key.user.as_ref() == Some(&own));
            match () {
                () if has_keys => Some("delete access keys"),
                // A group that is gone is none.
                () if user
                    .groups
                    .iter()
                    .any(|group| exists::<Group>(cached, group)) =>
                {
                    Some("remove users from group")
                }
                () => policies_of(user),
            }
        };
        self.delete_entity(name, uses).await
    }

    /// Deletes a group without users and policies.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`], [`Error::EntityInUse`].
    #[boxed]
    pub async fn delete_group(&self, name: &str) -> Result<Changed<()>, Error> {
        let uses = |cached: &Cached, group: &Group| {
            let own = Reference::to(group);
            let mut users = cached.identities.users.values();
            match users.any(|user| user.groups.contains(&own)) {
                true => Some("remove users from group"),
                false => policies_of(group),
            }
        };
        self.delete_entity(name, uses).await
    }

    /// Deletes a role without policies.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`], [`Error::EntityInUse`].
    #[boxed]
    pub async fn delete_role(&self, name: &str) -> Result<Changed<()>, Error> {
        self.delete_entity(name, |_, role: &Role| policies_of(role))
            .await
    }

    /// Deletes a managed policy that is attached to nothing and has one version.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`], [`Error::EntityInUse`].
    #[boxed]
    pub async fn delete_policy(&self, name: &str) -> Result<Changed<()>, Error> {
        let uses = |cached: &Cached, policy: &ManagedPolicy| match use_of(cached, policy) {
            None if policy.versions.len() > 1 => {
                Some("delete all non-default versions of the policy")
            }
            used => used,
        };
        self.delete_entity(name, uses).await
    }

    /// Deletes a managed policy that is attached to nothing, with all its versions.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`], [`Error::EntityInUse`].
    #[boxed]
    pub async fn delete_policy_and_versions(&self, name: &str) -> Result<Changed<()>, Error> {
        self.delete_entity(name, use_of).await
    }

    /// Deletes an identity provider. Its sessions end.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`].
    #[boxed]
    pub async fn delete_provider(&self, name: &str) -> Result<Changed<()>, Error> {
        self.delete_entity(name, |_, _: &Provider| None).await
    }

    /// Returns a managed policy by ARN: one of this account, or one that every cluster has.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`].
    #[boxed]
    pub async fn find_policy(&self, arn: &str) -> Result<Arc<ManagedPolicy>, Error> {
        if let Some(policy) = BUILT_IN.iter().find(|policy| policy.arn() == arn) {
            return Ok(Arc::new(policy.clone()));
        }
        let missing =
            || Error::NoSuchEntity(format!("Policy {arn} does not exist or is not attachable."));
        let name = managed_policy_arn(arn).ok_or_else(missing)?;
        let policy = self.find_entity::<ManagedPolicy>(name).await;
        match policy {
            Ok(policy) if policy.arn() == arn => Ok(policy),
            Ok(_) | Err(Error::NoSuchEntity(_)) => Err(missing()),
            Err(error) => Err(error),
        }
    }

    /// Returns a managed policy by its ARN or its name. A name that every cluster has a policy of
    /// means that one, so that nobody takes the name `AdministratorAccess` for another policy.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`].
    #[boxed]
    pub async fn named_policy(&self, text: &str) -> Result<Arc<ManagedPolicy>, Error> {
        match ManagedPolicy::built_in(text) {
            Some(policy) => Ok(Arc::new(policy.clone())),
            None if text.starts_with("arn:") => self.find_policy(text).await,
            None => self.find_entity(text).await,
        }
    }

    /// Returns the access keys of a user, sorted by id.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn keys_of_user(&self, user: &User) -> Result<Vec<Arc<AccessKey>>, Error> {
        let own = Reference::to(user);
        self.look(|cached| {
            let keys = cached.keys.values();
            let own = keys.filter(|key| key.user.as_ref() == Some(&own));
            own.cloned().collect()
        })
    }
}

fn exists<E: Entity>(cached: &Cached, reference: &Reference) -> bool {
    let found = E::all(&cached.identities).get(&reference.name.to_ascii_lowercase());
    found.is_some_and(|found| found.incarnation() == reference.incarnation)
}

/// Says what has to go before a managed policy can.
fn use_of(cached: &Cached, policy: &ManagedPolicy) -> Option<&'static str> {
    let attached = is_attached(cached, &PolicyRef::to(policy));
    attached.then_some("detach policy from all entities")
}

fn is_attached(cached: &Cached, policy: &PolicyRef) -> bool {
    let all = &cached.identities;
    let users = all.users.values().map(|user| &user.held);
    let groups = all.groups.values().map(|group| &group.held);
    let roles = all.roles.values().map(|role| &role.held);
    let mut all = users.chain(groups).chain(roles);
    all.any(|held| held.attached.contains(policy))
}

/// Says what has to go before a user, group or role can.
fn policies_of<E: Attached>(entity: &E) -> Option<&'static str> {
    match entity.held() {
        held if !held.inline.is_empty() => Some("delete policies"),
        held if !held.attached.is_empty() => Some("detach all policies"),
        _ => None,
    }
}
