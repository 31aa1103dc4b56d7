//! Versions: shown, downloaded, restored, deleted, protected.

use archipel_model::Versioning;
use http::StatusCode;

use super::{Site, logged_in};
use crate::backend::encode;

const KEY: &str = "dir%2Fa%20b%2B.txt";

/// A bucket with versions, and three versions of one object. Returns their ids, the newest first.
async fn with_versions() -> (Site, Vec<String>) {
    let site = logged_in().await;
    site.bucket("photos").await;
    let bucket = site.model.bucket("photos").unwrap().unwrap();
    let on = site.model.set_versioning(&bucket, Versioning::Enabled);
    on.await.unwrap();
    for content in ["first", "second", "third"] {
        let upload = format!("/buckets/photos/upload?o={KEY}");
        let stored = site.put(&upload, &site.csrf, content).await;
        assert_eq!(stored.status, StatusCode::NO_CONTENT, "{}", stored.text);
    }
    let ids = site.versions().await;
    assert_eq!(ids.len(), 3);
    (site, ids)
}

impl Site {
    async fn history(&self) -> String {
        let page = self.get(&format!("/buckets/photos/history?o={KEY}")).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.text);
        page.text
    }

    /// Returns the ids that the page offers to delete.
    async fn versions(&self) -> Vec<String> {
        let page = self.history().await;
        let rest = page.split("aria-label=\"Delete version ").skip(1);
        rest.map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect()
    }

    async fn download(&self, version: &str) -> String {
        let path = format!("/buckets/photos/download?o={KEY}&v={version}");
        self.get(&path).await.text
    }

    async fn change_version(&self, version: &str, change: &str) -> super::Reply {
        let form = format!("o={}&v={version}&change={change}", encode(KEY));
        self.post("/buckets/photos/history", &form).await
    }
}

