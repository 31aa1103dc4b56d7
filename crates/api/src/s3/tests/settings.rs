//! Settings of buckets that are always off, methods that no sub-resource has, and headers that a
//! new bucket would ignore.

use archipel_model::Permissions;
use archipel_model::identity::{NewUser, User};
use bytes::Bytes;

use super::client::{Endpoint, signed};

const LOGGED: &str = "<BucketLoggingStatus><LoggingEnabled><TargetBucket>bucket</TargetBucket>\
    <TargetPrefix>l/</TargetPrefix></LoggingEnabled></BucketLoggingStatus>";

fn acceleration(status: &str) -> String {
    format!("<AccelerateConfiguration><Status>{status}</Status></AccelerateConfiguration>")
}

fn abac(status: &str) -> String {
    format!("<AbacStatus><Status>{status}</Status></AbacStatus>")
}

fn encryption(blocked: &str) -> String {
    format!(
        "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>\
         <SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault>\
         <BlockedEncryptionTypes>{blocked}</BlockedEncryptionTypes></Rule>\
         </ServerSideEncryptionConfiguration>"
    )
}

#[tokio::test]
async fn what_is_off_can_be_turned_off() {
    let s3 = Endpoint::open().await;
    let reply = s3.call("DELETE", "/bucket?replication", &[], "").await;
    assert_eq!(reply.status, 204);
    for name in ["analytics", "inventory", "metrics", "intelligent-tiering"] {
        let path = format!("/bucket?{name}&id=x");
        let reply = s3.call("DELETE", &path, &[], "").await;
        reply.is(404, "NoSuchConfiguration");
        let path = format!("/bucket?{name}");
        let reply = s3.call("DELETE", &path, &[], "").await;
        reply.is(400, "InvalidArgument");
        s3.put(&path, "<x/>").await.is(501, "NotImplemented");
    }
    s3.put("/bucket?logging", "<BucketLoggingStatus/>")
        .await
        .ok();
    s3.put("/bucket?abac", abac("Disabled")).await.ok();
    let status = s3.get("/bucket?abac").await.ok().element("Status");
    assert_eq!(status.as_deref(), Some("Disabled"));
    // The state of acceleration is told once it was set.
    let state = async || s3.get("/bucket?accelerate").await.ok().element("Status");
    assert_eq!(state().await, None);
    s3.put("/bucket?accelerate", acceleration("Suspended"))
        .await
        .ok();
    assert_eq!(state().await.as_deref(), Some("Suspended"));
    for method in ["GET", "DELETE"] {
        for path in ["/bucket?metadataConfiguration", "/bucket?metadataTable"] {
            let reply = s3.call(method, path, &[], "").await;
            reply.is(404, "MetadataConfigurationNotFound");
        }
    }
}

#[tokio::test]
async fn what_is_off_cannot_be_turned_on() {
    let s3 = Endpoint::open().await;
    let put = |path, document: String| s3.put(path, document);
    let missing = [
        ("/bucket?logging", LOGGED.to_owned()),
        ("/bucket?accelerate", acceleration("Enabled")),
        ("/bucket?abac", abac("Enabled")),
        ("/bucket?replication", "<x/>".to_owned()),
    ];
    for (path, document) in missing {
        put(path, document).await.is(501, "NotImplemented");
    }
    let none = "<EncryptionType>NONE</EncryptionType>";
    let malformed = [
        (
            "/bucket?logging",
            "<BucketLoggingStatus><x/></BucketLoggingStatus>".to_owned(),
        ),
        ("/bucket?logging", "<x/>".to_owned()),
        ("/bucket?accelerate", acceleration("Off")),
        ("/bucket?abac", abac("Off")),
        ("/bucket?abac", abac("").replace("<Status></Status>", "")),
        (
            "/bucket?accelerate",
            "<AccelerateConfiguration/>".to_owned(),
        ),
        ("/bucket?encryption", encryption("")),
        ("/bucket?encryption", encryption(&none.replace("NONE", "x"))),
        ("/bucket?encryption", encryption(&[none, none].concat())),
        (
            "/bucket?encryption",
            encryption(&[none, &none.replace("NONE", "SSE-C")].concat()),
        ),
    ];
    for (path, document) in malformed {
        put(path, document).await.is(400, "MalformedXML");
    }
    s3.get("/bucket?encryption")
        .await
        .is(404, "ServerSideEncryptionConfigurationNotFoundError");
}

