//! The condition keys of a request. A key that is not set is absent, as in AWS.

use crate::principal::{ACCOUNT, Principal, provider_arn};

/// The condition keys of a request and their values. Names of keys are in any case.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Context(Vec<(String, Vec<String>)>);

impl Context {
    /// Returns the keys that describe a principal: `aws:PrincipalType`, `aws:userid` and so on.
    pub fn of(principal: Principal<'_>) -> Context {
        let mut context = Context::default();
        match principal {
            Principal::Anonymous => {
                context.set("aws:PrincipalType", "Anonymous");
                context.set("aws:PrincipalAccount", "anonymous");
                context.set("aws:userid", "anonymous");
            }
            Principal::User { name, id, .. } => {
                context.set("aws:PrincipalType", "User");
                context.set("aws:userid", id);
                context.set("aws:username", name);
            }
            Principal::Role { id, session, .. } => {
                context.set("aws:PrincipalType", "AssumedRole");
                context.set("aws:userid", format!("{id}:{session}"));
            }
            Principal::Federated { provider } => {
                context.set("aws:FederatedProvider", provider_arn(provider));
            }
        }
        if let Some(arn) = principal.identity_arn() {
            context.set("aws:PrincipalAccount", ACCOUNT);
            context.set("aws:PrincipalArn", arn);
        }
        context
    }

    /// Sets a key to one value.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.set_all(key, [value.into()]);
    }

    /// Sets a key to several values. Without values the key is absent, so that `Null` sees no empty list
    /// as present.
    pub fn set_all(&mut self, key: &str, values: impl IntoIterator<Item = String>) {
        let key = key.to_ascii_lowercase();
        self.0.retain(|(other, _)| *other != key);
        let values: Vec<String> = values.into_iter().collect();
        if !values.is_empty() {
            self.0.push((key, values));
        }
    }

    /// Adds a value to a key.
    pub fn add(&mut self, key: &str, value: impl Into<String>) {
        let key = key.to_ascii_lowercase();
        match self.0.iter_mut().find(|(other, _)| *other == key) {
            Some((_, values)) => values.push(value.into()),
            None => self.0.push((key, vec![value.into()])),
        }
    }

    /// Returns the values of a key, which is in lower case; `None` if it is absent.
    pub(crate) fn get(&self, key: &str) -> Option<&[String]> {
        let found = self.0.iter().find(|(other, _)| other == key);
        found.map(|(_, values)| values.as_slice())
    }

    /// Returns all keys, in lower case, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0
            .iter()
            .map(|(key, values)| (key.as_str(), values.as_slice()))
    }
}
