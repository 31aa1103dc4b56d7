//! The condition keys of a request. A key that is not set is absent, as in AWS.

use std::borrow::Cow;

use crate::principal::{ACCOUNT, Principal, provider_arn};

/// The condition keys of a request and their values. Names of keys are in any case.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Context(Vec<Entry>);

/// A condition key and its values.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Entry {
    /// The key, in lower case.
    key: String,
    values: Vec<String>,
    /// The [spelling](spelling) of the key for each value that was added.
    spellings: Vec<String>,
}

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

    /// Sets a key to several values. Without values the key is absent, so that `Null` sees no empty
    /// list as present.
    pub fn set_all(&mut self, key: &str, values: impl IntoIterator<Item = String>) {
        let key = key.to_ascii_lowercase();
        self.0.retain(|other| other.key != key);
        let values: Vec<String> = values.into_iter().collect();
        if !values.is_empty() {
            self.0.push(Entry {
                key,
                values,
                spellings: Vec::new(),
            });
        }
    }

    /// Adds the value of a tag to a key that ends with the tag's name. Tags of objects and buckets
    /// may have names that differ in case only, so that such a key has several values.
    pub fn add(&mut self, key: &str, value: impl Into<String>) {
        let (lower, value, spelling) = (key.to_ascii_lowercase(), value.into(), spelling(key));
        match self.0.iter_mut().find(|other| other.key == lower) {
            Some(entry) => {
                entry.values.push(value);
                entry.spellings.push(spelling);
            }
            None => self.0.push(Entry {
                key: lower,
                values: vec![value],
                spellings: vec![spelling],
            }),
        }
    }

    /// Returns the values of a key, which is in lower case, for a policy that spells it so; `None`
    /// if it is absent. If one of several tags has exactly that name, the others do not count: a
    /// second tag must not decide about the first.
    pub(crate) fn get_spelled(&self, key: &str, spelled: &str) -> Option<Cow<'_, [String]>> {
        let entry = self.0.iter().find(|other| other.key == key)?;
        let is_exact = |one: &String| one == spelled;
        if entry.spellings.len() < 2 || !entry.spellings.iter().any(is_exact) {
            return Some(Cow::Borrowed(&entry.values));
        }
        let both = entry.spellings.iter().zip(&entry.values);
        let exact = both.filter(|(one, _)| is_exact(one));
        Some(exact.map(|(_, value)| value.clone()).collect())
    }

    /// Returns all keys, in lower case, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0
            .iter()
            .map(|entry| (entry.key.as_str(), entry.values.as_slice()))
    }
}

/// Returns a key in lower case, but for the name of a tag at its end.
pub(crate) fn spelling(key: &str) -> String {
    match key.split_once('/') {
        Some((kind, tag)) => format!("{}/{tag}", kind.to_ascii_lowercase()),
        None => key.to_ascii_lowercase(),
    }
}
