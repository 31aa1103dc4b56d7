//! IAM as clients see it: documents, errors, decisions.

mod account;
mod forms;
mod left_out;
mod lists;
mod providers;

use std::sync::Arc;

use archipel_model::AccessKey;
use archipel_model::identity::{NewUser, User};
use bytes::Bytes;

use crate::s3::tests::client::{Endpoint, Reply, signed, signed_for};
use crate::s3::uri::encode;

/// Encodes a form.
pub fn form(action: &str, version: &str, parameters: &[(&str, &str)]) -> Bytes {
    let mut text = format!("Action={action}&Version={version}");
    for (name, value) in parameters {
        text.push_str(&format!("&{}={}", encode(name), encode(value)));
    }
    text.into()
}

/// A user `admin` who may do everything, and a key of it.
pub async fn administrator(s3: &Endpoint) -> Arc<AccessKey> {
    let user = NewUser {
        name: "admin".into(),
        path: "/".into(),
        ..NewUser::default()
    };
    s3.model.create_user(user).await.unwrap();
    let arn = "arn:aws:iam::aws:policy/AdministratorAccess";
    s3.model.attach::<User>("admin", arn).await.unwrap();
    s3.model.create_user_key("admin").await.unwrap()
}

const FORM: (&str, &str) = (
    "content-type",
    "application/x-www-form-urlencoded; charset=utf-8",
);

/// Asks IAM.
pub async fn ask(
    s3: &Endpoint,
    key: &AccessKey,
    action: &str,
    parameters: &[(&str, &str)],
) -> Reply {
    let body = form(action, "2010-05-08", parameters);
    s3.send(signed_for("iam", key, "POST", "/", &[FORM], body))
        .await
}

const GET: &str = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
    "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*"}]}"#;

#[tokio::test]
async fn a_user_gets_a_key_and_a_policy_and_reads() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    s3.put("/bucket/key", "content").await.ok();
    let user = &[
        ("UserName", "alice"),
        ("Path", "/team/"),
        ("Tags.member.1.Key", "a"),
        ("Tags.member.1.Value", "1"),
    ];
    let made = ask(&s3, &admin, "CreateUser", user).await.ok();
    assert_eq!(
        made.element("Arn").unwrap(),
        "arn:aws:iam::000000000000:user/team/alice"
    );
    assert!(
        made.text()
            .contains("<CreateUserResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\">")
    );
    assert!(made.element("UserId").unwrap().starts_with("AIDA"));
    ask(&s3, &admin, "CreateUser", &[("UserName", "ALICE")])
        .await
        .is(409, "EntityAlreadyExists");
    let made = ask(&s3, &admin, "CreateAccessKey", &[("UserName", "alice")])
        .await
        .ok();
    let id = made.element("AccessKeyId").unwrap();
    let key = s3.model.access_key(&id).unwrap().unwrap();
    assert_eq!(
        made.element("SecretAccessKey").unwrap(),
        key.secret.expose()
    );
    let get = || signed(&key, "GET", "/bucket/key", &[], Bytes::new());
    s3.send(get()).await.is(403, "AccessDenied");
    let policy = &[
        ("UserName", "alice"),
        ("PolicyName", "get"),
        ("PolicyDocument", GET),
    ];
    ask(&s3, &admin, "PutUserPolicy", policy).await.ok();
    assert_eq!(s3.send(get()).await.ok().text(), "content");
    let shown = ask(&s3, &admin, "GetUserPolicy", &policy[..2]).await.ok();
    assert_eq!(shown.element("PolicyDocument").unwrap(), encode(GET));
    s3.send(signed(&key, "DELETE", "/bucket/key", &[], Bytes::new()))
        .await
        .is(403, "AccessDenied");

    let inactive = &[
        ("UserName", "alice"),
        ("AccessKeyId", &*id),
        ("Status", "Inactive"),
    ];
    ask(&s3, &admin, "UpdateAccessKey", inactive).await.ok();
    s3.send(get()).await.is(403, "InvalidAccessKeyId");
    ask(&s3, &admin, "DeleteUser", &[("UserName", "alice")])
        .await
        .is(409, "DeleteConflict");
    ask(&s3, &admin, "DeleteAccessKey", &inactive[..2])
        .await
        .ok();
    ask(&s3, &admin, "DeleteUser", &[("UserName", "alice")])
        .await
        .is(409, "DeleteConflict");
    ask(&s3, &admin, "DeleteUserPolicy", &policy[..2])
        .await
        .ok();
    ask(&s3, &admin, "DeleteUser", &[("UserName", "alice")])
        .await
        .ok();
    ask(&s3, &admin, "GetUser", &[("UserName", "alice")])
        .await
        .is(404, "NoSuchEntity");
}

