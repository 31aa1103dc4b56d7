//! Attaching policies, and joining groups.

use super::operations::reference;
use crate::Model;
use crate::error::Error;
use crate::identity::{
    Attached, Changed, Group, Holder, Limits, ManagedPolicy, PolicyRef, Reference, Role, User,
};

impl Model {
    /// Returns the users, groups and roles that a managed policy is attached to.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn holders(&self, policy: &ManagedPolicy) -> Result<Vec<Holder>, Error> {
        let meant = reference(policy);
        let mut all = self.holders_of_kind::<User>(&meant)?;
        all.extend(self.holders_of_kind::<Group>(&meant)?);
        all.extend(self.holders_of_kind::<Role>(&meant)?);
        Ok(all)
    }

    fn holders_of_kind<E: Attached>(&self, meant: &PolicyRef) -> Result<Vec<Holder>, Error> {
        let all = self.entities::<E>()?.into_iter();
        let holders = all.filter(|entity| entity.held().attached.contains(meant));
        let holders = holders.map(|entity| Holder {
            kind: E::WHAT,
            name: entity.name().to_owned(),
        });
        Ok(holders.collect())
    }

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
