//! Logins, links, logouts, and what a token may not do.

use std::time::Duration;

use archipel_api::serve::Secure;
use axum::body::Body;
use http::{Request, StatusCode};

use super::{Site, TOKEN, logged_in, site};

/// Logs in with a link.
async fn by_link() -> Site {
    let mut site = site().await;
    let form = format!("token={}", site.token("all", true).await);
    let reply = site.post_bare("/login/link", &form).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.text);
    site.take_cookie(&reply);
    site.with_secret().await
}

#[tokio::test]
async fn wrong_token_is_refused_without_a_cookie() {
    let site = site().await;
    for token in [
        "",
        "wrong",
        "archipel_0000_1111",
        "a%01b",
        "a%0D%0Ab",
        "%C3%A9",
    ] {
        let reply = site.post_bare("/login", &format!("token={token}")).await;
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
        assert_eq!(reply.header("set-cookie"), "");
        assert!(reply.text.contains("unknown, expired or revoked"));
    }
}

#[tokio::test]
async fn cookie_is_kept_from_scripts_and_other_sites() {
    let site = site().await;
    let form = format!("token={TOKEN}");
    let cookie = site.post_bare("/login", &form).await;
    let cookie = cookie.header("set-cookie");
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure") && !cookie.contains(TOKEN));
    let request = Request::post("/login")
        .header("content-type", "application/x-www-form-urlencoded")
        .header("host", "console.example")
        .header("origin", "https://console.example")
        .body(Body::from(form));
    let cookie = site.send(request.unwrap()).await;
    assert!(cookie.header("set-cookie").contains("; Secure"));
}

/// With the form of a page whose policy is `no-referrer`, browsers send `Origin: null` (Fetch, "append a request
/// `Origin` header"). Over plain HTTP to another machine, nothing else says which page sent the form.
#[tokio::test]
async fn form_of_a_page_is_taken_over_plain_http_from_another_machine() {
    let site = site().await;
    let page = site.get("/login").await;
    let origin = match page.header("referrer-policy") {
        "no-referrer" => "null",
        _ => "http://console.example:3905",
    };
    let post = async |origin: &str| {
        let request = Request::post("/login")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("host", "console.example:3905")
            .header("origin", origin)
            .body(Body::from(format!("token={TOKEN}")));
        site.send(request.unwrap()).await
    };
    let reply = post(origin).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.text);
    assert!(!reply.header("set-cookie").contains("Secure"));
    for other in ["null", "http://console.example", "http://evil.example:3905"] {
        let reply = post(other).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{other}");
    }
}

#[tokio::test]
async fn form_that_never_ends_is_given_up() {
    let site = site().await;
    tokio::time::pause();
    for path in ["/login", "/login/link"] {
        let endless = futures_util::stream::pending::<Result<&[u8], std::io::Error>>();
        let request = Request::post(path)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from_stream(endless));
        let answer = tokio::time::timeout(Duration::from_secs(60), site.send(request.unwrap()));
        let answer = answer.await.expect("an answer in time");
        assert_eq!(answer.status, StatusCode::REQUEST_TIMEOUT, "{path}");
    }
}

/// A website below the same domain can set cookies for the console, for single paths of it, too.
#[tokio::test]
async fn cookies_that_a_sibling_host_sets_end_no_session_and_begin_none() {
    let mut site = logged_in().await;
    let begun = site.cookie.clone().unwrap();
    let name = begun.split('=').next().unwrap();
    site.cookie = Some(format!("{name}=x; {begun}"));
    assert_eq!(site.get("/cluster").await.status, StatusCode::OK);

    let login = Request::post("/login")
        .extension(Secure)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(format!("token={TOKEN}")));
    let reply = site.send(login.unwrap()).await;
    assert!(reply.header("set-cookie").starts_with("__Host-"));
    let status = async |site: &Site| {
        let request = Request::get("/cluster").extension(Secure);
        site.send(request.body(Body::empty()).unwrap()).await.status
    };
    // This session was begun without TLS.
    assert_eq!(status(&site).await, StatusCode::SEE_OTHER);
    site.take_cookie(&reply);
    site.cookie = Some(format!("{begun}; {}", site.cookie.unwrap()));
    assert_eq!(status(&site).await, StatusCode::OK);
}

