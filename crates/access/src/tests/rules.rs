//! The rules of the decision, one by one.

use super::{ALL, by_policy, user};
use crate::action::Level;
use crate::{
    Acl, Action, Context, Decision, Grants, Inputs, Ownership, Policy, Principal,
    PublicAccessBlock, Reason, Request, decide,
};

const PUBLIC: &str = r#"{"Version": "2012-10-17", "Statement": {"Sid": "all", "Effect": "Allow",
    "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*"}}"#;

fn ask(principal: Principal<'_>, action: Action, inputs: &Inputs<'_>) -> Decision {
    let context = Context::of(principal);
    let request = Request {
        principal,
        action,
        bucket: "bucket",
        key: (action.resource() == crate::ResourceKind::Object).then_some("key"),
        context: &context,
    };
    decide(&request, inputs)
}

#[test]
fn nothing_is_allowed_by_default() {
    for action in Action::all() {
        for principal in [Principal::Anonymous, user("AK1")] {
            let decision = ask(principal, action, &Inputs::default());
            assert_eq!(decision, Decision::Deny(Reason::NothingAllows));
        }
    }
}

#[test]
fn grants_include_the_actions_of_their_level_and_no_others() {
    let read = Grants {
        read: true,
        ..Grants::default()
    };
    for action in Action::all() {
        let with = |grants| Inputs {
            grants,
            ..Inputs::default()
        };
        let allowed = ask(user("AK1"), action, &with(read)).is_allowed();
        let expected = matches!(action.level(), Level::Any | Level::Read);
        assert_eq!(allowed, expected, "{}", action.name());
        let all = ask(user("AK1"), action, &with(ALL)).is_allowed();
        // The account's block is of no bucket.
        let is_of_buckets =
            action.service() == "s3" && action != Action::GetAccountPublicAccessBlock;
        assert_eq!(all, is_of_buckets, "{}", action.name());
    }
}

#[test]
fn explicit_deny_wins_over_grants_and_allows() {
    let policy = Policy::parse(
        r#"{"Statement": [
            {"Sid": "yes", "Effect": "Allow", "Principal": "*", "Action": "s3:*",
             "Resource": ["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"]},
            {"Sid": "no", "Effect": "Deny", "Principal": "*", "Action": "s3:*",
             "Resource": "*"}]}"#,
        "bucket",
    )
    .unwrap();
    let inputs = Inputs {
        grants: ALL,
        policy: Some(&policy),
        ..Inputs::default()
    };
    for action in Action::all().filter(|action| action.service() == "s3") {
        let decision = ask(user("AK1"), action, &inputs);
        let of_policy = [
            Action::GetBucketPolicy,
            Action::PutBucketPolicy,
            Action::DeleteBucketPolicy,
        ];
        if of_policy.contains(&action) {
            assert_eq!(decision, Decision::Allow(Reason::OwnerManagesPolicy));
        } else {
            let denied = Decision::Deny(Reason::PolicyDenies("no".into()));
            assert_eq!(decision, denied, "{}", action.name());
        }
    }
    // Only owners manage a policy that denies everything.
    let inputs = Inputs {
        grants: Grants {
            owner: false,
            ..ALL
        },
        ..inputs
    };
    let decision = ask(user("AK1"), Action::PutBucketPolicy, &inputs);
    assert!(decision.is_explicit_deny());
}

#[test]
fn policy_that_cannot_be_read_denies_everything() {
    let policy = Policy::unreadable();
    let inputs = Inputs {
        grants: ALL,
        policy: Some(&policy),
        ..Inputs::default()
    };
    assert!(ask(user("AK1"), Action::GetObject, &inputs).is_explicit_deny());
    assert!(ask(Principal::Anonymous, Action::ListBucket, &inputs).is_explicit_deny());
    assert!(ask(user("AK1"), Action::DeleteBucketPolicy, &inputs).is_allowed());
}

#[test]
fn restrict_public_buckets_keeps_anonymous_clients_out_and_not_users() {
    let policy = Policy::parse(PUBLIC, "bucket").unwrap();
    assert!(policy.is_public());
    let open = Inputs {
        policy: Some(&policy),
        ..Inputs::default()
    };
    assert!(ask(Principal::Anonymous, Action::GetObject, &open).is_allowed());
    let restricted = Inputs {
        block: PublicAccessBlock {
            restrict_public_buckets: true,
            ..PublicAccessBlock::default()
        },
        ..open
    };
    let denied = Decision::Deny(Reason::PublicPolicyRestricted("all".into()));
    assert_eq!(
        ask(Principal::Anonymous, Action::GetObject, &restricted),
        denied
    );
    assert!(ask(user("AK1"), Action::GetObject, &restricted).is_allowed());
}

