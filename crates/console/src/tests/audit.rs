//! The audit log.

use http::StatusCode;

use super::{Site, logged_in};

impl Site {
    async fn audit(&self, query: &str) -> String {
        let page = self.get(&format!("/audit{query}")).await;
        assert_eq!(page.status, StatusCode::OK, "{query}: {}", page.text);
        page.text
    }

    /// Stores and gets an object whose key is a script.
    async fn some_requests(&self) {
        self.bucket("photos").await;
        let at = "/buckets/photos/upload?o=%3Cscript%3Ealert(1)%3C%2Fscript%3E";
        let stored = self.put(at, &self.csrf, "x").await;
        assert_eq!(stored.status, StatusCode::NO_CONTENT, "{}", stored.text);
        self.get("/buckets/photos/download?o=nothing").await;
    }
}

#[tokio::test]
async fn requests_are_shown_newest_first_and_escaped() {
    let site = logged_in().await;
    site.some_requests().await;
    let page = site.audit("").await;
    let (get, put) = (page.find(">GetObject<"), page.find(">PutObject<"));
    assert!(get.is_some() && get < put, "{page}");
    assert!(page.contains("photos/&#60;script&#62;alert(1)"), "{page}");
    assert!(!page.contains("<script>alert"));
    assert!(page.contains("404 NoSuchKey"), "{page}");
}

#[tokio::test]
async fn lines_are_filtered() {
    let site = logged_in().await;
    site.some_requests().await;
    let key = site.model.access_keys().unwrap().remove(0).id.clone();
    let has = async |query: &str| {
        let page = site.audit(query).await;
        (page.contains(">PutObject<"), page.contains(">GetObject<"))
    };
    assert_eq!(has("?action=PutObject").await, (true, false));
    assert_eq!(has("?decision=refused").await, (false, true));
    assert_eq!(has("?bucket=photos").await, (true, true));
    assert_eq!(has("?bucket=other").await, (false, false));
    assert_eq!(has("?key=oth").await, (false, true));
    assert_eq!(has(&format!("?who={key}&endpoint=s3")).await, (true, true));
    assert_eq!(has("?endpoint=admin").await, (false, false));
    let page = site.audit("?who=%22%3E%3Cscript%3Ealert(1)").await;
    assert!(page.contains("no such lines") && !page.contains("<script>alert"));
}

#[tokio::test]
async fn what_operators_only_look_at_is_shown_on_demand() {
    let site = logged_in().await;
    site.post("/users", "name=anna").await;
    let shown = site.audit("").await;
    assert!(
        shown.contains("/v1/users") && !shown.contains("/v1/status"),
        "{shown}"
    );
    assert!(site.audit("?endpoint=all").await.contains("/v1/status"));
}

#[tokio::test]
async fn older_lines_are_on_further_pages() {
    let site = logged_in().await;
    site.bucket("photos").await;
    for number in 0..120 {
        let at = format!("/buckets/photos/upload?o=number-{number:03}");
        site.put(&at, &site.csrf, "x").await;
    }
    let page = site.audit("?action=PutObject").await;
    assert!(page.contains("number-119") && page.contains("number-020"));
    assert!(!page.contains("number-019"));
    let (_, next) = page.split_once("<a href=\"/audit?action=").unwrap();
    let next = next.split('"').next().unwrap().replace("&#38;", "&");
    let page = site.audit(&format!("?action={next}")).await;
    assert!(page.contains("number-019") && page.contains("number-000"));
    assert!(!page.contains("number-020") && !page.contains("rel=\"next\""));
    let wrong = site.get("/audit?before=x").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn denied_request_leads_to_the_reason() {
    let site = logged_in().await;
    site.some_requests().await;
    let poor = site.model.create_access_key("poor").await.unwrap();
    site.get(&format!("/buckets/photos?k={}", poor.id)).await;
    let page = site.audit("?decision=denied").await;
    let (_, link) = page.split_once("<a href=\"/access").unwrap();
    let link = link.split('"').next().unwrap().replace("&#38;", "&");
    assert!(link.contains("action=s3%3AListBucket"), "{link}");
    let answer = site.get(&format!("/access{link}")).await;
    assert!(answer.text.contains("Denied"), "{}", answer.text);
}

#[tokio::test]
async fn audit_log_needs_its_scope() {
    let site = super::site().await;
    let token = site.token("buckets", false).await;
    let site = site.log_in(&token).await;
    assert_eq!(site.get("/audit").await.status, StatusCode::FORBIDDEN);
}
