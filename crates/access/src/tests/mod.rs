//! Tests of policies and of the decision.

mod examples;
mod examples_of_conditions;
mod identities;
mod identity_properties;
mod malformed;
mod properties;
mod reference;
mod rules;
mod variables;

use crate::{Action, Context, Decision, Grants, Inputs, Policy, Principal, Request, decide};

/// A user without grants.
pub fn user(name: &str) -> Principal<'_> {
    Principal::of_key(name)
}

/// Decides by a policy of `bucket` alone.
pub fn by_policy(
    policy: &str,
    principal: Principal<'_>,
    action: Action,
    key: Option<&str>,
    keys: &[(&str, &str)],
) -> Decision {
    let policy = Policy::parse(policy, "bucket").unwrap();
    let mut context = Context::of(principal);
    for (name, value) in keys {
        context.add(name, *value);
    }
    let request = Request {
        principal,
        action,
        bucket: "bucket",
        key,
        context: &context,
    };
    let inputs = Inputs {
        policy: Some(&policy),
        ..Inputs::default()
    };
    decide(&request, &inputs)
}

/// All grants on a bucket.
pub const ALL: Grants = Grants {
    read: true,
    write: true,
    owner: true,
    create_buckets: true,
    list_buckets: true,
};