#[test]
fn access_control_lists_count_only_where_ownership_allows_them() {
    let public = Acl::of_canned("public-read").unwrap();
    let mut inputs = Inputs {
        bucket_acl: public,
        object_acl: Some(public),
        ..Inputs::default()
    };
    let list = |inputs: &Inputs<'_>| ask(Principal::Anonymous, Action::ListBucket, inputs);
    let get = |inputs: &Inputs<'_>| ask(Principal::Anonymous, Action::GetObject, inputs);
    assert!(!list(&inputs).is_allowed() && !get(&inputs).is_allowed());
    for ownership in [Ownership::ObjectWriter, Ownership::BucketOwnerPreferred] {
        inputs.ownership = ownership;
        assert_eq!(list(&inputs), Decision::Allow(Reason::BucketAcl));
        assert_eq!(get(&inputs), Decision::Allow(Reason::ObjectAcl));
    }
    let put = ask(Principal::Anonymous, Action::PutObject, &inputs);
    assert!(!put.is_allowed());
    inputs.block.ignore_public_acls = true;
    assert_eq!(get(&inputs), Decision::Deny(Reason::PublicAclIgnored));
    inputs.block = PublicAccessBlock::default();
    inputs.object_acl = Acl::of_canned("authenticated-read");
    assert!(!get(&inputs).is_allowed());
    assert!(ask(user("AK1"), Action::GetObject, &inputs).is_allowed());
    inputs.bucket_acl = Acl::of_canned("public-read-write").unwrap();
    assert!(ask(Principal::Anonymous, Action::PutObject, &inputs).is_allowed());
    assert!(!ask(Principal::Anonymous, Action::DeleteObject, &inputs).is_allowed());
}

fn with_principal(effect: &str, element: &str) -> String {
    format!(
        r#"{{"Statement": [
            {{"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject",
              "Resource": "arn:aws:s3:::bucket/*"}},
            {{"Effect": "{effect}", {element}, "Action": "s3:*Object",
              "Resource": "arn:aws:s3:::bucket/*"}}]}}"#
    )
}

