//! A bucket's rules, and the reasons of decisions.

use http::StatusCode;

use super::{Site, logged_in};

const CORS: &str = "%3CCORSConfiguration%3E%3CCORSRule%3E%3CAllowedOrigin%3Ehttps%3A%2F%2Fapp.example\
    %3C%2FAllowedOrigin%3E%3CAllowedMethod%3EGET%3C%2FAllowedMethod%3E%3C%2FCORSRule%3E\
    %3C%2FCORSConfiguration%3E";
const POLICY: &str = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A\
    %22Allow%22%2C%22Principal%22%3A%22%2A%22%2C%22Action%22%3A%22s3%3AGetObject%22%2C%22Resource%22\
    %3A%22arn%3Aaws%3As3%3A%3A%3Aphotos%2Fopen%2F%2A%22%7D%5D%7D";

impl Site {
    /// Changes a rule, and returns the page with what it became.
    async fn set_rule(&self, form: &str) -> String {
        let reply = self.post("/buckets/photos/rules", form).await;
        let page = "/buckets/photos/rules";
        assert_eq!(reply.header("location"), page, "{form}: {}", reply.text);
        self.get(page).await.text
    }

    async fn refuses(&self, form: &str) -> String {
        let reply = self.post("/buckets/photos/rules", form).await;
        assert_eq!(
            reply.status,
            StatusCode::BAD_REQUEST,
            "{form}: {}",
            reply.text
        );
        reply.text
    }
}

#[tokio::test]
async fn rules_of_the_admin_api_are_changed_and_shown() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let page = site.set_rule("change=keep-versions").await;
    assert!(page.contains("value=\"suspend-versions\""), "{page}");
    let page = site.set_rule("change=suspend-versions").await;
    assert!(page.contains("value=\"keep-versions\""));
    let page = site.set_rule("change=quota&bytes=20+GiB&objects=500").await;
    assert!(page.contains("value=\"21474836480\"") && page.contains("value=\"500\""));
    let page = site.set_rule("change=quota&bytes=&objects=").await;
    assert!(!page.contains("21474836480"));
    let page = site
        .set_rule("change=tags&tags=team%3Da%0D%0Acost%3Db%3Dc")
        .await;
    assert!(page.contains("team=a\ncost=b=c\n"), "{page}");
    let page = site
        .set_rule("change=add-rule&prefix=tmp%2F&expire=7&noncurrent=&abort=2")
        .await;
    assert!(page.contains("tmp/…") && page.contains("objects expire after 7 days; incomplete"));
    let page = site.set_rule("change=add-rule&prefix=&noncurrent=30").await;
    assert!(page.contains("tmp/…") && page.contains("old versions go after 30 days"));
    let page = site
        .set_rule("change=lifecycle&text=%7B%22rules%22%3A%5B%5D%7D")
        .await;
    assert!(!page.contains("tmp/…"));
    site.set_rule("change=keep-versions").await;
    let page = site
        .set_rule("change=lock&mode=governance&days=3&years=")
        .await;
    assert!(page.contains("Versions can be protected."), "{page}");
    assert!(page.contains("value=\"governance\" selected"));
}

#[tokio::test]
async fn rules_of_s3_are_changed_and_shown() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let page = site.set_rule(&format!("change=cors&text={CORS}")).await;
    let origin = "&#60;AllowedOrigin&#62;https://app.example&#60;/AllowedOrigin&#62;";
    assert!(page.contains(origin), "{page}");
    let page = site.set_rule("change=cors&text=").await;
    assert!(!page.contains(origin));
    let page = site.set_rule("change=block&BlockPublicPolicy=on").await;
    assert!(
        page.contains("name=\"BlockPublicPolicy\" checked"),
        "{page}"
    );
    assert!(page.contains("name=\"IgnorePublicAcls\">"), "{page}");
    site.set_rule("change=block").await;
    let page = site
        .set_rule("change=ownership&ownership=ObjectWriter")
        .await;
    assert!(page.contains("value=\"ObjectWriter\" selected"), "{page}");
    site.set_rule("change=notification&text=").await;
}

#[tokio::test]
async fn what_is_refused_is_shown_again_with_the_reason() {
    let site = logged_in().await;
    site.bucket("photos").await;
    for form in [
        "change=quota&bytes=many",
        "change=quota&objects=-1",
        "change=tags&tags=nothing",
        "change=add-rule&prefix=x",
        "change=lock&mode=governance",
        "change=lock&mode=strict&days=1",
        "change=ownership&ownership=%3Cx%2F%3E",
        "change=paint",
    ] {
        site.refuses(form).await;
    }
    let again = site.refuses("change=policy&text=%7B%22a%22%3A1%7D").await;
    assert!(
        again.contains("role=\"alert\"") && again.contains("{&#34;a&#34;:1}"),
        "{again}"
    );
    let again = site.refuses("change=lifecycle&text=oops").await;
    assert!(
        again.contains("role=\"alert\"") && again.contains("oops"),
        "{again}"
    );
    let again = site.refuses("change=cors&text=%3Cx%3E").await;
    assert!(again.contains("&#60;x&#62;"), "{again}");
}

#[tokio::test]
async fn decision_is_explained() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let ask = async |object: &str| {
        let query = "key=anonymous&action=s3%3AGetObject";
        let path = format!("/access?{query}&resource=photos%2F{object}");
        site.get(&path).await.text
    };
    assert!(ask("open%2Fx").await.contains("Denied"));
    // New buckets are closed to the public.
    let policy = format!("change=policy&text={POLICY}");
    let closed = site.post("/buckets/photos/rules", &policy).await;
    assert!(closed.status.is_client_error(), "{}", closed.status);
    assert!(closed.text.contains("the bucket blocks public access"));
    let strange = "/access?key=anonymous&action=x&resource=photos&context=nothing";
    let told = site.get(strange).await;
    assert!(told.text.contains("role=\"alert\""), "{}", told.text);
}

#[tokio::test]
async fn tags_of_an_object_are_changed_and_removed() {
    let site = logged_in().await;
    site.bucket("photos").await;
    site.put("/buckets/photos/upload?o=a%20b", &site.csrf, "x")
        .await;
    let set = async |tags: &str| {
        let form = format!("o=a%20b&k=&tags={tags}");
        site.post("/buckets/photos/tags", &form).await
    };
    let reply = set("team%3Da%0D%0Acost%3D1%2B1").await;
    let page = reply.header("location");
    assert_eq!(page, "/buckets/photos/object?o=a%20b", "{}", reply.text);
    let shown = site.get(page).await.text;
    assert!(
        shown.contains("Tag team") && shown.contains("team=a\ncost=1+1\n"),
        "{shown}"
    );
    assert_eq!(set("no+tag").await.status, StatusCode::BAD_REQUEST);
    set("").await;
    assert!(!site.get(page).await.text.contains("Tag team"));
}
