//! Access checks: may this caller do this to this resource?

use archipel_access::{Action, Context, Decision, Identity, Inputs, Principal, Request, decide};
use archipel_model::{Bucket, GivenVersion, ObjectHead};

use super::conditions::On;
use super::{Caller, conditions};
use crate::s3::call::Call;

/// Decides about requests of one caller on one resource.
pub(super) struct AccessCheck<'a> {
    pub(super) principal: Principal<'a>,
    pub(super) bucket: &'a Bucket,
    pub(super) key: Option<&'a str>,
    pub(super) context: Context,
    pub(super) inputs: Inputs<'a>,
}

impl<'a> AccessCheck<'a> {
    pub(super) fn new(
        call: &Call<'_>,
        caller: &'a Caller,
        bucket: &'a Bucket,
        key: Option<(&'a str, Option<GivenVersion>)>,
    ) -> AccessCheck<'a> {
        let on = key.map_or(On::Bucket, |(_, version)| On::Object(version));
        // Only policies look at condition keys and canonical ids.
        let subject = caller.subject();
        let of_identity = subject.is_some_and(|subject| !subject.identity().is_empty());
        let (context, canonical_id) = match bucket.policy.is_some() || of_identity {
            true => (conditions::of(call, caller, on), caller.canonical_id()),
            false => (Context::default(), None),
        };
        AccessCheck {
            principal: bucket.principal(caller.subject(), canonical_id),
            bucket,
            key: key.map(|(key, _)| key),
            context,
            inputs: bucket.inputs(caller.subject()),
        }
    }

    /// Decides about an action. `object` is what the key holds, if that is known.
    pub(super) fn decide(&self, action: Action, object: Option<&ObjectHead>) -> Decision {
        let request = |context| Request {
            principal: self.principal,
            action,
            bucket: &self.bucket.name,
            key: self.key,
            context,
        };
        let Some(object) = object else {
            return decide(&request(&self.context), &self.inputs);
        };
        let mut context = self.context.clone();
        for (name, value) in &object.tags {
            context.add(&format!("{}{name}", conditions::EXISTING_TAG), value);
        }
        let inputs = Inputs {
            object_acl: Some(object.acl),
            ..self.inputs
        };
        decide(&request(&context), &inputs)
    }

    /// Returns true if one of the policies depends on a condition key that begins so. The key is in
    /// lower case.
    pub(super) fn depends_on(&self, key: &str) -> bool {
        let of_identity = self.inputs.identity.into_iter();
        let mut policies = of_identity
            .flat_map(Identity::all)
            .chain(self.inputs.policy);
        policies.any(|policy| policy.depends_on(key))
    }

    /// Returns true if the object itself may change a decision.
    pub(super) fn depends_on_object(&self, action: Action, decision: &Decision) -> bool {
        let lower = conditions::EXISTING_TAG.to_ascii_lowercase();
        let by_tags = conditions::knows_existing_tags(action) && self.depends_on(&lower);
        let by_list = !decision.is_allowed()
            && matches!(action, Action::GetObject | Action::GetObjectVersion)
            && self.bucket.ownership() != archipel_access::Ownership::BucketOwnerEnforced
            && !self.inputs.block.ignore_public_acls;
        by_tags || (by_list && !decision.is_explicit_deny())
    }
}