#[tokio::test]
async fn nobody_manages_users_without_a_policy() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    let other = s3.model.create_owner_key("owner of nothing").await.unwrap();
    for key in [&*s3.key, &*other] {
        for (action, parameters) in [
            ("CreateUser", &[("UserName", "mallory")][..]),
            ("ListUsers", &[]),
            ("CreateAccessKey", &[("UserName", "admin")]),
            (
                "AttachUserPolicy",
                &[
                    ("UserName", "x"),
                    ("PolicyArn", "arn:aws:iam::aws:policy/AdministratorAccess"),
                ],
            ),
        ] {
            ask(&s3, key, action, parameters)
                .await
                .is(403, "AccessDenied");
        }
    }
    // A policy for its own keys reaches no other user.
    ask(&s3, &admin, "CreateUser", &[("UserName", "alice")])
        .await
        .ok();
    let own = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "iam:*AccessKey*",
        "Resource": "arn:aws:iam::000000000000:user/${aws:username}"}}"#;
    let policy = &[
        ("UserName", "alice"),
        ("PolicyName", "own"),
        ("PolicyDocument", own),
    ];
    ask(&s3, &admin, "PutUserPolicy", policy).await.ok();
    let alice = s3.model.create_user_key("alice").await.unwrap();
    ask(&s3, &alice, "CreateAccessKey", &[]).await.ok();
    let listed = ask(&s3, &alice, "ListAccessKeys", &[("UserName", "alice")])
        .await
        .ok();
    assert_eq!(listed.text().matches("<member>").count(), 2);
    ask(&s3, &alice, "CreateAccessKey", &[("UserName", "admin")])
        .await
        .is(403, "AccessDenied");
    ask(&s3, &alice, "GetUser", &[])
        .await
        .is(403, "AccessDenied");
    // Nor can it take over a key by naming its own user with it.
    let stolen = &[("UserName", "alice"), ("AccessKeyId", &*admin.id)];
    ask(&s3, &alice, "DeleteAccessKey", stolen)
        .await
        .is(404, "NoSuchEntity");
}

#[tokio::test]
async fn requests_that_are_not_understood_are_refused() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    let user = ("UserName", "alice");
    ask(&s3, &admin, "CreateUser", &[user]).await.ok();
    for (action, parameters, status, code) in [
        ("CreateUser", &[][..], 400, "ValidationError"),
        ("CreateUser", &[("UserName", "a b")], 400, "ValidationError"),
        (
            "CreateUser",
            &[("UserName", "bob"), ("Path", "team")],
            400,
            "ValidationError",
        ),
        (
            "CreateUser",
            &[("UserName", "bob"), ("PermissionsBoundary", "x")],
            501,
            "NotImplemented",
        ),
        (
            "UpdateUser",
            &[user, ("NewUserName", "bob")],
            501,
            "NotImplemented",
        ),
        ("CreateVirtualMFADevice", &[], 501, "NotImplemented"),
        ("AssumeRole", &[], 501, "NotImplemented"),
        (
            "PutUserPolicy",
            &[user, ("PolicyName", "p"), ("PolicyDocument", "{}")],
            400,
            "MalformedPolicyDocument",
        ),
        (
            "AttachUserPolicy",
            &[user, ("PolicyArn", "arn:aws:iam::000000000000:policy/x")],
            404,
            "NoSuchEntity",
        ),
        (
            "UpdateAccessKey",
            &[user, ("AccessKeyId", "AKX"), ("Status", "Active")],
            404,
            "NoSuchEntity",
        ),
        ("ListUsers", &[("MaxItems", "0")], 400, "ValidationError"),
        ("GetLoginProfile", &[user], 404, "NoSuchEntity"),
        (
            "TagUser",
            &[
                user,
                ("Tags.member.1.Key", "a"),
                ("Tags.member.1.Value", "1"),
                ("Tags.member.2.Key", "A"),
                ("Tags.member.2.Value", "2"),
            ],
            400,
            "InvalidInput",
        ),
        (
            "DeletePolicy",
            &[("PolicyArn", "arn:aws:iam::aws:policy/AdministratorAccess")],
            403,
            "AccessDenied",
        ),
    ] {
        ask(&s3, &admin, action, parameters).await.is(status, code);
    }
    let long = format!(
        r#"{{"Statement": [{}]}}"#,
        vec![r#"{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}"#; 40].join(",")
    );
    let policy = &[user, ("PolicyName", "p"), ("PolicyDocument", &*long)];
    ask(&s3, &admin, "PutUserPolicy", policy)
        .await
        .is(409, "LimitExceeded");

    // The signature covers the body, and is for this service.
    let body = || form("ListUsers", "2010-05-08", &[]);
    let request = signed_for("sts", &admin, "POST", "/", &[FORM], body());
    assert_eq!(s3.send(request).await.status, 400);
    let (parts, _) = signed_for("iam", &admin, "POST", "/", &[FORM], body()).into_parts();
    let other = form("ListGroups", "2010-05-08", &[]);
    let changed = http::Request::from_parts(parts, http_body_util::Full::new(other));
    s3.send(changed).await.is(403, "SignatureDoesNotMatch");
    let unsigned = http::Request::post("/")
        .header("host", "127.0.0.1")
        .header(FORM.0, FORM.1)
        .body(http_body_util::Full::new(body()))
        .unwrap();
    s3.send(unsigned)
        .await
        .is(403, "MissingAuthenticationToken");
    let large = Bytes::from(vec![b'a'; 100_000]);
    let request = signed_for("iam", &admin, "POST", "/", &[FORM], large);
    assert_eq!(s3.send(request).await.status, 400);
}