#[tokio::test]
async fn logout_ends_the_session() {
    let site = logged_in().await;
    let reply = site.post("/logout", "").await;
    assert!(reply.asks_for_login());
    assert!(reply.header("set-cookie").contains("Max-Age=0"));
    assert!(site.get("/cluster").await.asks_for_login());
}

#[tokio::test]
async fn revoked_token_ends_the_session() {
    let site = site().await;
    let token = site.token("all", true).await;
    let site = site.log_in(&token).await;
    assert_eq!(site.get("/cluster").await.status, StatusCode::OK);
    let id = site.model.admin_tokens().unwrap().remove(0).id.clone();
    site.model.revoke_admin_token(&id).await.unwrap();
    assert!(site.get("/cluster").await.asks_for_login());
}

#[tokio::test]
async fn link_logs_in_once_and_its_token_ends_with_the_logout() {
    let mut site = site().await;
    let form = format!("token={}", site.token("all", true).await);
    let reply = site.post_bare("/login/link", &form).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.text);
    site.take_cookie(&reply);
    let again = site.post_bare("/login/link", &form).await;
    assert_eq!(again.status, StatusCode::UNAUTHORIZED);
    let site = site.with_secret().await;
    assert_eq!(site.model.admin_tokens().unwrap().len(), 1);
    assert!(site.post("/logout", "").await.asks_for_login());
    assert_eq!(site.model.admin_tokens().unwrap().len(), 0);
}

#[tokio::test]
async fn logout_removes_the_cookie_also_if_the_token_cannot_be_revoked() {
    let site = by_link().await;
    let id = site.model.admin_tokens().unwrap().remove(0).id.clone();
    site.model.revoke_admin_token(&id).await.unwrap();
    let reply = site.post("/logout", "").await;
    assert!(reply.asks_for_login(), "{}", reply.text);
    assert!(reply.header("set-cookie").contains("Max-Age=0"));
}

#[tokio::test]
async fn token_of_a_link_ends_with_an_idle_session() {
    let site = by_link().await;
    assert_eq!(site.model.admin_tokens().unwrap().len(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2 * 3600)).await;
    tokio::time::resume();
    assert!(site.get("/cluster").await.asks_for_login());
    let revoked = async {
        while !site.model.admin_tokens().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let revoked = tokio::time::timeout(Duration::from_secs(60), revoked).await;
    revoked.expect("the token is revoked");
}

#[tokio::test]
async fn of_many_who_follow_a_link_at_once_one_logs_in_and_the_others_leave_nothing() {
    let site = site().await;
    let form = format!("token={}", site.token("all", true).await);
    let follow = (0..12).map(|_| site.post_bare("/login/link", &form));
    let replies = futures_util::future::join_all(follow).await;
    let (entered, refused): (Vec<_>, Vec<_>) = replies
        .iter()
        .map(|reply| reply.status)
        .partition(|status| *status == StatusCode::SEE_OTHER);
    assert_eq!(entered.len(), 1);
    assert!(refused.iter().all(|s| *s == StatusCode::UNAUTHORIZED));
    let tokens = site.model.admin_tokens().unwrap();
    assert_eq!(tokens.len(), 1, "{tokens:?}");
    let left_ms = tokens[0].expires_ms.unwrap() - site.model.cluster().now_ms();
    assert!(left_ms > 11 * 3_600_000, "{left_ms}");
}

#[tokio::test]
async fn token_with_few_scopes_sees_and_does_no_more_than_the_api_lets_it() {
    let site = site().await;
    site.bucket("photos").await;
    let token = site.token("buckets", false).await;
    let site = site.log_in(&token).await.with_secret().await;
    assert_eq!(site.get("/buckets").await.status, StatusCode::OK);
    let cluster = site.get("/cluster").await;
    assert!(cluster.text.contains("lacks the scope status:read"));
    let made = site.post("/buckets", "name=other").await;
    assert_eq!(made.status, StatusCode::FORBIDDEN);
    assert!(made.text.contains("buckets:write"), "{}", made.text);
    // Objects need an access key, and so the right to read its secret.
    let objects = site.get("/buckets/photos").await;
    assert!(objects.text.contains("keys:write"), "{}", objects.text);
    let upload = site
        .put("/buckets/photos/upload?o=a", &site.csrf, "x")
        .await;
    assert_eq!(upload.status, StatusCode::FORBIDDEN);
}
