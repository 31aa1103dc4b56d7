//! Sessions as clients see them, and tokens of identity providers.

mod web;

use archipel_model::{AccessKey, Secret};
use bytes::Bytes;

use crate::iam::tests::{administrator, ask as iam, form};
use crate::s3::tests::client::{Endpoint, Reply, presigned, signed, signed_for};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// A role that users of the account may assume if their policies say so, and that may read.
async fn make_role(s3: &Endpoint, admin: &AccessKey, trust: &str) -> String {
    let role = &[("RoleName", "reader"), ("AssumeRolePolicyDocument", trust)];
    let made = iam(s3, admin, "CreateRole", role).await.ok();
    let policy = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
        "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::bucket/*"}]}"#;
    let policy = &[
        ("RoleName", "reader"),
        ("PolicyName", "p"),
        ("PolicyDocument", policy),
    ];
    iam(s3, admin, "PutRolePolicy", policy).await.ok();
    made.element("Arn").unwrap()
}

async fn sts(s3: &Endpoint, key: &AccessKey, action: &str, parameters: &[(&str, &str)]) -> Reply {
    let body = form(action, "2011-06-15", parameters);
    s3.send(signed_for("sts", key, "POST", "/", &[FORM], body))
        .await
}

/// The credentials of an answer.
fn credentials(reply: &Reply) -> (AccessKey, String) {
    let element = |name| reply.element(name).unwrap();
    let secret = Secret::new(element("SecretAccessKey"));
    (
        AccessKey::new(element("AccessKeyId"), secret),
        element("SessionToken"),
    )
}

async fn get(s3: &Endpoint, key: &AccessKey, token: &str) -> Reply {
    let token = [("x-amz-security-token", token)];
    s3.send(signed(key, "GET", "/bucket/key", &token, Bytes::new()))
        .await
}

const ACCOUNT: &str = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
    "Principal": {"AWS": "arn:aws:iam::000000000000:root"}, "Action": "sts:AssumeRole"}]}"#;

#[tokio::test]
async fn a_role_is_assumed_and_its_session_reads() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    s3.put("/bucket/key", "content").await.ok();
    let arn = make_role(&s3, &admin, ACCOUNT).await;
    let assume = &[("RoleArn", &*arn), ("RoleSessionName", "job")];
    // The policy of the role lets the account decide, and nothing allows this key anything.
    sts(&s3, &s3.key, "AssumeRole", assume)
        .await
        .is(403, "AccessDenied");
    let assumed = sts(&s3, &admin, "AssumeRole", assume).await.ok();
    let (key, token) = credentials(&assumed);
    assert!(
        assumed
            .text()
            .contains("arn:aws:sts::000000000000:assumed-role/reader/job")
    );
    assert_eq!(get(&s3, &key, &token).await.ok().text(), "content");
    let deleted = [("x-amz-security-token", &*token)];
    s3.send(signed(
        &key,
        "DELETE",
        "/bucket/key",
        &deleted,
        Bytes::new(),
    ))
    .await
    .is(403, "AccessDenied");

    // Presigned, with the token in the query.
    let url = presigned(
        &key,
        "GET",
        &format!("/bucket/key?X-Amz-Security-Token={token}"),
    );
    let request = http::Request::get(url).header("host", "127.0.0.1");
    let request = request.body(http_body_util::Full::default()).unwrap();
    assert_eq!(s3.send(request).await.ok().text(), "content");

    // The key without its token, another token, and the token with another key.
    s3.send(signed(&key, "GET", "/bucket/key", &[], Bytes::new()))
        .await
        .is(403, "InvalidAccessKeyId");
    get(&s3, &key, "AAAA").await.is(400, "InvalidToken");
    get(&s3, &s3.key, &token).await.is(400, "InvalidToken");
    let forged = AccessKey::new(key.id.clone(), Secret::new("x".repeat(40)));
    get(&s3, &forged, &token)
        .await
        .is(403, "SignatureDoesNotMatch");

    let with_token = &[FORM, ("x-amz-security-token", &*token)];
    let body = form("GetCallerIdentity", "2011-06-15", &[]);
    let who = s3
        .send(signed_for("sts", &key, "POST", "/", with_token, body))
        .await
        .ok();
    assert_eq!(
        who.element("Arn").unwrap(),
        "arn:aws:sts::000000000000:assumed-role/reader/job"
    );
    assert!(who.element("UserId").unwrap().ends_with(":job"));

    // The session ends with the key that asked for it.
    s3.model.disable_key(&admin.id).await.unwrap();
    get(&s3, &key, &token).await.is(403, "InvalidAccessKeyId");
    s3.model.enable_key(&admin.id).await.unwrap();
    get(&s3, &key, &token).await.ok();
    let policy = &[("RoleName", "reader"), ("PolicyName", "p")];
    iam(&s3, &admin, "DeleteRolePolicy", policy).await.ok();
    get(&s3, &key, &token).await.is(403, "AccessDenied");
    iam(&s3, &admin, "DeleteRole", &policy[..1]).await.ok();
    get(&s3, &key, &token).await.is(403, "InvalidAccessKeyId");
}

