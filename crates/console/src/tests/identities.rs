//! Groups, roles and policies.

use http::StatusCode;

use super::{HOSTILE, Site, logged_in};
use crate::backend::encode;

const READ: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*"}]}"#;
const TRUST: &str =
    r#"{"Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": "*"}}"#;
/// The beginning of a form that sets a policy.
const SET: &str = "name=\"change\" value=\"set\"";
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

/// Sends a form of a page that showed what is not there any more.
async fn is_late(site: &Site, path: &str, form: &str) {
    let before = site.get(path).await.text;
    let reply = site.post(path, form).await;
    assert_eq!(reply.status, StatusCode::PRECONDITION_FAILED, "{form}");
    assert_eq!(site.get(path).await.text, before, "{form}");
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

/// Sends forms of the same page in the same moment, as several operators do: one makes its change, and the others are
/// refused.
async fn one_of_many_changes_it(site: &Site, path: &str, form: impl Fn(u32) -> String) {
    let forms: Vec<String> = (0..8).map(form).collect();
    let sent = forms.iter().map(|form| site.post(path, form));
    let sent = futures_util::future::join_all(sent).await;
    let with = |status: StatusCode| sent.iter().filter(|reply| reply.status == status).count();
    let counts = [StatusCode::SEE_OTHER, StatusCode::PRECONDITION_FAILED].map(with);
    assert_eq!(counts, [1, 7], "{path}");
}

#[tokio::test]
async fn policies_and_roles_lose_no_change_of_another_operator() {
    let site = logged_in().await;
    let policy = "/policies/arn%3Aaws%3Aiam%3A%3A000000000000%3Apolicy%2Fphotos";
    let made = format!("name=photos&document={}", encode(READ));
    done(&site, "/policies", &made, policy).await;
    let seen = site.mark(policy, SET).await;
    let other = |number: u32| READ.replace("photos/*", &format!("photos/{number}/*"));
    one_of_many_changes_it(&site, policy, |number| {
        let document = encode(&other(number));
        format!("change=set&shown={seen}&document={document}")
    })
    .await;
    let stored = site.model.named_policy("photos").await.unwrap();
    assert_eq!((stored.default, stored.versions.len()), (2, 2));

    let role = "/roles/backup";
    let trust = encode(TRUST);
    let made = format!("name=backup&description=&seconds=3600&trust={trust}");
    done(&site, "/roles", &made, role).await;
    let seen = site.mark(role, SET).await;
    let set = |number: u32| {
        format!(
            "change=set&shown={seen}&description=d{number}&seconds={}&trust={trust}",
            3600 + number
        )
    };
    one_of_many_changes_it(&site, role, set).await;
    let late = site.post(role, &set(9)).await;
    assert_eq!(late.status, StatusCode::PRECONDITION_FAILED);
    assert!(late.text.contains("value=\"d9\" readonly"), "{}", late.text);
    assert!(late.text.contains("href=\"/roles/backup\""));
    assert!(!late.text.contains("Save</button>"));
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
    let seen = site.mark(&at, SET).await;
    let set = format!("change=set&shown={seen}&document=");
    refused(&site, &at, &set, NO_ACTION).await;
    let other = READ.replace("GetObject", "PutObject").replace('\n', "\r\n");
    let set = format!("{set}{}", encode(&other));
    let page = done(&site, &at, &set, &at).await;
    // It shows what was there before.
    is_late(&site, &at, &set).await;
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
    let set = async |seconds: &str| {
        let seen = site.mark(at, SET).await;
        format!("change=set&shown={seen}&description=weekly&seconds={seconds}&trust=")
    };
    let form = format!("{}{}", set("7200").await, encode(TRUST));
    let page = done(&site, at, &form, at).await;
    assert!(page.contains("value=\"weekly\"") && page.contains("value=\"7200\""));
    is_late(&site, at, &form.replace("7200", "3600")).await;
    refused(&site, at, &set("7200").await, READ).await;
    let many = site.post(at, "change=set&seconds=many&trust=x").await;
    assert_eq!(many.status, StatusCode::BAD_REQUEST);

    let (new, own) = ("/inline/roles/backup", "/inline/roles/backup/own");
    let page = refused(&site, new, "policy=own&document=", NO_ACTION).await;
    assert!(page.contains("value=\"own\""), "{page}");
    let form = format!("policy=own&document={}", encode(READ));
    let page = done(&site, new, &form, at).await;
    assert!(page.contains(own), "{page}");
    let seen = site.mark(own, "<form ").await;
    let shown = format!("shown={seen}&document=");
    refused(&site, own, &shown, NO_ACTION).await;
    // Another operator adds one of the same name, or changes or deletes the one that is not there any more.
    let other = encode(&READ.replace("GetObject", "PutObject"));
    is_late(&site, new, &format!("policy=own&document={other}")).await;
    // It can be added under another name.
    let form = format!("policy=own&document={other}");
    let taken = site.post(new, &form).await;
    assert!(taken.text.contains("Save</button>"));
    is_late(&site, own, &format!("document={other}")).await;
    assert!(site.get(own).await.text.contains("s3:GetObject"));
    done(&site, own, &format!("{shown}{other}"), at).await;
    is_late(&site, own, &format!("{shown}{}", encode(READ))).await;
    is_late(&site, own, &format!("change=delete&shown={seen}")).await;
    assert!(site.get(own).await.text.contains("s3:PutObject"));
    let used = site.post(at, "change=delete").await;
    assert_eq!(used.status, StatusCode::CONFLICT);
    let seen = site.mark(own, "<form ").await;
    done(&site, own, &format!("change=delete&shown={seen}"), at).await;
    assert_eq!(site.get(own).await.status, StatusCode::NOT_FOUND);
    done(&site, at, "change=delete", "/roles").await;
}
