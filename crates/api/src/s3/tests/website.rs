//! Website configurations and redirects as the S3 endpoint stores them.

use archipel_model::Permissions;
use bytes::Bytes;

use super::client::{Endpoint, signed};

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
    let s3 = Endpoint::open().await;
    let none = s3.get("/bucket?website").await;
    none.is(404, "NoSuchWebsiteConfiguration");
    s3.put("/bucket?website", CONFIGURATION).await.ok();
    let text = s3.get("/bucket?website").await.ok().text();
    let inner = |text: &str| {
        let (_, rest) = text.split_once("<IndexDocument>").unwrap();
        rest.to_owned()
    };
    assert_eq!(inner(&text), inner(CONFIGURATION));

    let redirect = "<WebsiteConfiguration><RedirectAllRequestsTo><HostName>example.org</HostName>\
                    </RedirectAllRequestsTo></WebsiteConfiguration>";
    s3.put("/bucket?website", redirect).await.ok();
    let text = s3.get("/bucket?website").await.ok().text();
    assert!(text.contains("<HostName>example.org</HostName></RedirectAllRequestsTo>"));

    let refused = s3.put("/bucket?website", "<WebsiteConfiguration/>").await;
    refused.is(400, "InvalidArgument");
    assert_eq!(s3.get("/bucket?website").await.text(), text);
    let gone = s3.call("DELETE", "/bucket?website", &[], "").await;
    assert_eq!(gone.status, 204);
    let none = s3.get("/bucket?website").await;
    none.is(404, "NoSuchWebsiteConfiguration");
}

#[tokio::test]
async fn only_owners_change_and_see_the_configuration() {
    let s3 = Endpoint::open().await;
    let other = s3
        .key_with(Permissions {
            read: true,
            write: true,
            owner: false,
        })
        .await;
    for (method, body) in [("PUT", CONFIGURATION), ("GET", ""), ("DELETE", "")] {
        let request = signed(&other, method, "/bucket?website", &[], Bytes::from(body));
        s3.send(request).await.is(403, "AccessDenied");
    }
}

const REDIRECT: &str = "x-amz-website-redirect-location";

#[tokio::test]
async fn redirect_of_an_object_is_kept_and_not_copied() {
    let s3 = Endpoint::open().await;
    let to = [(REDIRECT, "/elsewhere")];
    s3.call("PUT", "/bucket/k", &to, "x").await.ok();
    let reply = s3.get("/bucket/k").await.ok();
    assert_eq!(
        (reply.text().as_str(), reply.header(REDIRECT)),
        ("x", "/elsewhere")
    );
    let reply = s3.call("HEAD", "/bucket/k", &[], "").await.ok();
    assert_eq!(reply.header(REDIRECT), "/elsewhere");

    let copy = [("x-amz-copy-source", "bucket/k")];
    s3.call("PUT", "/bucket/copy", &copy, "").await.ok();
    assert_eq!(s3.get("/bucket/copy").await.ok().header(REDIRECT), "");
    let onto_itself = [copy[0], (REDIRECT, "https://example.org/")];
    s3.call("PUT", "/bucket/k", &onto_itself, "").await.ok();
    let reply = s3.get("/bucket/k").await.ok();
    assert_eq!(reply.header(REDIRECT), "https://example.org/");

    let bad = [(REDIRECT, "elsewhere")];
    let refused = s3.call("PUT", "/bucket/bad", &bad, "x").await;
    refused.is(400, "InvalidRedirectLocation");
    let begun = s3.call("POST", "/bucket/m?uploads", &bad, "").await;
    begun.is(400, "InvalidRedirectLocation");
    assert_eq!(s3.get("/bucket/bad").await.status, 404);
}
