//! Sessions as clients see them, and tokens of identity providers.

mod web;

use archipel_model::{AccessKey, Secret};
use bytes::Bytes;

use crate::iam::tests::{administrator, ask as iam, form};
use crate::s3::tests::client::{Door, Reply, presigned, signed, signed_for};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// A role that users of the account may assume if their policies say so, and that may read.
async fn make_role(door: &Door, admin: &AccessKey, trust: &str) -> String {
    let role = &[("RoleName", "reader"), ("AssumeRolePolicyDocument", trust)];
    let made = iam(door, admin, "CreateRole", role).await.ok();
    let policy = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
        "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::bucket/*"}]}"#;
    let policy = &[
        ("RoleName", "reader"),
        ("PolicyName", "p"),
        ("PolicyDocument", policy),
    ];
    iam(door, admin, "PutRolePolicy", policy).await.ok();
    made.element("Arn").unwrap()
}

async fn sts(door: &Door, key: &AccessKey, action: &str, parameters: &[(&str, &str)]) -> Reply {
    let body = form(action, "2011-06-15", parameters);
    door.send(signed_for("sts", key, "POST", "/", &[FORM], body))
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

async fn get(door: &Door, key: &AccessKey, token: &str) -> Reply {
    let token = [("x-amz-security-token", token)];
    door.send(signed(key, "GET", "/bucket/key", &token, Bytes::new()))
        .await
}

const ACCOUNT: &str = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
    "Principal": {"AWS": "arn:aws:iam::000000000000:root"}, "Action": "sts:AssumeRole"}]}"#;

#[tokio::test]
async fn a_role_is_assumed_and_its_session_reads() {
    let door = Door::open().await;
    let admin = administrator(&door).await;
    door.put("/bucket/key", "content").await.ok();
    let arn = make_role(&door, &admin, ACCOUNT).await;
    let assume = &[("RoleArn", &*arn), ("RoleSessionName", "job")];
    // The policy of the role lets the account decide, and nothing allows this key anything.
    sts(&door, &door.key, "AssumeRole", assume)
        .await
        .is(403, "AccessDenied");
    let assumed = sts(&door, &admin, "AssumeRole", assume).await.ok();
    let (key, token) = credentials(&assumed);
    assert!(
        assumed
            .text()
            .contains("arn:aws:sts::000000000000:assumed-role/reader/job")
    );
    assert_eq!(get(&door, &key, &token).await.ok().text(), "content");
    let deleted = [("x-amz-security-token", &*token)];
    door.send(signed(
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
    assert_eq!(door.send(request).await.ok().text(), "content");

    // The key without its token, another token, and the token with another key.
    door.send(signed(&key, "GET", "/bucket/key", &[], Bytes::new()))
        .await
        .is(403, "InvalidAccessKeyId");
    get(&door, &key, "AAAA").await.is(400, "InvalidToken");
    get(&door, &door.key, &token).await.is(400, "InvalidToken");
    let forged = AccessKey::new(key.id.clone(), Secret::new("x".repeat(40)));
    get(&door, &forged, &token)
        .await
        .is(403, "SignatureDoesNotMatch");

    let with_token = &[FORM, ("x-amz-security-token", &*token)];
    let body = form("GetCallerIdentity", "2011-06-15", &[]);
    let who = door
        .send(signed_for("sts", &key, "POST", "/", with_token, body))
        .await
        .ok();
    assert_eq!(
        who.element("Arn").unwrap(),
        "arn:aws:sts::000000000000:assumed-role/reader/job"
    );
    assert!(who.element("UserId").unwrap().ends_with(":job"));

    // The session ends with the key that asked for it.
    door.model.set_key_disabled(&admin.id, true).await.unwrap();
    get(&door, &key, &token).await.is(403, "InvalidAccessKeyId");
    door.model.set_key_disabled(&admin.id, false).await.unwrap();
    get(&door, &key, &token).await.ok();
    let policy = &[("RoleName", "reader"), ("PolicyName", "p")];
    iam(&door, &admin, "DeleteRolePolicy", policy).await.ok();
    get(&door, &key, &token).await.is(403, "AccessDenied");
    iam(&door, &admin, "DeleteRole", &policy[..1]).await.ok();
    get(&door, &key, &token).await.is(403, "InvalidAccessKeyId");
}

#[tokio::test]
async fn a_policy_limits_a_session() {
    let door = Door::open().await;
    let admin = administrator(&door).await;
    door.put("/bucket/key", "content").await.ok();
    let arn = make_role(&door, &admin, ACCOUNT).await;
    let only = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow",
        "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/other/*"}}"#;
    let assume = &[
        ("RoleArn", &*arn),
        ("RoleSessionName", "job"),
        ("Policy", only),
    ];
    let (key, token) = credentials(&sts(&door, &admin, "AssumeRole", assume).await.ok());
    get(&door, &key, &token).await.is(403, "AccessDenied");
    let read_only = (
        "PolicyArns.member.1.arn",
        "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess",
    );
    let assume = &[assume[0], assume[1], read_only];
    let (key, token) = credentials(&sts(&door, &admin, "AssumeRole", assume).await.ok());
    get(&door, &key, &token).await.ok();
    let put = [("x-amz-security-token", &*token)];
    door.send(signed(&key, "PUT", "/bucket/key", &put, Bytes::new()))
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
        sts(&door, &admin, "AssumeRole", parameters)
            .await
            .is(status, code);
    }
}

#[tokio::test]
async fn a_session_token_acts_for_the_key_itself() {
    let door = Door::open().await;
    door.put("/bucket/key", "content").await.ok();
    let reply = sts(
        &door,
        &door.key,
        "GetSessionToken",
        &[("DurationSeconds", "900")],
    )
    .await
    .ok();
    let (key, token) = credentials(&reply);
    get(&door, &key, &token).await.ok();
    let with_token = &[FORM, ("x-amz-security-token", &*token)];
    let body = form("GetSessionToken", "2011-06-15", &[]);
    door.send(signed_for("sts", &key, "POST", "/", with_token, body))
        .await
        .is(403, "AccessDenied");
    door.model.delete_access_key(&door.key.id).await.unwrap();
    get(&door, &key, &token).await.is(403, "InvalidAccessKeyId");
}
