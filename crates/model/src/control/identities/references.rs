//! References from one row to another, and deletions.
//!
//! A user names its groups, a key its user, and a user, group or role its managed policies. The row
//! that is named decides whether the reference or the deletion came first:
//!
//! - A deletion reads the row, then looks for references in all control data, and deletes the row
//!   only if it is still as it was read.
//! - A node that makes a reference writes it first, and then *confirms* it: a write of the row that
//!   is named. If the row is gone, the reference is taken back.
//!
//! So a deletion sees each reference that was confirmed before it read the row, and one that is
//! confirmed later finds the row changed or gone. A node that crashes before it confirms leaves a
//! reference that nobody was told of. It widens no rights: a policy that is gone denies everything.

use std::sync::Arc;

use archipel_base::codec;
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::engine::Durability;
use parking_lot::Mutex;

use super::attach::Found;
use super::operations::{none, row_of};
use crate::control::{Cached, row};
use crate::error::{Error, damaged_row};
use crate::identity::{
    Attached, Changed, Entity, Group, ManagedPolicy, PolicyRef, Reference, User,
};
use crate::{Model, detached};

/// The number of times that a deletion looks again because the row has changed meanwhile.
const TRIES: u32 = 10;

/// An entity that rows of others name.
pub(in crate::control) trait Referred: Entity {
    /// Changes the row, so that no deletion that looked for references before takes effect.
    fn confirm(&mut self);
}

macro_rules! referred {
    ($($type:ident)*) => {$(
        impl Referred for $type {
            fn confirm(&mut self) {
                self.confirmed = self.confirmed.wrapping_add(1);
            }
        }
    )*};
}

referred! { User Group ManagedPolicy }

impl Model {
    /// Confirms a reference that another row has got.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`] if the entity is gone. Then the reference must be taken back.
    pub(in crate::control) async fn confirm<E: Referred>(
        &self,
        to: &Reference,
    ) -> Result<(), Error> {
        let (row_key, incarnation) = (row_of::<E>(&to.name), to.incarnation);
        let how = WriteOptions::durable(Durability::Fsync);
        let missing = none::<E>(&to.name);
        // No node has to hear of this: only deletions compare it, and they read the row.
        self.cluster()
            .update(&row_key, how, move |current| {
                match current.map(|value| codec::decode::<E>(&value.metadata)) {
                    Some(Ok(mut entity)) if entity.incarnation() == incarnation => {
                        entity.confirm();
                        Decision::Write(Some(row(codec::encode(&entity))))
                    }
                    Some(Err(error)) => Decision::Abort(damaged_row(error)),
                    _ => Decision::Abort(missing.clone()),
                }
            })
            .await?
    }

    /// Confirms that policies are attached.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`] if one of them is gone.
    async fn confirm_attached(&self, policies: &[PolicyRef]) -> Result<(), Error> {
        for policy in policies.iter().filter(|policy| !policy.is_built_in()) {
            let to = Reference {
                name: policy.name().to_owned(),
                incarnation: policy.incarnation,
            };
            self.confirm::<ManagedPolicy>(&to).await?;
        }
        Ok(())
    }

