//! Policies of identities, sessions and roles: AWS's rules and documented examples.

use std::sync::Arc;

use super::{ALL, user};
use crate::{
    Action, Context, Decision, Grants, Identity, IdentityRequest, Inputs, Policy, Principal,
    Reason, Request, decide, decide_for_identity, decide_to_assume,
};

const ALICE: Principal<'static> = Principal::User {
    name: "alice",
    path: "/team/",
    id: "AIDAALICE",
    canonical_id: None,
};

const SESSION: Principal<'static> = Principal::Role {
    name: "reader",
    path: "/",
    id: "AROAREADER",
    session: "s1",
};

fn read(text: &str) -> Arc<Policy> {
    Arc::new(Policy::parse_identity(text).unwrap())
}

fn statement(effect: &str, action: &str, resource: &str) -> String {
    format!(
        r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "{effect}", "Action": "{action}",
            "Resource": "{resource}"}}}}"#
    )
}

fn identity(policies: &[String], session: Option<&[String]>) -> Identity {
    let named = |texts: &[String]| texts.iter().map(|t| ("p".to_owned(), read(t))).collect();
    Identity {
        policies: named(policies),
        session: session.map(named),
    }
}

fn ask(
    principal: Principal<'_>,
    action: Action,
    key: Option<&str>,
    inputs: &Inputs<'_>,
) -> Decision {
    let context = Context::of(principal);
    let request = Request {
        principal,
        action,
        bucket: "bucket",
        key,
        context: &context,
    };
    decide(&request, inputs)
}

fn with(identity: &Identity) -> Inputs<'_> {
    Inputs {
        identity: Some(identity),
        ..Inputs::default()
    }
}

#[test]
fn a_policy_of_the_user_allows_and_denies() {
    let get = statement(
        "Allow",
        "s3:GetObject",
        "arn:aws:s3:::bucket/home/${aws:username}/*",
    );
    let allowing = identity(std::slice::from_ref(&get), None);
    let decision = ask(
        ALICE,
        Action::GetObject,
        Some("home/alice/x"),
        &with(&allowing),
    );
    assert_eq!(
        decision,
        Decision::Allow(Reason::IdentityAllows("p: Statement[0]".into()))
    );
    for key in ["home/bob/x", "home/alice", "x"] {
        let decision = ask(ALICE, Action::GetObject, Some(key), &with(&allowing));
        assert_eq!(decision, Decision::Deny(Reason::NothingAllows), "{key}");
    }
    let deny = statement("Deny", "s3:*", "*");
    let denying = identity(&[get, deny], None);
    for grants in [Grants::default(), ALL] {
        let inputs = Inputs {
            grants,
            ..with(&denying)
        };
        for action in [Action::GetObject, Action::PutObject] {
            let decision = ask(ALICE, action, Some("home/alice/x"), &inputs);
            assert!(decision.is_explicit_deny(), "{decision:?}");
        }
        // The rule for owners keeps a bucket's policy from locking them out, and nothing else.
        let decision = ask(ALICE, Action::PutBucketPolicy, None, &inputs);
        assert!(decision.is_explicit_deny(), "{decision:?}");
    }
}

#[test]
fn a_session_does_what_both_its_policy_and_its_role_allow() {
    let role = [statement("Allow", "s3:*", "*")];
    let only = [statement(
        "Allow",
        "s3:GetObject",
        "arn:aws:s3:::bucket/a/*",
    )];
    let session = identity(&role, Some(&only));
    let may = |action, key, inputs: &Inputs<'_>| ask(SESSION, action, Some(key), inputs);
    assert!(may(Action::GetObject, "a/x", &with(&session)).is_allowed());
    for (action, key) in [(Action::PutObject, "a/x"), (Action::GetObject, "b/x")] {
        for grants in [Grants::default(), ALL] {
            let inputs = Inputs {
                grants,
                ..with(&session)
            };
            let decision = may(action, key, &inputs);
            assert_eq!(decision, Decision::Deny(Reason::SessionLimits));
        }
    }
    // The policy of the session gives nothing that the role does not have.
    let nothing = identity(&[], Some(&only));
    let decision = may(Action::GetObject, "a/x", &with(&nothing));
    assert_eq!(decision, Decision::Deny(Reason::NothingAllows));
    // An empty list of policies allows nothing.
    let empty = identity(&role, Some(&[]));
    let decision = may(Action::GetObject, "a/x", &with(&empty));
    assert_eq!(decision, Decision::Deny(Reason::SessionLimits));
}

