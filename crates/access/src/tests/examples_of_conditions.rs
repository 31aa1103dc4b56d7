//! More examples of AWS's documentation: see [`super::examples`].

use super::examples::{ANYONE, DAVE, check};
use super::user;
use crate::Action;

#[test]
fn copies_from_one_folder() {
    let policy = r#"{"Sid": "CrossAccount", "Effect": "Allow", "Principal": {"AWS": "AKDAVE"},
        "Action": "s3:PutObject", "Resource": "arn:aws:s3:::bucket/*"},
        {"Sid": "DenyOtherSources", "Effect": "Deny", "Principal": {"AWS": "AKDAVE"},
        "Action": "s3:PutObject", "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"StringNotLike": {"s3:x-amz-copy-source": "bucket/public/*"}}}"#;
    let public = &[("s3:x-amz-copy-source", "bucket/public/a")];
    let private = &[("s3:x-amz-copy-source", "bucket/private/a")];
    check(
        "copy source",
        policy,
        &[
            (user(DAVE), Action::PutObject, Some("k"), public, true),
            (user(DAVE), Action::PutObject, Some("k"), private, false),
            (user(DAVE), Action::PutObject, Some("k"), &[], false),
        ],
    );
}

#[test]
fn tags_of_objects_and_requests() {
    let policy = r#"{"Effect": "Allow", "Principal": {"AWS": "AKDAVE"},
        "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"StringEquals": {"s3:ExistingObjectTag/environment": "production"}}},
        {"Effect": "Allow", "Principal": {"AWS": "AKDAVE"},
        "Action": ["s3:PutObjectTagging"], "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"ForAllValues:StringLike": {"s3:RequestObjectTagKeys": ["Owner", "Cr*"]}}},
        {"Effect": "Allow", "Principal": {"AWS": "AKDAVE"},
        "Action": ["s3:DeleteObjectTagging"], "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"ForAnyValue:StringLike": {"s3:RequestObjectTagKeys": ["Owner"]}}}"#;
    let keys: &[_] = &[
        ("s3:RequestObjectTagKeys", "Owner"),
        ("s3:RequestObjectTagKeys", "Created"),
    ];
    let more: &[_] = &[
        ("s3:RequestObjectTagKeys", "Owner"),
        ("s3:RequestObjectTagKeys", "Else"),
    ];
    let tag = |value| [("s3:ExistingObjectTag/environment", value)];
    check(
        "tags",
        policy,
        &[
            (
                user(DAVE),
                Action::GetObject,
                Some("k"),
                &tag("production"),
                true,
            ),
            (
                user(DAVE),
                Action::GetObject,
                Some("k"),
                &tag("test"),
                false,
            ),
            (user(DAVE), Action::GetObject, Some("k"), &[], false),
            (user(DAVE), Action::PutObjectTagging, Some("k"), keys, true),
            (user(DAVE), Action::PutObjectTagging, Some("k"), more, false),
            // No key at all is not one that is forbidden.
            (user(DAVE), Action::PutObjectTagging, Some("k"), &[], true),
            (
                user(DAVE),
                Action::DeleteObjectTagging,
                Some("k"),
                more,
                true,
            ),
            (
                user(DAVE),
                Action::DeleteObjectTagging,
                Some("k"),
                &[],
                false,
            ),
        ],
    );
}

#[test]
fn signatures_of_one_version() {
    let policy = r#"{"Sid": "Test", "Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"StringNotEquals": {"s3:signatureversion": "AWS4-HMAC-SHA256"}}},
        {"Sid": "Old", "Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"NumericGreaterThan": {"s3:signatureAge": "600000"}}},
        {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
         "Resource": "arn:aws:s3:::bucket/*"}"#;
    let version_4 = ("s3:signatureversion", "AWS4-HMAC-SHA256");
    check(
        "signatures",
        policy,
        &[
            (user(DAVE), Action::GetObject, Some("k"), &[version_4], true),
            (
                user(DAVE),
                Action::GetObject,
                Some("k"),
                &[("s3:signatureversion", "AWS")],
                false,
            ),
            (
                user(DAVE),
                Action::GetObject,
                Some("k"),
                &[version_4, ("s3:signatureAge", "5")],
                true,
            ),
            (
                user(DAVE),
                Action::GetObject,
                Some("k"),
                &[version_4, ("s3:signatureAge", "600001")],
                false,
            ),
        ],
    );
}

#[test]
fn between_two_dates() {
    let policy = r#"{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"DateGreaterThan": {"aws:CurrentTime": "2020-04-01T00:00:00Z"},
                      "DateLessThanEquals": {"aws:CurrentTime": "2020-06-30T23:59:59+00:00"},
                      "NumericGreaterThan": {"aws:EpochTime": 1}}}"#;
    let at = |time: &'static str| [("aws:CurrentTime", time), ("aws:EpochTime", "1590000000")];
    check(
        "dates",
        policy,
        &[
            (
                ANYONE,
                Action::GetObject,
                Some("k"),
                &at("2020-05-20T12:00:00Z"),
                true,
            ),
            (
                ANYONE,
                Action::GetObject,
                Some("k"),
                &at("2020-05-20T12:00:00.5Z"),
                true,
            ),
            (
                ANYONE,
                Action::GetObject,
                Some("k"),
                &at("2020-04-01T00:00:00Z"),
                false,
            ),
            (
                ANYONE,
                Action::GetObject,
                Some("k"),
                &at("2020-07-01T01:59:59+02:00"),
                true,
            ),
            (
                ANYONE,
                Action::GetObject,
                Some("k"),
                &at("2020-07-01T02:00:00+02:00"),
                false,
            ),
            (
                ANYONE,
                Action::GetObject,
                Some("k"),
                &at("1590000000"),
                true,
            ),
        ],
    );
}

#[test]
fn everybody_but_one_by_arn() {
    let policy = r#"{"Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": ["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"],
        "Condition": {"ArnNotLike": {"aws:PrincipalArn": "arn:aws:iam::*:user/AKD*"}}},
        {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
         "Resource": "arn:aws:s3:::bucket/*"}"#;
    check(
        "PrincipalArn",
        policy,
        &[
            (user(DAVE), Action::GetObject, Some("k"), &[], true),
            (user("AKEVE"), Action::GetObject, Some("k"), &[], false),
            (ANYONE, Action::GetObject, Some("k"), &[], false),
        ],
    );
}

/// Everything but one action, and everything but one folder.
#[test]
fn not_action_and_not_resource() {
    let policy = r#"{"Effect": "Allow", "Principal": {"AWS": "AKDAVE"},
        "NotAction": "s3:DeleteObject*", "NotResource": "arn:aws:s3:::bucket/secret/*"}"#;
    check(
        "Not",
        policy,
        &[
            (user(DAVE), Action::GetObject, Some("k"), &[], true),
            (user(DAVE), Action::ListBucket, None, &[], true),
            (user(DAVE), Action::DeleteObject, Some("k"), &[], false),
            (user(DAVE), Action::GetObject, Some("secret/k"), &[], false),
        ],
    );
}
