//! Those whom a policy names: found when the policy is stored, so that a later holder of
//! the name does not get what was meant for an earlier one.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_access::Policy;
use archipel_base::{Id, boxed};

use crate::Model;
use crate::error::Error;
use crate::identity::{Attached, Canonical, ROOT_PATH, Role, User, sessions_in_policies};

impl Model {
    /// Returns the incarnations of the users, access keys and roles that a policy names, and of the
    /// roles whose sessions it names; or the first name that nobody has.
    ///
    /// # Errors
    /// As [`Model::find_bucket`].
    #[boxed]
    pub async fn incarnations_of(
        &self,
        policy: &Policy,
    ) -> Result<Result<BTreeMap<String, Id>, String>, Error> {
        let mut all = BTreeMap::new();
        for name in policy.users() {
            match self.incarnation_of_user(name).await? {
                Some(incarnation) => drop(all.insert(name.to_owned(), incarnation)),
                None => return Ok(Err(name.to_owned())),
            }
        }
        for text in policy.roles() {
            let role = self.named::<Role>(text).await?;
            match role {
                Some(role) => drop(all.insert(format!("role/{text}"), role.incarnation)),
                None => return Ok(Err(text.to_owned())),
            }
        }
        for name in policy.roles_of_sessions() {
            let role = self.exactly_named::<Role>(name).await?;
            match role {
                Some(role) => drop(all.insert(sessions_in_policies(name), role.incarnation)),
                None => return Ok(Err(name.to_owned())),
            }
        }
        Ok(Ok(all))
    }

    /// Finds a user by path and name, an access key that is a user of its own, or the user or role
    /// with this unique id.
    async fn incarnation_of_user(&self, name: &str) -> Result<Option<Id>, Error> {
        if let Some(user) = self.named::<User>(name).await? {
            return Ok(Some(user.incarnation));
        }
        if name.contains('/') {
            return Ok(None);
        }
        if let Some(key) = self.find_access_key(name).await? {
            // A key of a user is no user.
            return Ok(Some(key.incarnation).filter(|_| key.user.is_none()));
        }
        let users = self.entities::<User>()?;
        let roles = self.entities::<Role>()?;
        let user = users.iter().find(|user| user.id() == name);
        let role = roles.iter().find(|role| role.id() == name);
        let role = role.map(|role| role.incarnation);
        Ok(user.map(|user| user.incarnation).or(role))
    }

    /// Finds an entity by `path/name`.
    async fn named<E: Attached>(&self, text: &str) -> Result<Option<Arc<E>>, Error> {
        let (path, name) = match text.rsplit_once('/') {
            Some((path, name)) => (format!("/{path}/"), name),
            None => (ROOT_PATH.to_owned(), text),
        };
        let found = self.exactly_named::<E>(name).await?;
        Ok(found.filter(|found| found.path() == path))
    }

    /// Finds an entity by name, whatever its path. In policies the case of names counts.
    async fn exactly_named<E: Attached>(&self, name: &str) -> Result<Option<Arc<E>>, Error> {
        match self.find_entity::<E>(name).await {
            Ok(found) => Ok(Some(found).filter(|found| found.name() == name)),
            Err(Error::NoSuchEntity(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all users, and the access keys that are users of their own.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn canonical_principals(&self) -> Result<Vec<Canonical>, Error> {
        let keys = self.access_keys()?.into_iter();
        let keys = keys.filter(|key| key.user.is_none()).map(|key| Canonical {
            id: key.id.clone(),
            name: key.id.clone(),
            incarnation: key.incarnation,
        });
        let users = self.entities::<User>()?;
        let users = users.iter().map(|user| Canonical {
            id: user.id(),
            name: format!("{}{}", user.path.trim_start_matches('/'), user.name),
            incarnation: user.incarnation,
        });
        Ok(keys.chain(users).collect())
    }
}
