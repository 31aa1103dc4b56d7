//! Policy variables: with a value, without one, and with several.
//!
//! Source: AWS, "IAM policy elements: Variables and tags", "Policy variables with no value".

use super::examples::{DAVE, check};
use super::user;
use crate::Action;

const BLUE: (&str, &str) = ("aws:PrincipalTag/team", "blue");

#[test]
fn resource_with_a_variable_without_a_value_matches_nothing() {
    let policy = r#"{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
        "Resource": ["arn:aws:s3:::bucket/open/*",
                     "arn:aws:s3:::bucket/${aws:PrincipalTag/team}*"]},
        {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::bucket/*${aws:PrincipalTag/team}/secret"}"#;
    let get = Action::GetObject;
    check(
        "Resource",
        policy,
        &[
            (user(DAVE), get, Some("blue/k"), &[BLUE], true),
            (user(DAVE), get, Some("blue/secret"), &[BLUE], false),
            (user(DAVE), get, Some("red/k"), &[BLUE], false),
            (user(DAVE), get, Some("blue/k"), &[], false),
            (user(DAVE), get, Some("open/blue/secret"), &[], true),
        ],
    );
}

/// AWS says both that such a resource matches nothing, and that the statement may be invalid. So an
/// Allow allows nothing, and a Deny excludes nothing.
#[test]
fn exclusion_with_a_variable_without_a_value_widens_no_permission() {
    let get = Action::GetObject;
    let allow = |second: &str| {
        format!(
            r#"{{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
            "NotResource": ["arn:aws:s3:::bucket/secret/*", "arn:aws:s3:::bucket/{second}"]}}"#
        )
    };
    let longer = (
        "aws:PrincipalTag/team",
        "a-name-longer-than-the-whole-resource",
    );
    check(
        "Allow",
        &allow("${aws:PrincipalTag/team}/*"),
        &[
            (user(DAVE), get, Some("red/k"), &[BLUE], true),
            (user(DAVE), get, Some("blue/k"), &[BLUE], false),
            (user(DAVE), get, Some("secret/k"), &[BLUE], false),
            (user(DAVE), get, Some("k"), &[longer], true),
            (user(DAVE), get, Some("red/k"), &[], false),
            (user(DAVE), get, Some("secret/k"), &[], false),
        ],
    );
    check(
        "Allow, with a default",
        &allow("${aws:PrincipalTag/team, 'none'}/*"),
        &[
            (user(DAVE), get, Some("red/k"), &[], true),
            (user(DAVE), get, Some("none/k"), &[], false),
        ],
    );
    let deny = r#"{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::bucket/*"},
        {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject",
        "NotResource": "arn:aws:s3:::bucket/${aws:PrincipalTag/team}/*"}"#;
    check(
        "Deny",
        deny,
        &[
            (user(DAVE), get, Some("blue/k"), &[BLUE], true),
            (user(DAVE), get, Some("red/k"), &[BLUE], false),
            (user(DAVE), get, Some("blue/k"), &[], false),
        ],
    );
}

#[test]
fn condition_with_a_variable_without_a_value_compares_with_nothing() {
    let given = ("aws:Referer", "blue");
    for (operator, expected) in [
        ("StringEquals", false),
        ("StringEqualsIfExists", false),
        ("StringEqualsIgnoreCase", false),
        ("StringLike", false),
        ("ForAllValues:StringEquals", false),
        ("ForAnyValue:StringLike", false),
        ("StringNotEquals", true),
        ("StringNotEqualsIfExists", true),
        ("StringNotEqualsIgnoreCase", true),
        ("StringNotLike", true),
        ("ForAllValues:StringNotEquals", true),
        ("ForAnyValue:StringNotLike", true),
    ] {
        let policy = allow_if(operator, "aws:Referer", "${aws:PrincipalTag/team}");
        let get = Action::GetObject;
        check(
            operator,
            &policy,
            &[
                (user(DAVE), get, Some("k"), &[given], expected),
                (user(DAVE), get, Some("k"), &[given, BLUE], !expected),
            ],
        );
    }
    let arn = "arn:aws:iam::000000000000:user/${aws:PrincipalTag/name}";
    let name = ("aws:PrincipalTag/name", DAVE);
    for (operator, expected) in [
        ("ArnEquals", false),
        ("ArnLike", false),
        ("ArnNotLike", true),
    ] {
        let get = Action::GetObject;
        check(
            operator,
            &allow_if(operator, "aws:PrincipalArn", arn),
            &[
                (user(DAVE), get, Some("k"), &[], expected),
                (user(DAVE), get, Some("k"), &[name], !expected),
            ],
        );
    }
}

fn allow_if(operator: &str, key: &str, value: &str) -> String {
    format!(
        r#"{{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {{"{operator}": {{"{key}": "{value}"}}}}}}"#
    )
}

/// A second tag does not take the value of the first away.
#[test]
fn variable_means_the_tag_that_it_spells() {
    let policy = r#"{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::bucket/*"},
        {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::bucket/*",
        "Condition": {"StringEquals": {"aws:username": "${S3:existingobjecttag/blocked}"}}}"#;
    let (get, eve) = (Action::GetObject, "AKEVE");
    let one = ("s3:ExistingObjectTag/blocked", DAVE);
    let other = ("s3:ExistingObjectTag/BLOCKED", eve);
    check(
        "two tags",
        policy,
        &[
            (user(DAVE), get, Some("k"), &[], true),
            (user(DAVE), get, Some("k"), &[one], false),
            (user(DAVE), get, Some("k"), &[one, other], false),
            (user(eve), get, Some("k"), &[one, other], true),
            // A tag alone is meant in any case, and of two others none is.
            (user(eve), get, Some("k"), &[other], false),
            (
                user(eve),
                get,
                Some("k"),
                &[other, ("s3:ExistingObjectTag/Blocked", eve)],
                true,
            ),
        ],
    );
}
