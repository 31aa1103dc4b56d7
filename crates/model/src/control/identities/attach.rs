//! Attaching policies, and joining groups.

use super::operations::reference;
use crate::Model;
use crate::error::Error;
use crate::identity::{Attached, Changed, Group, Limits, Reference, User};

impl Model {
    /// Attaches a managed policy to a user, group or role.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`], [`Error::LimitExceeded`].
    pub async fn attach<E: Attached>(&self, name: &str, arn: &str) -> Result<Changed<()>, Error> {
        let policy = reference(&*self.find_policy(arn).await?);
        let changed = self.change_entity::<E>(name, move |entity| {
            let attached = &mut entity.held_mut().attached;
            // A policy of the same name that was deleted is another one.
            attached.retain(|other| other.arn != policy.arn);
            attached.insert(policy.clone());
            match attached.len() > Limits::ATTACHED {
                true => Err(Error::LimitExceeded(format!(
                    "Cannot exceed quota for PoliciesPer{}: {}",
                    E::WHAT,
                    Limits::ATTACHED
                ))),
                false => Ok(()),
            }
        });
        changed.await.map(Changed::forget)
    }

    /// Detaches a managed policy from a user, group or role.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`].
    pub async fn detach<E: Attached>(&self, name: &str, arn: &str) -> Result<Changed<()>, Error> {
        let changed = self.change_entity::<E>(name, |entity| {
            let attached = &mut entity.held_mut().attached;
            let before = attached.len();
            attached.retain(|other| other.arn != arn);
            match attached.len() == before {
                true => Err(Error::NoSuchEntity(format!("Policy {arn} was not found."))),
                false => Ok(()),
            }
        });
        changed.await.map(Changed::forget)
    }

    /// Adds a user to a group.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`], [`Error::LimitExceeded`].
    pub async fn join_group(&self, user: &str, group: &str) -> Result<Changed<()>, Error> {
        let group = Reference::to(&*self.find_entity::<Group>(group).await?);
        let changed = self.change_entity::<User>(user, move |user| {
            user.groups.retain(|other| other.name != group.name);
            user.groups.insert(group.clone());
            match user.groups.len() > Limits::GROUPS {
                true => Err(Error::LimitExceeded(format!(
                    "Cannot exceed quota for GroupsPerUser: {}",
                    Limits::GROUPS
                ))),
                false => Ok(()),
            }
        });
        changed.await.map(Changed::forget)
    }

    /// Removes a user from a group.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`].
    pub async fn leave_group(&self, user: &str, group: &str) -> Result<Changed<()>, Error> {
        let group = Reference::to(&*self.find_entity::<Group>(group).await?);
        let changed =
            self.change_entity::<User>(user, move |user| match user.groups.remove(&group) {
                true => Ok(()),
                false => Err(Error::NoSuchEntity(format!(
                    "The user {} is not in the group {}.",
                    user.name, group.name
                ))),
            });
        changed.await.map(Changed::forget)
    }
}
