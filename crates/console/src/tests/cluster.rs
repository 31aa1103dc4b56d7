//! The map of the cluster, and what goes on.

use http::StatusCode;

use super::{TOKEN, logged_in, site_with};

#[tokio::test]
async fn hundred_nodes_are_shown_by_zone() {
    let site = site_with(99).await.log_in(TOKEN).await;
    let page = site.get("/cluster").await.text;
    // The others, the one that answers, and the one of the layout.
    assert_eq!(page.matches("<article class=\"card\">").count(), 101);
    assert_eq!(page.matches("aria-label=\"Zone ").count(), 12);
    let page = site.get("/layout").await.text;
    assert_eq!(page.matches(": new, zone").count(), 99, "{page}");
}

#[tokio::test]
async fn operation_that_cannot_be_stopped_is_told() {
    let site = logged_in().await;
    for (operation, status) in [
        ("nothing", StatusCode::NOT_FOUND),
        ("garbage-collection", StatusCode::CONFLICT),
    ] {
        let form = format!("change=stop&operation={operation}");
        let reply = site.post("/cluster", &form).await;
        assert_eq!(reply.status, status, "{operation}: {}", reply.text);
    }
}