#[tokio::test]
async fn old_version_is_downloaded_restored_and_deleted() {
    let (site, ids) = with_versions().await;
    assert_eq!(site.download(&ids[2]).await, "first");
    assert_eq!(site.download("").await, "third");
    let done = site.change_version(&ids[2], "restore").await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    assert_eq!(site.download("").await, "first");
    let after = site.versions().await;
    assert_eq!(after[1..], ids, "the copy is a new version");
    let gone = site.change_version(&ids[1], "delete").await;
    assert_eq!(gone.status, StatusCode::SEE_OTHER, "{}", gone.text);
    assert!(!site.versions().await.contains(&ids[1]));
    let unknown = site.change_version(&ids[2], "paint").await;
    assert_eq!(unknown.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn preview_checks_the_version_that_it_sends() {
    let (site, _) = with_versions().await;
    let script = "<script>alert(1)</script>";
    site.store_as(KEY, "application/pdf", script).await;
    site.store_as(KEY, "application/pdf", "%PDF-1.4").await;
    let ids = site.versions().await;
    let preview = async |version: &str| {
        let path = format!("/buckets/photos/preview?o={KEY}&v={version}");
        site.get(&path).await
    };
    let raw = preview(&ids[1]).await;
    assert_eq!(raw.status, StatusCode::BAD_REQUEST);
    assert!(!raw.text.contains(script), "{}", raw.text);
    // Below a delete marker, where no current version can be read.
    let form = format!("o={}", encode(KEY));
    let deleted = site.post("/buckets/photos/delete", &form);
    assert_eq!(deleted.await.status, StatusCode::SEE_OTHER);
    let document = preview(&ids[0]).await;
    assert_eq!(document.header("content-type"), "application/pdf");
    assert_eq!(document.header("content-length"), "8");
    assert_eq!(document.text, "%PDF-1.4");
}

#[tokio::test]
async fn deleted_object_is_found_and_comes_back() {
    let (site, ids) = with_versions().await;
    let form = format!("o={}", encode(KEY));
    let deleted = site.post("/buckets/photos/delete", &form);
    assert_eq!(deleted.await.status, StatusCode::SEE_OTHER);
    let folder = site
        .get("/buckets/photos/versions?prefix=dir%2F")
        .await
        .text;
    assert!(folder.contains("</span>deleted"), "{folder}");
    assert!(folder.contains("a b+.txt</a>"), "{folder}");
    let marker = site.versions().await.remove(0);
    assert!(!ids.contains(&marker));
    let removed = site.change_version(&marker, "delete").await;
    assert_eq!(removed.status, StatusCode::SEE_OTHER, "{}", removed.text);
    assert_eq!(site.download("").await, "third");
}

#[tokio::test]
async fn protected_version_cannot_be_deleted_until_the_protection_ends() {
    let (site, ids) = with_versions().await;
    let refused = site
        .change_version(&ids[0], "retain&mode=GOVERNANCE&day=2099-01-01")
        .await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
    let bucket = site.model.bucket("photos").unwrap().unwrap();
    let lock = site.model.set_bucket_lock(&bucket, Default::default());
    lock.await.unwrap();
    let change = "retain&mode=GOVERNANCE&day=2099-01-01";
    let kept = site.change_version(&ids[0], change).await;
    assert_eq!(kept.status, StatusCode::SEE_OTHER, "{}", kept.text);
    let page = site.get(kept.header("location")).await.text;
    assert!(
        page.contains("governance until 2099-01-01 00:00:00 UTC"),
        "{page}"
    );
    assert_eq!(
        site.change_version(&ids[0], "hold").await.status,
        StatusCode::SEE_OTHER
    );
    for change in ["delete", "delete&bypass=on"] {
        let refused = site.change_version(&ids[0], change).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{change}");
    }
    assert_eq!(
        site.change_version(&ids[0], "release").await.status,
        StatusCode::SEE_OTHER
    );
    let refused = site.change_version(&ids[0], "delete").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let done = site.change_version(&ids[0], "delete&bypass=on").await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    for wrong in [
        "retain&mode=STRICT&day=2099-01-01",
        "retain&mode=COMPLIANCE&sure=on&day=%3Cx%3E",
    ] {
        let refused = site.change_version(&ids[1], wrong).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[tokio::test]
async fn retention_that_nobody_can_end_takes_a_box_that_says_so() {
    let (site, ids) = with_versions().await;
    let bucket = site.model.bucket("photos").unwrap().unwrap();
    let lock = site.model.set_bucket_lock(&bucket, Default::default());
    lock.await.unwrap();
    let change = "retain&mode=COMPLIANCE&day=2099-01-01";
    let refused = site.change_version(&ids[0], change).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.text.contains("nobody can end"), "{}", refused.text);
    let page = format!("/buckets/photos/history?o={KEY}&v={}", ids[0]);
    assert!(site.get(&page).await.text.contains("no retention"));
    let change = format!("{change}&sure=on");
    let kept = site.change_version(&ids[0], &change).await;
    assert_eq!(kept.status, StatusCode::SEE_OTHER, "{}", kept.text);
    let page = site.get(kept.header("location")).await.text;
    assert!(page.contains("compliance until 2099-01-01"), "{page}");
}

#[tokio::test]
async fn versions_of_all_pages_are_shown_in_detail() {
    let (site, ids) = with_versions().await;
    for _ in 0..100 {
        let upload = format!("/buckets/photos/upload?o={KEY}");
        site.put(&upload, &site.csrf, "later").await;
    }
    // The oldest version is on the second page.
    let first = site.history().await;
    assert!(!first.contains(&ids[2]));
    let link = |page: &str, to: &str| -> String {
        let before = page.split(to).next().unwrap();
        let (_, link) = before.rsplit_once("href=\"").unwrap();
        link.split('"').next().unwrap().replace("&#38;", "&")
    };
    let second = site.get(&link(&first, "\">Older versions")).await.text;
    let detail = link(&second, &format!("aria-label=\"Show version {}", ids[2]));
    let page = site.get(&detail).await.text;
    let chosen = format!("<h2>Version <span class=\"mono\">{}</span></h2>", ids[2]);
    assert!(page.contains(&chosen), "{detail}: {page}");
    // A form of the page leads to where the others are.
    let (_, after) = detail.split_once("version=").unwrap();
    let delete = format!("delete&version={after}");
    let deleted = site.change_version(&ids[2], &delete).await;
    let rest = site.get(deleted.header("location")).await.text;
    assert!(rest.contains(&ids[1]) && !rest.contains(&ids[2]), "{rest}");
    let newest = site.get(&link(&rest, "\">Newest versions")).await.text;
    assert!(!newest.contains(&ids[1]));
}
