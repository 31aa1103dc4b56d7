//! The meaning of parameters that are left out.

use super::{administrator, ask};
use crate::s3::tests::client::Endpoint;

#[tokio::test]
async fn a_user_asks_about_itself_without_its_name() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    for (action, element) in [
        ("ListMFADevices", "MFADevices"),
        ("ListSSHPublicKeys", "SSHPublicKeys"),
        ("ListSigningCertificates", "Certificates"),
        (
            "ListServiceSpecificCredentials",
            "ServiceSpecificCredentials",
        ),
    ] {
        let listed = ask(&s3, &admin, action, &[]).await.ok();
        assert!(listed.text().contains(element), "{}", listed.text());
        let none = ask(&s3, &admin, action, &[("UserName", "nobody")]).await;
        none.is(404, "NoSuchEntity");
    }
    for action in ["GetLoginProfile", "DeleteLoginProfile"] {
        let none = ask(&s3, &admin, action, &[]).await;
        none.is(404, "NoSuchEntity");
        assert!(none.text().contains("for User admin "), "{}", none.text());
    }
    // It is decided about the caller, and not about all users.
    let policy = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Action": "iam:ListMFADevices",
        "Resource": "arn:aws:iam::000000000000:user/admin"}}"#;
    let deny = &[
        ("UserName", "admin"),
        ("PolicyName", "deny"),
        ("PolicyDocument", policy),
    ];
    ask(&s3, &admin, "PutUserPolicy", deny).await.ok();
    let denied = ask(&s3, &admin, "ListMFADevices", &[]).await;
    denied.is(403, "AccessDenied");
}

#[tokio::test]
async fn an_update_without_a_duration_sets_the_usual_hour() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    let trust = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": "*",
        "Action": "sts:AssumeRole"}}"#;
    let role = ("RoleName", "role");
    let make = &[
        role,
        ("AssumeRolePolicyDocument", trust),
        ("MaxSessionDuration", "7200"),
    ];
    ask(&s3, &admin, "CreateRole", make).await.ok();
    let duration = async || {
        let shown = ask(&s3, &admin, "GetRole", &[role]).await.ok();
        shown.element("MaxSessionDuration").unwrap()
    };
    let told = &[role, ("Description", "new")];
    ask(&s3, &admin, "UpdateRoleDescription", told).await.ok();
    assert_eq!(duration().await, "7200");
    ask(&s3, &admin, "UpdateRole", told).await.ok();
    assert_eq!(duration().await, "3600");
}
