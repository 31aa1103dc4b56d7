//! Keys, users, tokens, layout and work.

use http::StatusCode;

use super::{Site, logged_in};

/// Sends a form of the page of the user anna, and returns the page after that.
async fn change_anna(site: &Site, form: &str) -> String {
    let reply = site.post("/users/anna", form).await;
    assert_eq!(reply.header("location"), "/users/anna", "{}", reply.text);
    site.get("/users/anna").await.text
}

#[tokio::test]
async fn key_is_made_disabled_enabled_and_deleted_and_its_secret_shown_once() {
    let site = logged_in().await;
    let made = site
        .post("/keys", "name=%3Cb%3Elaptop&create_bucket=on")
        .await;
    assert_eq!(made.status, StatusCode::OK, "{}", made.text);
    let key = site.model.access_keys().unwrap().remove(0);
    assert!(key.may_create_buckets && !made.text.contains("<b>laptop"));
    assert!(made.text.contains(key.secret.expose()));
    let page = format!("/keys/{}", key.id);
    for change in ["disable", "enable", "no-buckets", "create-buckets"] {
        let reply = site.post(&page, &format!("change={change}")).await;
        assert_eq!(reply.header("location"), page, "{}", reply.text);
        let shown = site.get(&page).await.text;
        assert!(!shown.contains(key.secret.expose()));
        assert_eq!(shown.contains("Disabled:"), change == "disable");
    }
    assert!(site.get("/keys?name=laptop").await.text.contains(&key.id));
    assert!(!site.get("/keys?name=other").await.text.contains(&key.id));
    assert_eq!(
        site.post(&page, "change=x").await.status,
        StatusCode::BAD_REQUEST
    );
    let deleted = site.post(&page, "change=delete").await;
    assert_eq!(deleted.header("location"), "/keys");
    assert!(site.model.access_keys().unwrap().is_empty());
}

#[tokio::test]
async fn key_is_made_with_an_expiry_and_gets_another_one() {
    let site = logged_in().await;
    site.post("/keys", "name=phone&days=30").await;
    let key = || site.model.access_keys().unwrap().remove(0);
    let (id, made) = (key().id.clone(), key().expires_ms.unwrap());
    let page = format!("/keys/{id}");
    let text = site.get(&page).await.text;
    assert!(text.contains(&crate::show::time(made)), "{text}");
    site.post(&page, "change=expire&days=90").await;
    assert!(key().expires_ms.unwrap() > made);
    site.post(&page, "change=expire&days=").await;
    assert_eq!(key().expires_ms, None);
    for form in ["change=expire&days=-1", "change=expire&days=soon"] {
        let reply = site.post(&page, form).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{form}");
    }
    let over = archipel_model::identity::KeyChange {
        expires_ms: Some(Some(1)),
        ..Default::default()
    };
    site.model.change_key(&id, over).await.unwrap();
    for page in [&*page, "/keys"] {
        let text = site.get(page).await.text.to_lowercase();
        assert!(text.contains("</span>expired"), "{text}");
    }
}

#[tokio::test]
async fn user_gets_a_quota_and_is_disabled_and_enabled() {
    let site = logged_in().await;
    site.post("/users", "name=anna").await;
    let set = async |form: &str| change_anna(&site, form).await;
    let page = set("change=quota&bytes=20+GiB&objects=500").await;
    assert!(page.contains("value=\"21474836480\"") && page.contains("value=\"500\""));
    assert!(page.contains("0 % of the bytes") && page.contains("hold 0 objects, 0 B"));
    let page = set("change=quota&bytes=&objects=").await;
    assert!(!page.contains("21474836480") && !page.contains("% of the"));
    for form in ["change=quota&bytes=much", "change=quota&objects=-1"] {
        let reply = site.post("/users/anna", form).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{form}");
    }
    assert!(set("change=disable").await.contains("value=\"enable\""));
    assert!(site.get("/users").await.text.contains(">disabled</span>"));
    assert!(set("change=enable").await.contains("value=\"disable\""));
}

#[tokio::test]
async fn user_gets_a_policy_and_a_key() {
    let site = logged_in().await;
    site.post("/users", "name=anna").await;
    let set = async |form: &str| change_anna(&site, form).await;
    let page = set("change=attach&policy=AmazonS3ReadOnlyAccess").await;
    let (_, arn) = page.split_once("name=\"policy\" value=\"").unwrap();
    let arn = arn.split('"').next().unwrap().replace(':', "%3A");
    let page = set(&format!("change=detach&policy={arn}")).await;
    assert!(!page.contains("value=\"detach\""), "{page}");
    let made = site.post("/users/anna", "change=key").await;
    assert!(made.text.contains("id=\"made-secret\""), "{}", made.text);
    let used = site.post("/users/anna", "change=delete").await;
    assert_eq!(used.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn token_is_made_with_scopes_and_revoked() {
    let site = logged_in().await;
    let form = "name=graph&scopes=status%3Aread+nodes%3Aread&days=30";
    let made = site.post("/tokens", form).await;
    assert!(made.text.contains("archipel_"), "{}", made.text);
    let token = site.model.admin_tokens().unwrap().remove(0);
    assert_eq!((token.scopes.len(), token.expires_ms.is_some()), (2, true));
    for days in ["0x", "18446744073709551615"] {
        let form = format!("name=graph&scopes=all%3Aread&days={days}");
        let reply = site.post("/tokens", &form).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    }
    assert!(site.get("/tokens").await.text.contains(&token.id));
    site.post(&format!("/tokens/{}/revoke", token.id), "").await;
    assert!(site.model.admin_tokens().unwrap().is_empty());
}

#[tokio::test]
async fn layout_changes_are_staged_shown_and_discarded() {
    let site = logged_in().await;
    let layout = site.get("/layout").await.text;
    let (_, node) = layout.split_once("name=\"node\" value=\"").unwrap();
    let node = node.split('"').next().unwrap().to_owned();
    let form = format!("change=assign&node={node}&zone=attic&capacity=500GB");
    let staged = site.post("/layout", &form).await;
    assert_eq!(staged.header("location"), "/layout", "{}", staged.text);
    let page = site.get("/layout").await.text;
    assert!(page.contains("zone attic, 465.7 GiB"), "{page}");
    assert!(page.contains("value=\"apply\""));
    site.post("/layout", "change=discard").await;
    assert!(!site.get("/layout").await.text.contains("zone attic"));
    let form = "change=redundancy&replicas=1&zones=1";
    let staged = site.post("/layout", form).await;
    assert_eq!(staged.header("location"), "/layout", "{}", staged.text);
    let page = site.get("/layout").await.text;
    let copies = "<li>1 copies of everything, in at least 1 zones</li>";
    assert!(page.contains(copies), "{page}");
    site.post("/layout", "change=discard").await;
    for form in [
        "change=x",
        "change=assign&node=a&capacity=much",
        "change=apply&version=x",
        "change=redundancy&replicas=many",
    ] {
        let reply = site.post("/layout", form).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{form}");
    }
}

#[tokio::test]
async fn work_is_started_and_charts_get_counters() {
    let site = logged_in().await;
    for work in ["verify&deep=on", "scrub", "stop-scrub"] {
        let reply = site.post("/activity", &format!("change={work}")).await;
        assert_eq!(
            reply.header("location"),
            "/activity",
            "{work}: {}",
            reply.text
        );
    }
    let data = site.get("/activity/data").await;
    assert_eq!(data.header("content-type"), "application/json");
    assert!(data.text.starts_with("{\"requests\":"), "{}", data.text);
}