#[tokio::test]
async fn a_policy_limits_a_session() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    s3.put("/bucket/key", "content").await.ok();
    let arn = make_role(&s3, &admin, ACCOUNT).await;
    let only = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow",
        "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/other/*"}}"#;
    let assume = &[
        ("RoleArn", &*arn),
        ("RoleSessionName", "job"),
        ("Policy", only),
    ];
    let (key, token) = credentials(&sts(&s3, &admin, "AssumeRole", assume).await.ok());
    get(&s3, &key, &token).await.is(403, "AccessDenied");
    let read_only = (
        "PolicyArns.member.1.arn",
        "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess",
    );
    let assume = &[assume[0], assume[1], read_only];
    let (key, token) = credentials(&sts(&s3, &admin, "AssumeRole", assume).await.ok());
    get(&s3, &key, &token).await.ok();
    let put = [("x-amz-security-token", &*token)];
    s3.send(signed(&key, "PUT", "/bucket/key", &put, Bytes::new()))
        .await
        .is(403, "AccessDenied");
    for (parameters, status, code) in [
        (&[assume[0]][..], 400, "ValidationError"),
        (
            &[assume[0], ("RoleSessionName", "j")],
            400,
            "ValidationError",
        ),
        (
            &[assume[0], assume[1], ("DurationSeconds", "3601")],
            400,
            "ValidationError",
        ),
        (
            &[assume[0], assume[1], ("Policy", "{}")],
            400,
            "MalformedPolicyDocument",
        ),
        (
            &[assume[0], assume[1], ("SerialNumber", "x")],
            501,
            "NotImplemented",
        ),
        (
            &[
                ("RoleArn", "arn:aws:iam::000000000000:role/none"),
                assume[1],
            ],
            403,
            "AccessDenied",
        ),
        (
            &[
                ("RoleArn", "arn:aws:iam::000000000000:role/x/reader"),
                assume[1],
            ],
            403,
            "AccessDenied",
        ),
    ] {
        sts(&s3, &admin, "AssumeRole", parameters)
            .await
            .is(status, code);
    }
}

#[tokio::test]
async fn a_session_token_acts_for_the_key_itself() {
    let s3 = Endpoint::open().await;
    s3.put("/bucket/key", "content").await.ok();
    let reply = sts(
        &s3,
        &s3.key,
        "GetSessionToken",
        &[("DurationSeconds", "900")],
    )
    .await
    .ok();
    let (key, token) = credentials(&reply);
    get(&s3, &key, &token).await.ok();
    let with_token = &[FORM, ("x-amz-security-token", &*token)];
    let body = form("GetSessionToken", "2011-06-15", &[]);
    s3.send(signed_for("sts", &key, "POST", "/", with_token, body))
        .await
        .is(403, "AccessDenied");
    s3.model.delete_access_key(&s3.key.id).await.unwrap();
    get(&s3, &key, &token).await.is(403, "InvalidAccessKeyId");
}
