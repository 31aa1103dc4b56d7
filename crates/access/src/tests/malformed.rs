//! Texts that are no policies, and the messages that say where.

use crate::Policy;
use crate::policy::MAX_POLICY_BYTES;

fn error(text: &str) -> String {
    match Policy::parse(text, "bucket") {
        Ok(_) => "accepted".into(),
        Err(error) => error.to_string(),
    }
}

/// A policy with one statement, of which these elements are others.
fn with(elements: &[(&str, &str)]) -> String {
    let mut all = vec![
        ("Effect", r#""Allow""#),
        ("Principal", r#""*""#),
        ("Action", r#""s3:GetObject""#),
        ("Resource", r#""arn:aws:s3:::bucket/*""#),
    ];
    for (name, value) in elements {
        all.retain(|(other, _)| other != name);
        if !value.is_empty() {
            all.push((name, value));
        }
    }
    let members: Vec<_> = all.iter().map(|(n, v)| format!("{n:?}: {v}")).collect();
    format!(
        r#"{{"Version": "2012-10-17", "Statement": [{{{}}}]}}"#,
        members.join(", ")
    )
}

#[test]
fn the_plain_policy_is_accepted() {
    assert_eq!(error(&with(&[])), "accepted");
    let long = format!("{}{}", with(&[]), " ".repeat(MAX_POLICY_BYTES));
    assert!(error(&long).starts_with("Policy exceeds the maximum allowed document size"));
}

#[test]
fn documents_are_read_strictly() {
    for (text, expected) in [
        (
            "",
            "Policies must be valid JSON and the first byte must be '{'",
        ),
        (
            " {}",
            "Policies must be valid JSON and the first byte must be '{'",
        ),
        ("{", "Policies must be valid JSON"),
        ("{}", "Missing required field Statement"),
        (
            r#"{"Statement": []}"#,
            "Invalid policy syntax: Statement: it is empty",
        ),
        (r#"{"Statement": "x"}"#, "Invalid policy syntax: Statement"),
        (
            r#"{"Statement": [1]}"#,
            "Invalid policy syntax: Statement[0]",
        ),
        (r#"{"Statement": {}, "Other": 1}"#, "Unknown field Other"),
        (
            r#"{"Version": "2020-01-01", "Statement": {}}"#,
            "Invalid policy syntax: Version",
        ),
        (r#"{"Id": 1, "Statement": {}}"#, "Invalid policy syntax: Id"),
        (
            r#"{"Statement": {}, "Statement": {}}"#,
            "Policies must be valid JSON",
        ),
        (r#"{"Statement": {}} x"#, "Policies must be valid JSON"),
    ] {
        assert!(error(text).starts_with(expected), "{text}: {}", error(text));
    }
    let twice = with(&[]).replace(r#""Effect""#, r#""Effect": "Deny", "Effect""#);
    assert!(
        error(&twice).contains(r#""Effect" is given twice"#),
        "{}",
        error(&twice)
    );
}

#[test]
fn statements_are_read_strictly() {
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a str);
    let cases: &[Case<'_>] = &[
        (
            &[("Effect", "")],
            "Missing required field Effect: Statement[0]",
        ),
        (
            &[("Effect", r#""allow""#)],
            "Invalid effect: Statement[0].Effect",
        ),
        (
            &[("Principal", "")],
            "Missing required field Principal: Statement[0]",
        ),
        (
            &[("Action", "")],
            "Missing required field Action: Statement[0]",
        ),
        (
            &[("Resource", "")],
            "Missing required field Resource: Statement[0]",
        ),
        (&[("Extra", "1")], "Unknown field Extra: Statement[0]"),
        (&[("Sid", "1")], "Invalid policy syntax: Statement[0].Sid"),
        (
            &[("NotAction", r#""s3:PutObject""#)],
            "Invalid policy syntax: Statement[0]: Action and",
        ),
        (
            &[("Principal", r#""AK1""#)],
            "Invalid principal in policy: Statement[0].Principal",
        ),
        (&[("Principal", "{}")], "Invalid principal in policy"),
        (
            &[("Principal", r#"{"AWS": []}"#)],
            "Invalid principal in policy",
        ),
        (&[("Principal", r#"{"AWS": "000000000000"}"#)], "accepted"),
        (
            &[(
                "Principal",
                r#"{"AWS": "arn:aws:iam::123456789012:user/x"}"#,
            )],
            "Invalid principal in policy: Statement[0].Principal.AWS",
        ),
        (
            &[(
                "Principal",
                r#"{"AWS": "arn:aws:iam::000000000000:user/x*"}"#,
            )],
            "Invalid principal in policy",
        ),
        (
            &[(
                "Principal",
                r#"{"AWS": "arn:aws:iam::000000000000:group/x"}"#,
            )],
            "Invalid principal in policy",
        ),
        (
            &[("Principal", r#"{"Service": "x.example.com"}"#)],
            "Invalid principal in policy",
        ),
        (
            &[("Principal", r#"{"CanonicalUser": "12"}"#)],
            "Invalid principal in policy",
        ),
        (
            &[("Principal", ""), ("NotPrincipal", r#"{"AWS": "AK1"}"#)],
            "Invalid principal in policy: Statement[0].NotPrincipal: NotPrincipal with",
        ),
        (
            &[("Action", r#""s3:GetObjects""#)],
            "Policy has invalid action: Statement[0].Action",
        ),
        (&[("Action", r#""ec2:*""#)], "Policy has invalid action"),
        (
            &[("Action", r#"["s3:GetObject", "ec2:RunInstances"]"#)],
            "Policy has invalid action",
        ),
        (&[("Action", "[]")], "Policy has invalid action"),
        (&[("Action", r#""S3:GETOBJECT""#)], "accepted"),
        (&[("Action", r#""*""#)], "accepted"),
        (
            &[("Action", r#"["s3:GetObject", "s3:ListBucket"]"#)],
            "Action does not apply to any resource(s) in statement: Statement[0]",
        ),
        (
            &[("Resource", r#""arn:aws:s3:::other/*""#)],
            "Policy has invalid resource: Statement[0].Resource",
        ),
        (
            &[(
                "Resource",
                r#"["arn:aws:s3:::bucket/*", "arn:aws:s3:::buckets/x"]"#,
            )],
            "Policy has invalid resource",
        ),
        (
            &[("Resource", r#""bucket/*""#)],
            "Policy has invalid resource",
        ),
        (&[("Resource", r#""*""#)], "accepted"),
        (
            &[("Resource", r#""arn:aws:s3:::bucket/${aws:username}/*""#)],
            "accepted",
        ),
        (
            &[("Resource", r#""arn:aws:s3:::bucket/${aws:username""#)],
            "Policy has invalid resource",
        ),
        (
            &[("Condition", "1")],
            "Policy has an invalid condition: Statement[0].Condition",
        ),
        (
            &[("Condition", r#"{"StringIs": {"s3:prefix": "x"}}"#)],
            "Policy has an invalid condition: Statement[0].Condition.StringIs: the operator",
        ),
        (
            &[("Condition", r#"{"NullIfExists": {"s3:prefix": true}}"#)],
            "Policy has an invalid",
        ),
        (
            &[("Condition", r#"{"ForSome:StringLike": {"s3:prefix": "x"}}"#)],
            "Policy has an inv",
        ),
        (
            &[("Condition", r#"{"NumericEquals": {"s3:max-keys": "ten"}}"#)],
            "Policy has an invalid condition: Statement[0].Condition.NumericEquals.s3:max-keys",
        ),
        (
            &[("Condition", r#"{"NumericEquals": {"s3:signatureAge": 10}}"#)],
            "accepted",
        ),
        (
            &[("Condition", r#"{"Bool": {"aws:SecureTransport": false}}"#)],
            "accepted",
        ),
        (
            &[("Condition", r#"{"Bool": {"aws:SecureTransport": "no"}}"#)],
            "Policy has an invalid",
        ),
        (
            &[(
                "Condition",
                r#"{"IpAddress": {"aws:SourceIp": "1.2.3.4/33"}}"#,
            )],
            "Policy has an inv",
        ),
        (
            &[(
                "Condition",
                r#"{"DateLessThan": {"aws:CurrentTime": "soon"}}"#,
            )],
            "Policy has an inv",
        ),
        (
            &[("Condition", r#"{"StringEquals": {"prefix": "x"}}"#)],
            "Policy has an invalid",
        ),
        (
            &[("Condition", r#"{"StringEquals": {"s3:prefix": []}}"#)],
            "Policy has an invalid",
        ),
        (
            &[("Condition", r#"{"StringEquals": {"s3:prefix": {}}}"#)],
            "Policy has an invalid",
        ),
        (
            &[("Condition", r#"{"BinaryEquals": {"a:b": "%"}}"#)],
            "Policy has an invalid",
        ),
        (
            &[("Condition", r#"{"ArnLike": {"aws:PrincipalArn": "x"}}"#)],
            "Policy has an invalid",
        ),
    ];
    for (elements, expected) in cases {
        let found = error(&with(elements));
        assert!(found.starts_with(expected), "{elements:?}: {found}");
    }
}

#[test]
fn statement_ids_are_unique() {
    let statement = r#"{"Sid": "a", "Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": "*"}"#;
    let text = format!(r#"{{"Statement": [{statement}, {statement}]}}"#);
    assert!(error(&text).contains("Statement[1].Sid: it is given twice"));
}

/// A denial with a typing error in its key would deny nothing, or everything.
#[test]
fn policies_of_buckets_have_keys_that_their_requests_can_have() {
    let listing = [
        ("Action", r#"["s3:GetObject", "s3:ListBucket"]"#),
        (
            "Resource",
            r#"["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"]"#,
        ),
    ];
    let keyed = |key: &str| format!(r#"{{"StringEquals": {{"{key}": "x"}}}}"#);
    let unknown = "Policy has an invalid condition key: Statement[0].Condition";
    let unfit = "Conditions do not apply to combination of actions and resources in statement: \
                 Statement[0].Condition";
    for (key, of_object, of_listing) in [
        ("s3:prefx", unknown, unknown),
        ("s3:x-amz-server-side-encyption", unknown, unknown),
        ("s3:ExistingObjectTag/", unknown, unknown),
        ("s3:prefix", unfit, "accepted"),
        ("S3:Delimiter", unfit, "accepted"),
        ("s3:ExistingObjectTag/a", "accepted", "accepted"),
        ("s3:x-amz-ACL", "accepted", "accepted"),
        ("aws:SourcIp", unknown, unknown),
        ("aws:PrincipalTag/", unknown, unknown),
        ("aws:PrincipalTag/team", "accepted", "accepted"),
        ("aws:PrincipalOrgID", "accepted", "accepted"),
        ("aws:sourceip", "accepted", "accepted"),
        ("accounts.example/path:sub", "accepted", "accepted"),
    ] {
        let condition = keyed(key);
        let condition = ("Condition", condition.as_str());
        let answered = error(&with(&[condition]));
        assert!(answered.starts_with(of_object), "{key}: {answered}");
        let answered = error(&with(&[listing[0], listing[1], condition]));
        assert!(answered.starts_with(of_listing), "{key}: {answered}");
    }
    let listening = [
        ("Action", r#""s3:ListenBucketNotification""#),
        ("Resource", r#""arn:aws:s3:::bucket""#),
        ("Condition", &keyed("s3:prefix")),
    ];
    assert_eq!(error(&with(&listening)), "accepted");
    let text = with(&[("Condition", &keyed("s3:prefx"))]);
    let (stored, unreadable) = (Policy::stored(&text), Policy::stored("{"));
    assert_ne!(stored, unreadable, "a policy that is stored stays readable");
}