/// AWS, "Session policies": a bucket's policy that names the role is limited by the policy of the
/// session; one that names the session itself is not.
#[test]
fn a_bucket_policy_may_name_the_role_or_the_session() {
    let policy = |principal: &str| {
        let text = format!(
            r#"{{"Statement": {{"Effect": "Allow", "Principal": {{"AWS": "{principal}"}},
                "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*"}}}}"#
        );
        Policy::parse(&text, "bucket").unwrap()
    };
    let role = policy("arn:aws:iam::000000000000:role/reader");
    let session = policy("arn:aws:sts::000000000000:assumed-role/reader/s1");
    let other = policy("arn:aws:sts::000000000000:assumed-role/reader/s2");
    let free = identity(&[], None);
    let limited = identity(&[], Some(&[statement("Allow", "s3:PutObject", "*")]));
    for (policy, of_free, of_limited) in [
        (&role, true, false),
        (&session, true, true),
        (&other, false, false),
    ] {
        for (identity, expected) in [(&free, of_free), (&limited, of_limited)] {
            let inputs = Inputs {
                policy: Some(policy),
                ..with(identity)
            };
            let decision = ask(SESSION, Action::GetObject, Some("k"), &inputs);
            assert_eq!(decision.is_allowed(), expected, "{policy:?} {identity:?}");
        }
    }
}

#[test]
fn users_are_named_with_their_path() {
    let names = |element: &str| {
        let text = format!(
            r#"{{"Statement": {{"Effect": "Allow", "Principal": {{"AWS": "{element}"}},
                "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*"}}}}"#
        );
        let policy = Policy::parse(&text, "bucket").unwrap();
        let inputs = Inputs {
            policy: Some(&policy),
            ..Inputs::default()
        };
        ask(ALICE, Action::GetObject, Some("k"), &inputs).is_allowed()
    };
    assert!(names("arn:aws:iam::000000000000:user/team/alice"));
    assert!(names("AIDAALICE"));
    assert!(!names("arn:aws:iam::000000000000:user/alice"));
    assert!(!names("arn:aws:iam::000000000000:user/xteam/alice"));
    assert!(!names("arn:aws:iam::000000000000:role/team/alice"));
}

#[test]
fn actions_of_iam_need_a_policy_of_the_identity() {
    let own = "arn:aws:iam::*:user/team/${aws:username}";
    let keys = identity(&[statement("Allow", "iam:*AccessKey*", own)], None);
    let may = |action, resource: &str| {
        let context = Context::of(ALICE);
        let request = IdentityRequest {
            principal: ALICE,
            action,
            resource,
            context: &context,
        };
        decide_for_identity(&request, &keys).is_allowed()
    };
    let alice = "arn:aws:iam::000000000000:user/team/alice";
    assert!(may(Action::CreateAccessKey, alice));
    assert!(may(Action::ListAccessKeys, alice));
    assert!(!may(
        Action::CreateAccessKey,
        "arn:aws:iam::000000000000:user/bob"
    ));
    assert!(!may(Action::PutUserPolicy, alice));
}

fn trust(principal: &str, more: &str) -> Policy {
    let text = format!(
        r#"{{"Version": "2012-10-17", "Statement": [{{"Effect": "Allow",
            "Principal": {principal}, "Action": "sts:AssumeRole*"{more}}}]}}"#
    );
    Policy::parse_trust(&text).unwrap()
}

