//! Examples of AWS's documentation: "Examples of Amazon S3 bucket policies", "Bucket policy
//! examples using condition keys" and "IAM JSON policy elements". Each row is a request and whether
//! the example allows it. Names of buckets and users are ours.

use super::{by_policy, user};
use crate::{Action, Principal};

pub const ANYONE: Principal<'static> = Principal::Anonymous;
pub const DAVE: &str = "AKDAVE";

/// A request: who, what, which key, condition keys, and whether it is allowed.
pub type Row<'a> = (
    Principal<'a>,
    Action,
    Option<&'a str>,
    &'a [(&'a str, &'a str)],
    bool,
);

pub fn check(name: &str, policy: &str, rows: &[Row<'_>]) {
    let policy = format!(r#"{{"Version": "2012-10-17", "Statement": [{policy}]}}"#);
    for (principal, action, key, keys, expected) in rows {
        let decision = by_policy(&policy, *principal, *action, *key, keys);
        let what = format!("{name}: {principal:?} {} {key:?} {keys:?}", action.name());
        assert_eq!(decision.is_allowed(), *expected, "{what}: {decision:?}");
    }
}

#[test]
fn read_only_for_anonymous_clients() {
    let policy = r#"{"Sid": "PublicRead", "Effect": "Allow", "Principal": "*",
        "Action": ["s3:GetObject", "s3:GetObjectVersion"], "Resource": ["arn:aws:s3:::bucket/*"]}"#;
    check(
        "public read",
        policy,
        &[
            (ANYONE, Action::GetObject, Some("k"), &[], true),
            (ANYONE, Action::GetObjectVersion, Some("k"), &[], true),
            (user(DAVE), Action::GetObject, Some("a/b"), &[], true),
            (ANYONE, Action::PutObject, Some("k"), &[], false),
            (ANYONE, Action::ListBucket, None, &[], false),
        ],
    );
}

#[test]
fn only_over_tls() {
    let policy = r#"{"Sid": "RestrictToTLSRequestsOnly", "Action": "s3:*", "Effect": "Deny",
        "Resource": ["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}}, "Principal": "*"},
        {"Effect": "Allow", "Principal": {"AWS": "AKDAVE"}, "Action": "s3:GetObject",
         "Resource": "arn:aws:s3:::bucket/*"}"#;
    let plain = &[("aws:SecureTransport", "false")];
    let secure = &[("aws:SecureTransport", "true")];
    check(
        "TLS",
        policy,
        &[
            (user(DAVE), Action::GetObject, Some("k"), plain, false),
            (user(DAVE), Action::GetObject, Some("k"), secure, true),
        ],
    );
}

#[test]
fn only_from_some_addresses() {
    let policy = r#"{"Sid": "SourceIP", "Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": ["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"],
        "Condition": {"NotIpAddress": {"aws:SourceIp": ["192.0.2.0/24", "2001:db8:1234::/48"]}}},
        {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
         "Resource": "arn:aws:s3:::bucket/*"}"#;
    let row = |address| [("aws:SourceIp", address)];
    let (inside, outside) = (row("192.0.2.77"), row("198.51.100.1"));
    let (inside_6, outside_6) = (row("2001:db8:1234::1"), row("2001:db8:1235::1"));
    let mapped = row("::ffff:192.0.2.5");
    check(
        "addresses",
        policy,
        &[
            (ANYONE, Action::GetObject, Some("k"), &inside, true),
            (ANYONE, Action::GetObject, Some("k"), &outside, false),
            (ANYONE, Action::GetObject, Some("k"), &inside_6, true),
            (ANYONE, Action::GetObject, Some("k"), &outside_6, false),
            (ANYONE, Action::GetObject, Some("k"), &mapped, true),
        ],
    );
}

#[test]
fn only_with_a_referer() {
    let policy = r#"{"Sid": "Allow only GET requests originating from www.example.com.",
        "Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject"],
        "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"StringLike": {"aws:Referer":
            ["http://www.example.com/*", "http://example.com/*"]}}}"#;
    let good = &[("aws:Referer", "http://www.example.com/page")];
    let bad = &[("aws:Referer", "http://www.example.org/http://example.com/")];
    check(
        "referer",
        policy,
        &[
            (ANYONE, Action::GetObject, Some("k"), good, true),
            (ANYONE, Action::GetObject, Some("k"), bad, false),
            (ANYONE, Action::GetObject, Some("k"), &[], false),
        ],
    );
}

