//! Groups, roles and policies.

use http::StatusCode;

use super::{HOSTILE, Site, logged_in};
use crate::backend::encode;

const READ: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*"}]}"#;
const TRUST: &str =
    r#"{"Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": "*"}}"#;
const NO_ACTION: &str =
    r#"{"Statement": {"Effect": "Allow", "Action": "s3-Fly", "Resource": "*"}}"#;

/// Sends a form that leads to another page, and returns that page.
async fn done(site: &Site, path: &str, form: &str, leads_to: &str) -> String {
    let reply = site.post(path, form).await;
    assert_eq!(reply.header("location"), leads_to, "{form}: {}", reply.text);
    site.get(leads_to).await.text
}

/// Sends a form with a text that is refused. The page shows what is wrong, and the text again.
async fn refused(site: &Site, path: &str, form: &str, text: &str) -> String {
    let reply = site.post(path, &format!("{form}{}", encode(text))).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{}", reply.text);
    let shown = reply.text.replace("&#34;", "\"").replace("&quot;", "\"");
    assert!(shown.contains("role=\"alert\""), "{shown}");
    assert!(shown.contains(text) || text == HOSTILE, "{shown}");
    assert!(!shown.contains("<script>"), "{shown}");
    reply.text
}

#[tokio::test]
async fn group_gets_users_and_policies_and_is_deleted() {
    let site = logged_in().await;
    for name in ["anna", "bert"] {
        site.post("/users", &format!("name={name}")).await;
    }
    let at = "/groups/family";
    done(&site, "/groups", "name=family", at).await;
    let page = done(&site, at, "change=add&users=anna+bert", at).await;
    assert!(page.contains("/users/anna") && page.contains("/users/bert"));
    let page = site.get("/users/anna").await.text;
    assert!(page.contains("href=\"/groups/family\""), "{page}");
    let attach = "change=attach&policy=AmazonS3ReadOnlyAccess";
    let page = done(&site, at, attach, at).await;
    assert!(page.contains("arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"));
    let used = site.post(at, "change=delete").await;
    assert_eq!(used.status, StatusCode::CONFLICT);
    done(&site, at, "change=remove&users=anna+bert", at).await;
    let detach = "change=detach&policy=AmazonS3ReadOnlyAccess";
    done(&site, at, detach, at).await;
    let list = done(&site, at, "change=delete", "/groups").await;
    assert!(!list.contains("family"), "{list}");
    let wrong = site.post("/groups/family", "change=x").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn policy_is_made_replaced_and_deleted_and_refused_with_the_reason() {
    let site = logged_in().await;
    let form = "name=photos&description=%3Cb%3E&document=";
    let page = refused(&site, "/policies", form, NO_ACTION).await;
    assert!(page.contains("s3-Fly") && page.contains("value=\"photos\""));
    refused(&site, "/policies", form, HOSTILE).await;
    let at = format!(
        "/policies/{}",
        encode("arn:aws:iam::000000000000:policy/photos")
    );
    let page = done(&site, "/policies", &format!("{form}{}", encode(READ)), &at).await;
    assert!(page.contains("s3:GetObject") && !page.contains("<b>"));
    refused(&site, &at, "change=set&document=", NO_ACTION).await;
    let other = READ.replace("GetObject", "PutObject").replace('\n', "\r\n");
    let set = format!("change=set&document={}", encode(&other));
    let page = done(&site, &at, &set, &at).await;
    assert!(page.contains("<dd>2</dd>") && page.contains("s3:PutObject"));
    let policy = site.model.named_policy("photos").await.unwrap();
    assert_eq!(
        policy.versions[&2].policy.text(),
        other.replace("\r\n", "\n")
    );
    let list = done(&site, &at, "change=delete", "/policies").await;
    assert!(list.contains("AdministratorAccess") && !list.contains("policy/photos"));
    let built_in = site.get("/policies/AdministratorAccess").await.text;
    assert!(!built_in.contains("<textarea"), "{built_in}");
}

#[tokio::test]
async fn role_is_made_and_changed_and_has_a_policy_of_its_own() {
    let site = logged_in().await;
    let form = "name=backup&description=nightly&seconds=5400&trust=";
    refused(&site, "/roles", form, READ).await;
    let at = "/roles/backup";
    let page = done(&site, "/roles", &format!("{form}{}", encode(TRUST)), at).await;
    assert!(page.contains("value=\"nightly\"") && page.contains("value=\"5400\""));
    let set = format!(
        "change=set&description=weekly&seconds=7200&trust={}",
        encode(TRUST)
    );
    let page = done(&site, at, &set, at).await;
    assert!(page.contains("value=\"weekly\"") && page.contains("value=\"7200\""));
    refused(&site, at, "change=set&seconds=7200&trust=", READ).await;
    let many = site.post(at, "change=set&seconds=many&trust=x").await;
    assert_eq!(many.status, StatusCode::BAD_REQUEST);

    let (new, own) = ("/inline/roles/backup", "/inline/roles/backup/own");
    let page = refused(&site, new, "policy=own&document=", NO_ACTION).await;
    assert!(page.contains("value=\"own\""), "{page}");
    let form = format!("policy=own&document={}", encode(READ));
    let page = done(&site, new, &form, at).await;
    assert!(page.contains(own), "{page}");
    assert!(site.get(own).await.text.contains("s3:GetObject"));
    refused(&site, own, "document=", NO_ACTION).await;
    let used = site.post(at, "change=delete").await;
    assert_eq!(used.status, StatusCode::CONFLICT);
    done(&site, own, "change=delete", at).await;
    assert_eq!(site.get(own).await.status, StatusCode::NOT_FOUND);
    done(&site, at, "change=delete", "/roles").await;
}
