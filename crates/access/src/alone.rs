//! Decisions that no bucket takes part in: about users, policies and roles.
//!
//! Source: AWS, "Policy evaluation logic" and "Role trust policies".

use crate::action::Action;
use crate::context::Context;
use crate::decision::{Decision, Reason, denial};
use crate::identity::Identity;
use crate::policy::{Asked, Effect, Policy};
use crate::principal::Principal;

/// A request of a principal about users, policies or roles.
#[derive(Clone, Copy, Debug)]
pub struct IdentityRequest<'a> {
    /// The principal that asks.
    pub principal: Principal<'a>,
    /// The action that the principal asks for.
    pub action: Action,
    /// The ARN of the resource; `*` if there is none.
    pub resource: &'a str,
    /// The condition keys.
    pub context: &'a Context,
}

impl<'a> IdentityRequest<'a> {
    fn asked(&self) -> Asked<'a> {
        Asked {
            principal: self.principal,
            action: self.action,
            resource: self.resource,
            context: self.context,
        }
    }
}

/// Decides about an action of IAM: the policies of the identity alone allow it.
pub fn decide_for_identity(request: &IdentityRequest<'_>, identity: &Identity) -> Decision {
    let asked = request.asked();
    if let Some(reason) = denial(identity, &asked) {
        return Decision::Deny(reason);
    }
    if identity.limits(&asked) {
        return Decision::Deny(Reason::SessionLimits);
    }
    match identity.allows(&asked) {
        Some(name) => Decision::Allow(Reason::IdentityAllows(name)),
        None => Decision::Deny(Reason::NothingAllows),
    }
}

/// Decides whether the principal may assume a role. The trust policy of the role has to name the
/// principal, or the account; then the policies of the principal have to allow it, too.
pub fn decide_to_assume(
    request: &IdentityRequest<'_>,
    identity: &Identity,
    trust: &Policy,
) -> Decision {
    let asked = request.asked();
    if let Some(reason) = denial(identity, &asked) {
        return Decision::Deny(reason);
    }
    if let Some(name) = trust.find(Effect::Deny, &asked) {
        return Decision::Deny(Reason::TrustDenies(name));
    }
    if identity.limits(&asked) {
        return Decision::Deny(Reason::SessionLimits);
    }
    if let Some(name) = trust.find(Effect::Allow, &asked) {
        return Decision::Allow(Reason::TrustAllows(name));
    }
    if trust.find_for_account(&asked).is_none() {
        return Decision::Deny(Reason::NotTrusted);
    }
    match identity.allows(&asked) {
        Some(name) => Decision::Allow(Reason::IdentityAllows(name)),
        None => Decision::Deny(Reason::NothingAllows),
    }
}
