//! Website configurations and redirects as the S3 door stores them.

use archipel_model::Permissions;
use bytes::Bytes;

use super::client::{Door, signed};

const CONFIGURATION: &str = "<WebsiteConfiguration>\
    <IndexDocument><Suffix>index.html</Suffix></IndexDocument>\
    <ErrorDocument><Key>lost&amp;found.html</Key></ErrorDocument>\
    <RoutingRules><RoutingRule>\
    <Condition><KeyPrefixEquals>docs/</KeyPrefixEquals>\
    <HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals></Condition>\
    <Redirect><Protocol>https</Protocol><HostName>example.org:8443</HostName>\
    <ReplaceKeyPrefixWith>documents/</ReplaceKeyPrefixWith>\
    <HttpRedirectCode>307</HttpRedirectCode></Redirect>\
    </RoutingRule></RoutingRules></WebsiteConfiguration>";

#[tokio::test]
async fn configuration_comes_back_as_it_was_put() {
    let door = Door::open().await;
    let none = door.get("/bucket?website").await;
    none.is(404, "NoSuchWebsiteConfiguration");
    door.put("/bucket?website", CONFIGURATION).await.ok();
    let text = door.get("/bucket?website").await.ok().text();
    let inner = |text: &str| {
        let (_, rest) = text.split_once("<IndexDocument>").unwrap();
        rest.to_owned()
    };
    assert_eq!(inner(&text), inner(CONFIGURATION));

    let redirect = "<WebsiteConfiguration><RedirectAllRequestsTo><HostName>example.org</HostName>\
                    </RedirectAllRequestsTo></WebsiteConfiguration>";
    door.put("/bucket?website", redirect).await.ok();
    let text = door.get("/bucket?website").await.ok().text();
    assert!(text.contains("<HostName>example.org</HostName></RedirectAllRequestsTo>"));

    let refused = door.put("/bucket?website", "<WebsiteConfiguration/>").await;
    refused.is(400, "InvalidArgument");
    assert_eq!(door.get("/bucket?website").await.text(), text);
    let gone = door.call("DELETE", "/bucket?website", &[], "").await;
    assert_eq!(gone.status, 204);
    let none = door.get("/bucket?website").await;
    none.is(404, "NoSuchWebsiteConfiguration");
}

#[tokio::test]
async fn only_owners_change_and_see_the_configuration() {
    let door = Door::open().await;
    let other = door
        .key_with(Permissions {
            read: true,
            write: true,
            owner: false,
        })
        .await;
    for (method, body) in [("PUT", CONFIGURATION), ("GET", ""), ("DELETE", "")] {
        let request = signed(&other, method, "/bucket?website", &[], Bytes::from(body));
        door.send(request).await.is(403, "AccessDenied");
    }
}

const REDIRECT: &str = "x-amz-website-redirect-location";

#[tokio::test]
async fn redirect_of_an_object_is_kept_and_not_copied() {
    let door = Door::open().await;
    let to = [(REDIRECT, "/elsewhere")];
    door.call("PUT", "/bucket/k", &to, "x").await.ok();
    let reply = door.get("/bucket/k").await.ok();
    assert_eq!(
        (reply.text().as_str(), reply.header(REDIRECT)),
        ("x", "/elsewhere")
    );
    let reply = door.call("HEAD", "/bucket/k", &[], "").await.ok();
    assert_eq!(reply.header(REDIRECT), "/elsewhere");

    let copy = [("x-amz-copy-source", "bucket/k")];
    door.call("PUT", "/bucket/copy", &copy, "").await.ok();
    assert_eq!(door.get("/bucket/copy").await.ok().header(REDIRECT), "");
    let onto_itself = [copy[0], (REDIRECT, "https://example.org/")];
    door.call("PUT", "/bucket/k", &onto_itself, "").await.ok();
    let reply = door.get("/bucket/k").await.ok();
    assert_eq!(reply.header(REDIRECT), "https://example.org/");

    let bad = [(REDIRECT, "elsewhere")];
    let refused = door.call("PUT", "/bucket/bad", &bad, "x").await;
    refused.is(400, "InvalidRedirectLocation");
    let begun = door.call("POST", "/bucket/m?uploads", &bad, "").await;
    begun.is(400, "InvalidRedirectLocation");
    assert_eq!(door.get("/bucket/bad").await.status, 404);
}
