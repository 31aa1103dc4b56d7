//! The policies of a principal.
//!
//! Source: AWS, "Policy evaluation logic", "Session policies" and "Evaluating identity-based
//! policies with resource-based policies".

use std::sync::Arc;

use crate::policy::{Asked, Effect, Policy};

/// A policy and its name.
pub type Named = (String, Arc<Policy>);

/// The policies of a principal.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Identity {
    /// Those of the user and its groups, or of the role.
    pub policies: Vec<Named>,
    /// Those that limit the session; `None` if nothing does.
    pub session: Option<Vec<Named>>,
}

impl Identity {
    /// Returns true if there is no policy.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.session.is_none()
    }

    /// Returns all policies.
    pub fn all(&self) -> impl Iterator<Item = &Policy> {
        let session = self.session.iter().flatten();
        self.policies
            .iter()
            .chain(session)
            .map(|(_, policy)| &**policy)
    }

    /// Returns the name of a policy of the user or role that denies what is asked.
    pub(crate) fn denies(&self, asked: &Asked<'_>) -> Option<String> {
        find(&self.policies, Effect::Deny, asked)
    }

    /// Returns the name of a policy of the session that denies what is asked.
    pub(crate) fn session_denies(&self, asked: &Asked<'_>) -> Option<String> {
        find(self.session.as_deref()?, Effect::Deny, asked)
    }

    /// Returns true if the policies of the session do not reach so far.
    pub(crate) fn limits(&self, asked: &Asked<'_>) -> bool {
        let session = self.session.as_deref();
        session.is_some_and(|session| find(session, Effect::Allow, asked).is_none())
    }

    /// Returns the name of a policy of the user or role that allows what is asked.
    pub(crate) fn allows(&self, asked: &Asked<'_>) -> Option<String> {
        find(&self.policies, Effect::Allow, asked)
    }
}

/// Finds a statement, and names it with its policy.
fn find(policies: &[Named], effect: Effect, asked: &Asked<'_>) -> Option<String> {
    policies.iter().find_map(|(name, policy)| {
        let statement = policy.find(effect, asked)?;
        Some(format!("{name}: {statement}"))
    })
}