    /// Changes an entity and the policies that are attached to it, in one write. If a policy to
    /// attach is deleted meanwhile, the change is undone. A caller that goes away does not stop it.
    pub(super) async fn change_attached<E: Attached>(
        &self,
        name: &str,
        policies: Found,
        change: impl Fn(&mut E) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Result<Changed<Arc<E>>, Error> {
        let (model, name) = (self.clone(), name.to_owned());
        let work = async move { model.change_attached_now(&name, policies, change).await };
        detached("attaches policies", work).await
    }

    async fn change_attached_now<E: Attached>(
        &self,
        name: &str,
        policies: Found,
        change: impl Fn(&mut E) -> Result<(), Error> + Send + Sync,
    ) -> Result<Changed<Arc<E>>, Error> {
        let written = Mutex::new(None);
        let changed = self.change_entity(name, |entity: &mut E| {
            let before = entity.clone();
            change(entity)?;
            policies.apply(entity)?;
            *written.lock() = Some((before, entity.clone()));
            Ok(())
        });
        let changed = changed.await?;
        let confirmed = self.confirm_attached(&policies.attach).await;
        if let (Err(Error::NoSuchEntity(_)), Some((before, after))) =
            (&confirmed, written.into_inner())
        {
            self.take_back(name, &policies, &before, &after).await?;
        }
        confirmed.map(|()| changed)
    }

    /// Undoes a change of an entity that attached policies. If the entity was changed again since,
    /// only the policies are detached.
    async fn take_back<E: Attached>(
        &self,
        name: &str,
        policies: &Found,
        before: &E,
        after: &E,
    ) -> Result<(), Error> {
        let undo = |entity: &mut E| {
            if entity == after {
                entity.clone_from(before);
            } else if entity.incarnation() == after.incarnation() {
                let attached = &mut entity.held_mut().attached;
                attached.retain(|policy| !policies.attach.contains(policy));
            }
            Ok(())
        };
        match self.change_entity(name, undo).await {
            Ok(_) | Err(Error::NoSuchEntity(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Creates a user with policies. If one of them is deleted meanwhile, there is no user. A
    /// caller that goes away does not stop it.
    pub(super) async fn create_with(
        &self,
        user: User,
        policies: Found,
    ) -> Result<Arc<User>, Error> {
        let model = self.clone();
        let work = async move {
            let user = model.create_entity(user).await?;
            let confirmed = model.confirm_attached(&policies.attach).await;
            if let Err(Error::NoSuchEntity(_)) = confirmed {
                model.delete_same(&*user).await?;
            }
            confirmed.map(|()| user)
        };
        detached("creates a user", work).await
    }

    /// Deletes an entity that nothing uses. `uses` tells from all control data what does. A caller
    /// that goes away does not stop it.
    pub(super) async fn delete_entity<E: Entity>(
        &self,
        name: &str,
        uses: impl Fn(&Cached, &E) -> Option<&'static str> + Send + Sync + 'static,
    ) -> Result<Changed<()>, Error> {
        let (model, name) = (self.clone(), name.to_owned());
        let deletion = async move {
            for _ in 0..TRIES {
                if let Some(deleted) = model.delete_unused(&name, &uses).await? {
                    return Ok(deleted);
                }
            }
            Err(Error::Conflict)
        };
        detached("deletes a user, group, role or policy", deletion).await
    }

    /// Deletes an entity that nothing uses; `None` if it was changed meanwhile.
    async fn delete_unused<E: Entity>(
        &self,
        name: &str,
        uses: &(impl Fn(&Cached, &E) -> Option<&'static str> + Sync),
    ) -> Result<Option<Changed<()>>, Error> {
        // The row is read before the references to it are looked for.
        let entity = self.refresh_entity::<E>(name).await?;
        let entity = entity.ok_or_else(|| none::<E>(name))?;
        self.refresh_all().await?;
        if let Some(what) = self.look(|cached| uses(cached, &entity))? {
            return Err(Error::EntityInUse(format!(
                "Cannot delete entity, must {what} first."
            )));
        }
        self.delete_same(&*entity).await
    }

    /// Deletes an entity, if its row is still the same; else `None`.
    async fn delete_same<E: Entity>(&self, entity: &E) -> Result<Option<Changed<()>>, Error> {
        let row_key = row_of::<E>(entity.name());
        let missing = none::<E>(entity.name());
        let how = WriteOptions::durable(Durability::Fsync);
        let deleted = self.cluster().update(&row_key, how, |current| {
            match current.map(|value| codec::decode::<E>(&value.metadata)) {
                Some(Ok(current)) if current == *entity => Decision::Write(None),
                Some(Ok(current)) if current.incarnation() == entity.incarnation() => {
                    Decision::Abort(Error::Conflict)
                }
                Some(Err(error)) => Decision::Abort(damaged_row(error)),
                _ => Decision::Abort(missing.clone()),
            }
        });
        match deleted.await? {
            Ok(()) => {}
            Err(Error::Conflict) => return Ok(None),
            Err(error) => return Err(error),
        }
        self.control().remove(&row_key.key)?;
        self.control().dead_grants.ask();
        let (_, unconfirmed) = self.announce(&row_key).await;
        Ok(Some(Changed {
            value: (),
            unconfirmed,
        }))
    }
}
