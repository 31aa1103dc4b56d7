//! Lists are decided on the path that they are about.

use crate::iam::tests::{administrator, ask};
use crate::s3::tests::client::Endpoint;

/// Makes a user with a policy of these statements, and asks.
async fn asked(statements: &str, action: &str, prefix: Option<&str>) -> u16 {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    ask(&s3, &admin, "CreateUser", &[("UserName", "alice")])
        .await
        .ok();
    let document = format!(r#"{{"Version": "2012-10-17", "Statement": [{statements}]}}"#);
    let policy = [
        ("UserName", "alice"),
        ("PolicyName", "p"),
        ("PolicyDocument", &document),
    ];
    ask(&s3, &admin, "PutUserPolicy", &policy).await.ok();
    let alice = s3.model.create_user_key("alice").await.unwrap();
    let prefix = prefix.map(|prefix| ("PathPrefix", prefix));
    let reply = ask(&s3, &alice, action, prefix.as_slice()).await;
    reply.status.as_u16()
}

fn statement(effect: &str, resource: &str) -> String {
    format!(
        r#"{{"Effect": "{effect}", "Action": "iam:*", "Resource": "arn:aws:iam::000000000000:{resource}"}}"#
    )
}

const LISTS: [(&str, &str); 3] = [
    ("ListUsers", "user"),
    ("ListGroups", "group"),
    ("ListRoles", "role"),
];

#[tokio::test]
async fn a_list_is_decided_on_its_kind() {
    for (action, kind) in LISTS {
        let allowed = statement("Allow", &format!("{kind}/*"));
        assert_eq!(asked(&allowed, action, None).await, 200, "{action}");
        let other = statement("Allow", "policy/*");
        assert_eq!(asked(&other, action, None).await, 403, "{action}");
        let all = r#"{"Effect": "Allow", "Action": "iam:*", "Resource": "*"}"#;
        assert_eq!(asked(all, action, None).await, 200, "{action}");
        let denied = [all, &statement("Deny", &format!("{kind}/*"))].join(",");
        assert_eq!(asked(&denied, action, None).await, 403, "{action}");
    }
}

#[tokio::test]
async fn a_list_is_decided_on_its_path() {
    for (action, kind) in LISTS {
        let team = statement("Allow", &format!("{kind}/team/*"));
        let prefixed = |prefix| asked(&team, action, prefix);
        assert_eq!(prefixed(Some("/team/")).await, 200, "{action}");
        assert_eq!(prefixed(Some("/")).await, 403, "{action}");
        assert_eq!(prefixed(None).await, 403, "{action}");
    }
}