#[test]
fn principals_are_named_in_every_form() {
    let canonical = "ab".repeat(32);
    let one = Principal::User {
        name: "AK1",
        path: "/",
        id: "AK1",
        canonical_id: Some(&canonical),
    };
    let may = |element: &str, principal| {
        let policy = with_principal("Allow", element);
        by_policy(&policy, principal, Action::GetObject, Some("k"), &[]).is_allowed()
    };
    for element in [
        r#""Principal": "*""#,
        r#""Principal": {"AWS": "*"}"#,
        r#""Principal": {"AWS": ["arn:aws:iam::000000000000:user/AK1"]}"#,
        r#""Principal": {"AWS": ["AK0", "AK1"]}"#,
        &format!(r#""Principal": {{"CanonicalUser": "{canonical}"}}"#),
    ] {
        assert!(may(element, one), "{element}");
        let everyone = element.contains('*');
        assert_eq!(may(element, user("AK2")), everyone, "{element}");
        assert_eq!(may(element, Principal::Anonymous), everyone, "{element}");
    }
    // The account lets its own policies decide, and there are none beside grants.
    let account = r#""Principal": {"AWS": "arn:aws:iam::000000000000:root"}"#;
    assert!(!may(account, one));
}

#[test]
fn a_denial_of_the_account_is_one_of_all_its_users() {
    let may = |element: &str, principal| {
        let policy = with_principal("Deny", element);
        by_policy(&policy, principal, Action::PutObject, Some("k"), &[]).is_allowed()
    };
    let account = r#""Principal": {"AWS": "000000000000"}"#;
    assert!(!may(account, user("AK1")));
    assert!(may(account, Principal::Anonymous));
    // As AWS demands, the account stands beside the user; it spares nobody else.
    let but_one = r#""NotPrincipal": {"AWS": ["000000000000", "AK1"]}"#;
    assert!(may(but_one, user("AK1")));
    assert!(!may(but_one, user("AK2")));
    assert!(!may(but_one, Principal::Anonymous));
}

#[test]
fn patterns_match_whole_texts() {
    use crate::pattern::{matches, matches_some_with_prefix, tokens};
    for (pattern, text, expected) in [
        ("", "", true),
        ("a*c", "abc", true),
        ("a*c", "ac", true),
        ("a*c", "acb", false),
        ("*a*b*", "xxaxxbxx", true),
        ("*ab", "aab", true),
        ("?", "ü", true),
        ("??", "ü", false),
        ("a**", "a", true),
        ("*", "", true),
        ("a", "A", false),
        ("*a?c*", "xxabbabc", true),
        ("*ab*ba*", "aba", false),
        ("a*b?*", "aab", false),
    ] {
        assert_eq!(
            matches(&tokens(pattern), text),
            expected,
            "{pattern} {text}"
        );
    }
    for (pattern, prefix, expected) in [
        ("b/*", "b/", true),
        ("b*", "b/", true),
        ("b", "b/", false),
        ("?/x", "b/", true),
        ("*", "b/", true),
        ("c/*", "b/", false),
    ] {
        let found = matches_some_with_prefix(&tokens(pattern), prefix);
        assert_eq!(found, expected, "{pattern}");
    }
}

#[test]
fn long_patterns_match_as_short_ones_do() {
    use crate::pattern::{matches, tokens};
    // Longer than a word of bits, with a piece that nearly matches everywhere.
    let piece = format!("{}b?d", "a".repeat(200));
    let pattern = tokens(&format!("x*{piece}*{piece}*y"));
    let text = |middle: &str| format!("x{}{middle}y", "a".repeat(300));
    assert!(matches(
        &pattern,
        &text(&format!("bcd{}bcdaa", "a".repeat(200)))
    ));
    assert!(!matches(
        &pattern,
        &text(&format!("bcd{}bcdaa", "a".repeat(199)))
    ));
    assert!(!matches(&pattern, &text("bcd")));
}

#[test]
fn public_means_everybody_without_a_fixed_place_or_name() {
    let public = |principal: &str, condition: &str| {
        let text = format!(
            r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "Allow",
                "Principal": {principal}, "Action": "s3:GetObject",
                "Resource": "arn:aws:s3:::bucket/*", "Condition": {condition}}}}}"#
        );
        Policy::parse(&text, "bucket").unwrap().is_public()
    };
    let everyone = r#"{"AWS": "*"}"#;
    assert!(!public(r#"{"AWS": "AK1"}"#, "{}"));
    for (condition, expected) in [
        ("{}", true),
        (
            r#"{"StringLike": {"aws:Referer": "http://example.org/*"}}"#,
            true,
        ),
        (
            r#"{"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}}"#,
            false,
        ),
        (r#"{"IpAddress": {"aws:SourceIp": "0.0.0.0/1"}}"#, true),
        (
            r#"{"IpAddressIfExists": {"aws:SourceIp": "203.0.113.0/24"}}"#,
            true,
        ),
        (
            r#"{"NotIpAddress": {"aws:SourceIp": "203.0.113.0/24"}}"#,
            true,
        ),
        (r#"{"StringEquals": {"aws:username": "AK1"}}"#, false),
        (r#"{"StringLike": {"aws:username": "AK*"}}"#, true),
        (
            r#"{"StringEquals": {"aws:username": "${aws:userid}"}}"#,
            true,
        ),
        (
            r#"{"ForAllValues:StringEquals": {"aws:username": "AK1"}}"#,
            true,
        ),
        (r#"{"StringEquals": {"aws:userid": "anonymous"}}"#, true),
        (
            r#"{"StringEquals": {"aws:PrincipalAccount": "000000000000"}}"#,
            false,
        ),
    ] {
        assert_eq!(public(everyone, condition), expected, "{condition}");
    }
}

/// AWS recommends `Null` beside `ForAllValues`, which holds for a request without the key.
#[test]
fn key_without_values_is_absent() {
    let mut context = Context::of(user("AK1"));
    context.set_all("s3:RequestObjectTagKeys", [String::from("team")]);
    assert!(
        context
            .iter()
            .any(|(key, _)| key == "s3:requestobjecttagkeys")
    );
    context.set_all("s3:RequestObjectTagKeys", []);
    let allows = |condition: &str| {
        let text = format!(
            r#"{{"Statement": {{"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject",
                "Resource": "arn:aws:s3:::bucket/*", "Condition": {condition}}}}}"#
        );
        let policy = Policy::parse(&text, "bucket").unwrap();
        let inputs = Inputs {
            policy: Some(&policy),
            ..Inputs::default()
        };
        let request = Request {
            principal: user("AK1"),
            action: Action::PutObject,
            bucket: "bucket",
            key: Some("key"),
            context: &context,
        };
        decide(&request, &inputs).is_allowed()
    };
    let null = |value| format!(r#"{{"Null": {{"s3:RequestObjectTagKeys": "{value}"}}}}"#);
    assert!(!allows(&null("false")) && allows(&null("true")));
    let of_all = r#"{"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": "team"}}"#;
    let if_exists = r#"{"StringEqualsIfExists": {"s3:RequestObjectTagKeys": "team"}}"#;
    assert!(allows(of_all) && allows(if_exists));
    let of_any = r#"{"ForAnyValue:StringEquals": {"s3:RequestObjectTagKeys": "team"}}"#;
    assert!(!allows(of_any));
}

/// Deny statements do not open a bucket.
#[test]
fn a_denial_of_everybody_is_not_public() {
    let text = PUBLIC.replace("Allow", "Deny");
    assert!(!Policy::parse(&text, "bucket").unwrap().is_public());
}
