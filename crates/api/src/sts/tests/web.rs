//! Web identities, with an identity provider in the test.

use archipel_base::Id;
use archipel_model::identity::Provider;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::FutureExt;
use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::{FORM, credentials, get, make_role};
use crate::iam::tests::{administrator, ask as iam, form};
use crate::s3::tests::client::{Endpoint, NOW_MS, Reply};
use crate::sts::Providers;
use crate::sts::jwks::{RETRY, may_hold_keys};
use crate::sts::jwt::Token;

/// An identity provider on this machine, with one key.
struct Issuer {
    url: String,
    pair: EcdsaKeyPair,
    asked: std::sync::Arc<std::sync::atomic::AtomicUsize>,
    /// False while it answers nobody.
    answers: watch::Sender<bool>,
}

impl Issuer {
    async fn open() -> Issuer {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://127.0.0.1:{}/realm",
            listener.local_addr().unwrap().port()
        );
        let point = pair.public_key().as_ref();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let keys = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "one", "use": "sig",
            "x": text(&point[1..33]), "y": text(&point[33..])}]});
        let discovery = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = asked.clone();
        let (answers, mut may_answer) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let length = stream.read(&mut request).await.unwrap_or(0);
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                let body = match request.split(' ').nth(1) {
                    Some("/realm/.well-known/openid-configuration") => discovery.to_string(),
                    Some("/realm/keys") => keys.to_string(),
                    _ => String::new(),
                };
                count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                if may_answer.wait_for(|may| *may).await.is_err() {
                    return;
                }
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Issuer {
            url,
            pair,
            asked,
            answers,
        }
    }

    fn registered(&self) -> Provider {
        Provider {
            name: "issuer".into(),
            url: self.url.clone(),
            created_ms: 0,
            incarnation: Id::default(),
            clients: ["archipel".to_owned()].into(),
            thumbprints: Vec::new(),
            tags: Vec::new(),
        }
    }

    fn token(&self, key: &str, claims: serde_json::Value) -> String {
        let text = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = json!({"alg": "ES256", "kid": key, "typ": "JWT"});
        let signed = format!("{}.{}", text(header), text(claims));
        let signature = self
            .pair
            .sign(&SystemRandom::new(), signed.as_bytes())
            .unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    fn claims(&self, subject: &str) -> serde_json::Value {
        json!({"iss": self.url, "sub": subject, "aud": "archipel", "exp": NOW_MS / 1000 + 600})
    }
}

async fn assume(s3: &Endpoint, arn: &str, token: &str) -> Reply {
    let parameters = [
        ("RoleArn", arn),
        ("RoleSessionName", "web"),
        ("WebIdentityToken", token),
    ];
    let body = form("AssumeRoleWithWebIdentity", "2011-06-15", &parameters);
    let request = http::Request::post("/")
        .header("host", "127.0.0.1")
        .header(FORM.0, FORM.1)
        .body(http_body_util::Full::new(body));
    s3.send(request.unwrap()).await
}

#[tokio::test]
async fn a_web_identity_gets_credentials() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    s3.put("/bucket/key", "content").await.ok();
    let issuer = Issuer::open().await;
    let name = issuer.url.strip_prefix("http://").unwrap();
    let arn = format!("arn:aws:iam::000000000000:oidc-provider/{name}");
    let trust = json!({"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
        "Principal": {"Federated": arn}, "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {"StringEquals": {format!("{name}:aud"): "archipel"},
                      "StringLike": {format!("{name}:sub"): "repo:*"}}}]});
    let role = make_role(&s3, &admin, &trust.to_string()).await;
    let good = issuer.token("one", issuer.claims("repo:main"));
    // The provider is not registered yet.
    assume(&s3, &role, &good)
        .await
        .is(400, "InvalidIdentityToken");
    let provider = &[("Url", &*issuer.url), ("ClientIDList.member.1", "archipel")];
    iam(&s3, &admin, "CreateOpenIDConnectProvider", provider)
        .await
        .ok();

    let reply = assume(&s3, &role, &good).await.ok();
    assert_eq!(
        reply.element("SubjectFromWebIdentityToken").unwrap(),
        "repo:main"
    );
    let (key, token) = credentials(&reply);
    assert_eq!(get(&s3, &key, &token).await.ok().text(), "content");

    let with = |name: &str, value: serde_json::Value| {
        let mut claims = issuer.claims("repo:main");
        claims[name] = value;
        issuer.token("one", claims)
    };
    for (token, code) in [
        (with("aud", json!("other")), "InvalidIdentityToken"),
        (
            with("aud", json!(["other", "more"])),
            "InvalidIdentityToken",
        ),
        (with("azp", json!("other")), "InvalidIdentityToken"),
        (
            with("exp", json!(NOW_MS / 1000 - 600)),
            "ExpiredTokenException",
        ),
        (
            with("nbf", json!(NOW_MS / 1000 + 600)),
            "InvalidIdentityToken",
        ),
        (
            with(
                "iss",
                json!(format!("{}/", issuer.url.replace("realm", "other"))),
            ),
            "InvalidIdentityToken",
        ),
        (format!("{good}x"), "InvalidIdentityToken"),
        (good.replace(".", ".."), "InvalidIdentityToken"),
        ("x".repeat(30_000), "InvalidIdentityToken"),
    ] {
        assume(&s3, &role, &token).await.is(400, code);
    }
    assume(&s3, &role, &with("aud", json!(["other", "archipel"])))
        .await
        .ok();
    // Another subject, and a token that another key signed under the same name.
    let other = issuer.token("one", issuer.claims("branch"));
    assume(&s3, &role, &other).await.is(403, "AccessDenied");
    let stranger = Issuer::open().await;
    let forged = stranger.token("one", issuer.claims("repo:main"));
    assume(&s3, &role, &forged)
        .await
        .is(400, "InvalidIdentityToken");

    // All that asked the provider twice: for its configuration and its keys. Unknown keys make
    // nobody ask again at once.
    for n in 0..5 {
        let unknown = issuer.token(&format!("k{n}"), issuer.claims("repo:main"));
        assume(&s3, &role, &unknown)
            .await
            .is(400, "InvalidIdentityToken");
    }
    assert_eq!(issuer.asked.load(std::sync::atomic::Ordering::SeqCst), 2);

    // Its sessions end with the provider.
    iam(
        &s3,
        &admin,
        "DeleteOpenIDConnectProvider",
        &[("OpenIDConnectProviderArn", &*arn)],
    )
    .await
    .ok();
    get(&s3, &key, &token).await.is(403, "InvalidAccessKeyId");
}