#[test]
fn folder_of_each_user() {
    let policy = r#"{"Effect": "Allow", "Principal": "*", "Action": "s3:ListBucket",
        "Resource": "arn:aws:s3:::bucket", "Condition": {"StringLike":
            {"s3:prefix": ["home/${aws:username}/*"]}}},
        {"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:PutObject"],
         "Resource": "arn:aws:s3:::bucket/home/${aws:username}/*"}"#;
    let own = &[("s3:prefix", "home/AKDAVE/")];
    let other = &[("s3:prefix", "home/AKEVE/")];
    check(
        "home folders",
        policy,
        &[
            (user(DAVE), Action::ListBucket, None, own, true),
            (user(DAVE), Action::ListBucket, None, other, false),
            (user(DAVE), Action::ListBucket, None, &[], false),
            (
                user(DAVE),
                Action::PutObject,
                Some("home/AKDAVE/x"),
                &[],
                true,
            ),
            (
                user(DAVE),
                Action::PutObject,
                Some("home/AKEVE/x"),
                &[],
                false,
            ),
            // An anonymous client has no name, so the resource matches nothing.
            (ANYONE, Action::GetObject, Some("home//x"), &[], false),
            (
                ANYONE,
                Action::GetObject,
                Some("home/${aws:username}/x"),
                &[],
                false,
            ),
        ],
    );
}

#[test]
fn listing_of_one_prefix() {
    let policy = r#"{"Sid": "AllowListProjects", "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::000000000000:user/AKDAVE"},
        "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::bucket",
        "Condition": {"StringEquals": {"s3:prefix": "projects"}}},
        {"Sid": "DenyOthers", "Effect": "Deny",
        "Principal": {"AWS": "arn:aws:iam::000000000000:user/AKDAVE"},
        "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::bucket",
        "Condition": {"StringNotEquals": {"s3:prefix": "projects"}}}"#;
    check(
        "prefix",
        policy,
        &[
            (
                user(DAVE),
                Action::ListBucket,
                None,
                &[("s3:prefix", "projects")],
                true,
            ),
            (
                user(DAVE),
                Action::ListBucket,
                None,
                &[("s3:prefix", "other")],
                false,
            ),
            (user(DAVE), Action::ListBucket, None, &[], false),
            (
                user("AKEVE"),
                Action::ListBucket,
                None,
                &[("s3:prefix", "projects")],
                false,
            ),
        ],
    );
}

#[test]
fn short_listings() {
    let policy = r#"{"Effect": "Allow", "Principal": {"AWS": "AKDAVE"},
        "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::bucket",
        "Condition": {"NumericLessThanEquals": {"s3:max-keys": "10"}}}"#;
    check(
        "max-keys",
        policy,
        &[
            (
                user(DAVE),
                Action::ListBucket,
                None,
                &[("s3:max-keys", "10")],
                true,
            ),
            (
                user(DAVE),
                Action::ListBucket,
                None,
                &[("s3:max-keys", "11")],
                false,
            ),
            (
                user(DAVE),
                Action::ListBucket,
                None,
                &[("s3:max-keys", "ten")],
                false,
            ),
            (user(DAVE), Action::ListBucket, None, &[], false),
        ],
    );
}

#[test]
fn uploads_that_give_the_owner_full_control() {
    let policy = r#"{"Sid": "PolicyForAllowUploadWithACL", "Effect": "Allow",
        "Principal": {"AWS": "AKDAVE"}, "Action": "s3:PutObject",
        "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"StringEquals": {"s3:x-amz-acl": "bucket-owner-full-control"}}}"#;
    let full = &[("s3:x-amz-acl", "bucket-owner-full-control")];
    check(
        "acl",
        policy,
        &[
            (user(DAVE), Action::PutObject, Some("k"), full, true),
            (
                user(DAVE),
                Action::PutObject,
                Some("k"),
                &[("s3:x-amz-acl", "private")],
                false,
            ),
            (user(DAVE), Action::PutObject, Some("k"), &[], false),
        ],
    );
}