#[test]
fn a_role_trusts_principals_or_lets_the_account_decide() {
    const ROLE: &str = "arn:aws:iam::000000000000:role/reader";
    let assume = |principal, identity: &Identity, trust: &Policy| {
        let context = Context::of(principal);
        let request = IdentityRequest {
            principal,
            action: Action::AssumeRole,
            resource: ROLE,
            context: &context,
        };
        decide_to_assume(&request, identity, trust)
    };
    let nothing = Identity::default();
    let allowing = identity(&[statement("Allow", "sts:AssumeRole", ROLE)], None);
    let denying = identity(&[statement("Deny", "sts:*", "*")], None);
    let named = trust(
        r#"{"AWS": "arn:aws:iam::000000000000:user/team/alice"}"#,
        "",
    );
    assert!(assume(ALICE, &nothing, &named).is_allowed());
    assert!(!assume(user("AK1"), &allowing, &named).is_allowed());
    assert!(!assume(ALICE, &denying, &named).is_allowed());
    let account = trust(r#"{"AWS": "arn:aws:iam::000000000000:root"}"#, "");
    assert_eq!(
        assume(ALICE, &nothing, &account),
        Decision::Deny(Reason::NothingAllows)
    );
    assert!(assume(ALICE, &allowing, &account).is_allowed());
    assert!(!assume(Principal::Anonymous, &allowing, &account).is_allowed());
    let nobody = trust(r#"{"Service": "ec2.amazonaws.com"}"#, "");
    assert_eq!(
        assume(ALICE, &allowing, &nobody),
        Decision::Deny(Reason::NotTrusted)
    );
}

/// AWS, "Creating a role for web identity or OpenID Connect federation".
#[test]
fn a_role_trusts_an_identity_provider_on_conditions() {
    let arn = "arn:aws:iam::000000000000:oidc-provider/id.example.org/realm";
    let policy = trust(
        &format!(r#"{{"Federated": "{arn}"}}"#),
        r#", "Condition": {"StringEquals": {"id.example.org/realm:aud": "archipel",
            "id.example.org/realm:sub": ["job-1", "job-2"]}}"#,
    );
    let may = |provider: &str, audience: &str, subject: &str| {
        let principal = Principal::Federated { provider };
        let mut context = Context::of(principal);
        context.set("id.example.org/realm:aud", audience);
        context.set("id.example.org/realm:sub", subject);
        let request = IdentityRequest {
            principal,
            action: Action::AssumeRoleWithWebIdentity,
            resource: "arn:aws:iam::000000000000:role/reader",
            context: &context,
        };
        decide_to_assume(&request, &Identity::default(), &policy).is_allowed()
    };
    assert!(may("id.example.org/realm", "archipel", "job-2"));
    assert!(!may("id.example.org/realm", "other", "job-2"));
    assert!(!may("id.example.org/realm", "archipel", "job-3"));
    assert!(!may("id.example.org", "archipel", "job-2"));
}

#[test]
fn policies_of_identities_and_roles_are_read_strictly() {
    let identity = |text: &str| match Policy::parse_identity(text) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    };
    for action in [
        "s3:Get*",
        "s3:Describe*",
        "*",
        "ec2:RunInstances",
        "iam:ListUsers",
        "iam:PassRole",
        "s3:ListAccessPoints",
        "sts:*",
    ] {
        assert_eq!(
            identity(&statement("Allow", action, "*")),
            "accepted",
            "{action}"
        );
    }
    for action in ["GetObject", "s3:", ":x", "a b:c"] {
        let said = identity(&statement("Allow", action, "*"));
        assert!(
            said.starts_with("Policy has invalid action"),
            "{action}: {said}"
        );
    }
    let said = identity(&statement("Allow", "s3:GetObject", "bucket/*"));
    assert!(said.starts_with("Policy has invalid resource"), "{said}");
    let principal = r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:*",
        "Resource": "*"}}"#;
    assert!(identity(principal).contains("names no principal"));

    let trust = |text: &str| {
        Policy::parse_trust(text)
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    let resource = r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Resource": "*",
        "Action": "sts:AssumeRole"}}"#;
    assert!(trust(resource).unwrap_err().contains("names no resource"));
    let of_s3 = r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:Get*"}}"#;
    assert!(trust(of_s3).unwrap_err().contains("no action of STS"));
    let federated = r#"{"Statement": {"Effect": "Allow", "Action": "s3:GetObject",
        "Principal": {"Federated": "arn:aws:iam::000000000000:oidc-provider/x"},
        "Resource": "arn:aws:s3:::bucket/*"}}"#;
    assert!(Policy::parse(federated, "bucket").is_err());
    // A service of AWS is nobody here, and makes nothing public.
    let service = federated.replace(
        r#"{"Federated": "arn:aws:iam::000000000000:oidc-provider/x"}"#,
        r#"{"Service": "logging.s3.amazonaws.com"}"#,
    );
    assert!(!Policy::parse(&service, "bucket").unwrap().is_public());
}