/// The order of calls in which Terraform's provider makes, reads, changes and removes a managed
/// policy.
#[tokio::test]
async fn managed_policies_have_versions() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    let make = &[
        ("PolicyName", "get"),
        ("PolicyDocument", GET),
        ("Description", "reads"),
    ];
    let made = ask(&s3, &admin, "CreatePolicy", make).await.ok();
    let arn = made.element("Arn").unwrap();
    assert_eq!(arn, "arn:aws:iam::000000000000:policy/get");
    let policy = ("PolicyArn", &*arn);
    let shown = ask(&s3, &admin, "GetPolicy", &[policy]).await.ok();
    assert_eq!(shown.element("DefaultVersionId").unwrap(), "v1");
    ask(&s3, &admin, "CreateUser", &[("UserName", "alice")])
        .await
        .ok();
    ask(
        &s3,
        &admin,
        "AttachUserPolicy",
        &[("UserName", "alice"), policy],
    )
    .await
    .ok();
    let key = s3.model.create_user_key("alice").await.unwrap();
    s3.put("/bucket/key", "content").await.ok();
    let get = || signed(&key, "GET", "/bucket/key", &[], Bytes::new());
    s3.send(get()).await.ok();
    let nothing = GET.replace("Allow", "Deny");
    let version = &[
        policy,
        ("PolicyDocument", &*nothing),
        ("SetAsDefault", "true"),
    ];
    let made = ask(&s3, &admin, "CreatePolicyVersion", version).await.ok();
    assert_eq!(made.element("VersionId").unwrap(), "v2");
    s3.send(get()).await.is(403, "AccessDenied");
    let one = &[policy, ("VersionId", "v1")];
    let shown = ask(&s3, &admin, "GetPolicyVersion", one).await.ok();
    assert_eq!(shown.element("Document").unwrap(), encode(GET));
    ask(&s3, &admin, "SetDefaultPolicyVersion", one).await.ok();
    s3.send(get()).await.ok();
    ask(&s3, &admin, "DeletePolicyVersion", one)
        .await
        .is(409, "DeleteConflict");
    ask(
        &s3,
        &admin,
        "DeletePolicyVersion",
        &[policy, ("VersionId", "v2")],
    )
    .await
    .ok();
    for n in 3..7 {
        let made = ask(&s3, &admin, "CreatePolicyVersion", &version[..2])
            .await
            .ok();
        assert_eq!(made.element("VersionId").unwrap(), format!("v{n}"));
    }
    ask(&s3, &admin, "CreatePolicyVersion", &version[..2])
        .await
        .is(409, "LimitExceeded");
    let entities = ask(&s3, &admin, "ListEntitiesForPolicy", &[policy])
        .await
        .ok();
    assert_eq!(entities.element("UserName").unwrap(), "alice");
    ask(&s3, &admin, "DeletePolicy", &[policy])
        .await
        .is(409, "DeleteConflict");
    ask(
        &s3,
        &admin,
        "DetachUserPolicy",
        &[("UserName", "alice"), policy],
    )
    .await
    .ok();
    s3.send(get()).await.is(403, "AccessDenied");
    for n in 3..7 {
        let old = &[policy, ("VersionId", &*format!("v{n}"))];
        ask(&s3, &admin, "DeletePolicyVersion", old).await.ok();
    }
    ask(&s3, &admin, "DeletePolicy", &[policy]).await.ok();
    ask(&s3, &admin, "GetPolicy", &[policy])
        .await
        .is(404, "NoSuchEntity");
}
