//! Bucket, identity and session policies together say what a slow reference says, which follows
//! AWS's flow chart step by step.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use super::properties::{Keys, keys, one_of, policy};
use super::reference::{self, Asked, Said};
use super::user;
use crate::{Action, Context, Grants, Identity, Inputs, Policy, Request, decide};

/// A policy without principals.
fn of_identity() -> impl Strategy<Value = Value> {
    policy().prop_map(|mut policy| {
        for statement in policy["Statement"].as_array_mut().unwrap() {
            let statement = statement.as_object_mut().unwrap();
            statement.remove("Principal");
            statement.remove("NotPrincipal");
        }
        policy
    })
}

fn named(policies: &[Value]) -> Vec<(String, Arc<Policy>)> {
    let read = |policy: &Value| Policy::parse_identity(&policy.to_string()).unwrap();
    let policies = policies.iter().enumerate();
    policies
        .map(|(n, policy)| (n.to_string(), Arc::new(read(policy))))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn policies_together_agree_with_the_reference(
        bucket in prop::option::of(policy()),
        identity in prop::collection::vec(of_identity(), 0..3),
        session in prop::option::of(prop::collection::vec(of_identity(), 0..3)),
        read in any::<bool>(),
        action in prop::sample::select(vec![Action::GetObject, Action::PutObject]),
        key in one_of(&["home/AK1/x", "home/x", "x"]),
        keys in keys(),
    ) {
        let principal = user("AK1");
        let mut context = Context::of(principal);
        for (name, values) in keys {
            context.set_all(&name, values);
        }
        let all: Keys = context.iter().map(|(n, v)| (n.to_owned(), v.to_vec())).collect();
        let asked = Asked {
            user: Some("AK1"),
            action: action.name(),
            resource: &format!("arn:aws:s3:::bucket/{key}"),
            keys: &all,
        };
        let says = |policies: &[Value]| -> Vec<Said> {
            policies.iter().map(|policy| reference::evaluate(policy, &asked)).collect()
        };
        let buckets = says(bucket.as_slice());
        let identities = says(&identity);
        let sessions = session.as_deref().map(says);
        let denied = [&buckets, &identities, sessions.as_ref().unwrap_or(&Vec::new())]
            .iter()
            .any(|said| said.contains(&Said::Denies));
        let granted = read && action == Action::GetObject;
        let allowed = granted || buckets.contains(&Said::Allows) || identities.contains(&Said::Allows);
        let reached = sessions.is_none_or(|said| said.contains(&Said::Allows));
        let expected = !denied && allowed && reached;

        let parsed = bucket.map(|policy| Policy::stored(&policy.to_string()));
        let identity = Identity {
            policies: named(&identity),
            session: session.as_deref().map(named),
        };
        let inputs = Inputs {
            policy: parsed.as_ref(),
            identity: Some(&identity),
            grants: Grants { read, ..Grants::default() },
            ..Inputs::default()
        };
        let request = Request {
            principal,
            action,
            bucket: "bucket",
            key: Some(&key),
            context: &context,
        };
        let decision = decide(&request, &inputs);
        prop_assert_eq!(decision.is_allowed(), expected, "{:?}", decision);
    }

    /// No text makes the readers panic.
    #[test]
    fn any_text_is_a_policy_of_an_identity_or_an_error(
        text in ".{0,200}",
        json in of_identity(),
        at in any::<prop::sample::Index>(),
    ) {
        let _ = Policy::parse_identity(&text);
        let _ = Policy::parse_trust(&text);
        let mut damaged: Vec<char> = json.to_string().chars().collect();
        let at = at.index(damaged.len());
        damaged[at] = 'x';
        let damaged: String = damaged.into_iter().collect();
        let _ = Policy::parse_identity(&damaged);
        let _ = Policy::parse_trust(&damaged);
    }
}