#[tokio::test]
async fn settings_that_are_off_need_a_permission_and_a_bucket() {
    let s3 = Endpoint::open().await;
    let writer = Permissions {
        read: true,
        write: true,
        owner: false,
    };
    let writer = s3.key_with(writer).await;
    for (method, query, body) in [
        ("DELETE", "replication", String::new()),
        ("DELETE", "analytics&id=x", String::new()),
        ("DELETE", "inventory&id=x", String::new()),
        ("DELETE", "metrics&id=x", String::new()),
        ("DELETE", "intelligent-tiering&id=x", String::new()),
        ("PUT", "logging", "<BucketLoggingStatus/>".to_owned()),
        ("PUT", "accelerate", acceleration("Suspended")),
        ("PUT", "abac", abac("Disabled")),
        ("GET", "metadataConfiguration", String::new()),
        ("DELETE", "metadataConfiguration", String::new()),
        ("GET", "metadataTable", String::new()),
        ("DELETE", "metadataTable", String::new()),
    ] {
        let path = format!("/bucket?{query}");
        let refused = signed(&writer, method, &path, &[], Bytes::from(body.clone()));
        s3.send(refused).await.is(403, "AccessDenied");
        let owner = [("x-amz-expected-bucket-owner", "111111111111")];
        let refused = s3.call(method, &path, &owner, body.clone()).await;
        refused.is(403, "AccessDenied");
        let path = format!("/none?{query}");
        let nowhere = s3.call(method, &path, &[], body).await;
        nowhere.is(404, "NoSuchBucket");
    }
}

#[tokio::test]
async fn a_method_that_no_sub_resource_has_is_not_allowed() {
    let s3 = Endpoint::open().await;
    for (method, path, allowed) in [
        ("POST", "/bucket?cors", "GET, PUT, DELETE"),
        ("DELETE", "/bucket?acl", "GET, PUT"),
        ("PUT", "/bucket?location", "GET"),
        ("GET", "/bucket?delete", "POST"),
        ("GET", "/bucket?restore", ""),
        ("DELETE", "/bucket/k?acl", "GET, PUT"),
    ] {
        let reply = s3.call(method, path, &[], "").await;
        reply.is(405, "MethodNotAllowed");
        assert_eq!(reply.element("Method").as_deref(), Some(method), "{path}");
        assert!(reply.element("ResourceType").is_some(), "{path}");
        assert_eq!(reply.header("allow"), allowed, "{path}");
    }
    // Nobody learns that without a signature that counts.
    let none = http::Request::post("/bucket?cors").header("host", "h");
    let none = none.body(http_body_util::Full::default()).unwrap();
    s3.send(none).await.is(403, "AccessDenied");
}

#[tokio::test]
async fn a_new_bucket_ignores_no_header_about_objects() {
    let s3 = Endpoint::open().await;
    let headers = [
        ("x-amz-object-lock-mode", "GOVERNANCE"),
        ("x-amz-object-lock-legal-hold", "ON"),
        (
            "x-amz-object-lock-retain-until-date",
            "2030-01-01T00:00:00Z",
        ),
        ("x-amz-bypass-governance-retention", "true"),
        ("x-amz-tagging", "a=1"),
        ("x-amz-tagging-directive", "REPLACE"),
    ];
    for header in headers {
        let reply = s3.call("PUT", "/other", &[header], "").await;
        reply.is(501, "NotImplemented");
        assert_eq!(reply.element("Header").as_deref(), Some(header.0));
        let enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
        let reply = s3
            .call("PUT", "/bucket?versioning", &[header], enabled)
            .await;
        reply.is(501, "NotImplemented");
    }
    s3.get("/other").await.is(404, "NoSuchBucket");
    let locked = [("x-amz-bucket-object-lock-enabled", "true")];
    s3.call("PUT", "/other", &locked, "").await.ok();
    s3.get("/other?object-lock").await.ok();
}

#[tokio::test]
async fn the_block_of_the_account_needs_its_own_permission() {
    let s3 = Endpoint::open().await;
    let user = NewUser {
        name: "alice".into(),
        path: "/".into(),
        ..NewUser::default()
    };
    s3.model.create_user(user).await.unwrap();
    let alice = s3.model.create_user_key("alice").await.unwrap();
    let ask = |account: &'static str| {
        let account = [("x-amz-account-id", account)];
        let path = "/v20180820/configuration/publicAccessBlock";
        s3.send(signed(&alice, "GET", path, &account, Bytes::new()))
    };
    ask("000000000000").await.is(403, "AccessDenied");
    let arn = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess";
    s3.model.attach::<User>("alice", arn).await.unwrap();
    ask("000000000000")
        .await
        .is(404, "NoSuchPublicAccessBlockConfiguration");
    ask("111111111111").await.is(403, "AccessDenied");
}

#[tokio::test]
async fn the_block_of_another_account_is_denied() {
    let s3 = Endpoint::open().await;
    const PATH: &str = "/v20180820/configuration/publicAccessBlock";
    for (account, method) in [
        ("999", "GET"),
        ("111111111111", "GET"),
        ("111111111111", "PUT"),
    ] {
        let account = [("x-amz-account-id", account)];
        let reply = s3.call(method, PATH, &account, "").await;
        let (status, code) = match method {
            "GET" => (403, "AccessDenied"),
            _ => (501, "NotImplemented"),
        };
        reply.is(status, code);
    }
}
