//! Attaching policies; who holds what.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_base::boxed;

use crate::Model;
use crate::bucket::AccessKey;
use crate::error::Error;
use crate::identity::{
    Attached, Attachments, Changed, Group, Holder, Limits, PolicyRef, Reference, Role, User,
    UserChange,
};

impl Model {
    /// Returns the users, groups and roles that each managed policy is attached to.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn holders(&self) -> Result<BTreeMap<PolicyRef, Vec<Holder>>, Error> {
        let mut holders = BTreeMap::new();
        self.add_holders::<User>(&mut holders)?;
        self.add_holders::<Group>(&mut holders)?;
        self.add_holders::<Role>(&mut holders)?;
        Ok(holders)
    }

    fn add_holders<E: Attached>(
        &self,
        to: &mut BTreeMap<PolicyRef, Vec<Holder>>,
    ) -> Result<(), Error> {
        for entity in self.entities::<E>()? {
            for policy in &entity.held().attached {
                to.entry(policy.clone()).or_default().push(Holder {
                    kind: E::WHAT,
                    name: entity.name().to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Returns the users of each group, sorted by name.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn members(&self) -> Result<BTreeMap<Reference, Vec<Arc<User>>>, Error> {
        let mut members = BTreeMap::<_, Vec<_>>::new();
        for user in self.entities::<User>()? {
            for group in &user.groups {
                members.entry(group.clone()).or_default().push(user.clone());
            }
        }
        Ok(members)
    }

    /// Returns the access keys of each user, sorted by id.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn keys_of_users(&self) -> Result<BTreeMap<Reference, Vec<Arc<AccessKey>>>, Error> {
        let mut keys = BTreeMap::<_, Vec<_>>::new();
        for key in self.access_keys()? {
            if let Some(user) = &key.user {
                keys.entry(user.clone()).or_default().push(key.clone());
            }
        }
        Ok(keys)
    }

    /// Attaches a managed policy to a user, group or role.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`], [`Error::LimitExceeded`].
    pub async fn attach<E: Attached>(&self, name: &str, arn: &str) -> Result<Changed<()>, Error> {
        let attach = Attachments {
            attach: vec![arn.to_owned()],
            ..Attachments::default()
        };
        self.reattach::<E>(name, attach).await.map(Changed::forget)
    }

    /// Detaches a managed policy from a user, group or role.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`].
    pub async fn detach<E: Attached>(&self, name: &str, arn: &str) -> Result<Changed<()>, Error> {
        let detach = Attachments {
            detach: vec![arn.to_owned()],
            ..Attachments::default()
        };
        self.reattach::<E>(name, detach).await.map(Changed::forget)
    }

    /// Attaches managed policies to a user, group or role and detaches others, in one write.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`], [`Error::LimitExceeded`].
    pub async fn reattach<E: Attached>(
        &self,
        name: &str,
        change: Attachments,
    ) -> Result<Changed<Arc<E>>, Error> {
        let change = self.find_attachments(change).await?;
        self.change_attached(name, change, |_| Ok(())).await
    }

    /// Changes a user in one write.
    ///
    /// # Errors
    /// [`Error::NoSuchEntity`], [`Error::LimitExceeded`].
    #[boxed]
    pub async fn change_user(
        &self,
        name: &str,
        change: UserChange,
    ) -> Result<Changed<Arc<User>>, Error> {
        let policies = self.find_attachments(change.policies).await?;
        self.change_attached(name, policies, move |user: &mut User| {
            user.disabled = change.disabled.unwrap_or(user.disabled);
            Ok(())
        })
        .await
    }

    /// Finds the policies that are to be attached.
    pub(super) async fn find_attachments(&self, change: Attachments) -> Result<Found, Error> {
        let mut attach = Vec::new();
        for arn in &change.attach {
            attach.push(PolicyRef::to(&*self.find_policy(arn).await?));
        }
        let detach = change.detach;
        Ok(Found { attach, detach })
    }
}

/// Managed policies to attach, which were found, and the ARNs of those to detach.
pub(super) struct Found {
    pub attach: Vec<PolicyRef>,
    detach: Vec<String>,
}

impl Found {
    pub(super) fn is_empty(&self) -> bool {
        self.attach.is_empty() && self.detach.is_empty()
    }

    /// Attaches the policies to an entity, and then detaches those to detach.
    pub(super) fn apply<E: Attached>(&self, entity: &mut E) -> Result<(), Error> {
        let attached = &mut entity.held_mut().attached;
        for policy in &self.attach {
            // A policy of the same name that was deleted is another one.
            attached.retain(|other| other.arn != policy.arn);
            attached.insert(policy.clone());
        }
        for arn in &self.detach {
            let before = attached.len();
            attached.retain(|other| other.arn != *arn);
            if attached.len() == before {
                return Err(Error::NoSuchEntity(format!("Policy {arn} was not found.")));
            }
        }
        if attached.len() > Limits::ATTACHED {
            return Err(Error::LimitExceeded(format!(
                "Cannot exceed quota for PoliciesPer{}: {}",
                E::WHAT,
                Limits::ATTACHED
            )));
        }
        Ok(())
    }
}