#[tokio::test]
async fn client_that_goes_away_during_a_fetch_leaves_the_keys_behind() {
    let issuer = Issuer::open().await;
    let (provider, providers) = (issuer.registered(), Providers::default());
    let token = issuer.token("one", issuer.claims("repo:main"));
    let token = Token::parse(&token).unwrap();
    let left = providers.verify(&token, &provider, NOW_MS);
    assert!(left.now_or_never().is_none(), "the keys are fetched");
    providers.verify(&token, &provider, NOW_MS).await.unwrap();
    assert_eq!(issuer.asked.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[tokio::test]
async fn tokens_of_known_keys_do_not_wait_for_the_fetch_that_an_invented_one_causes() {
    let issuer = Issuer::open().await;
    let (provider, providers) = (issuer.registered(), Providers::default());
    let good = issuer.token("one", issuer.claims("repo:main"));
    let good = Token::parse(&good).unwrap();
    providers.verify(&good, &provider, NOW_MS).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(RETRY).await;
    tokio::time::resume();
    issuer.answers.send_replace(false);
    let invented = issuer.token("two", issuer.claims("repo:main"));
    let invented = Token::parse(&invented).unwrap();
    let mut fetching = Box::pin(providers.verify(&invented, &provider, NOW_MS));
    assert!(futures_util::poll!(fetching.as_mut()).is_pending());
    let verified = providers.verify(&good, &provider, NOW_MS).now_or_never();
    verified.expect("at once").unwrap();
    issuer.answers.send_replace(true);
    assert!(fetching.await.is_err());
    assert_eq!(issuer.asked.load(std::sync::atomic::Ordering::SeqCst), 4);
}

#[tokio::test]
async fn providers_on_other_machines_need_tls() {
    let s3 = Endpoint::open().await;
    let admin = administrator(&s3).await;
    for url in [
        "http://id.example.org",
        "ftp://127.0.0.1",
        "https://",
        "http://127.0.0.1.evil.org",
        "https://a/b?c",
    ] {
        let provider = &[("Url", url)];
        let reply = iam(&s3, &admin, "CreateOpenIDConnectProvider", provider).await;
        reply.is(400, "ValidationError");
    }
}

#[test]
fn remote_provider_sends_no_node_to_its_own_ports() {
    let (remote, local) = (
        "https://id.example.org/realm",
        "http://127.0.0.1:8080/realm",
    );
    assert!(may_hold_keys(remote, "https://keys.example.org/jwks?v=1"));
    assert!(may_hold_keys(local, "http://127.0.0.1:8080/realm/keys"));
    assert!(may_hold_keys(local, "https://keys.example.org/jwks"));
    assert!(!may_hold_keys(remote, "http://127.0.0.1:3903/v1/status"));
    assert!(!may_hold_keys(remote, "http://localhost/"));
    assert!(!may_hold_keys(local, "http://keys.example.org/jwks"));
}

#[tokio::test]
async fn clients_do_not_learn_why_a_provider_gives_no_keys() {
    let issuer = Issuer::open().await;
    // Nothing listens there.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let mut claims = issuer.claims("repo:main");
    claims["iss"] = json!(closed);
    let token = issuer.token("one", claims);
    let token = Token::parse(&token).unwrap();
    let provider = Provider {
        url: closed.clone(),
        ..issuer.registered()
    };
    let providers = Providers::default();
    let first = providers.verify(&token, &provider, NOW_MS).await;
    let first = first.unwrap_err();
    assert_eq!(
        first.message,
        "The identity provider cannot be asked for its keys"
    );
    assert!(first.cause.unwrap().starts_with(&closed));
    // It is not asked again at once.
    let second = providers.verify(&token, &provider, NOW_MS).await;
    let second = second.unwrap_err();
    assert_eq!((second.message, second.cause), (first.message, None));
}

proptest! {
    /// No text makes the reader of tokens panic.
    #[test]
    fn any_text_is_a_token_or_an_error(text in "[A-Za-z0-9_.-]{0,200}", noise in ".{0,60}") {
        let _ = Token::parse(&text);
        let _ = Token::parse(&noise);
    }
}
