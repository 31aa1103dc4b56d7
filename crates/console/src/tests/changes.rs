//! Changes: their proofs, and what they do.

use axum::body::Body;
use http::{Request, StatusCode};

use super::{Reply, Site, logged_in, site};
use crate::backend::encode;
use crate::tests::TOKEN;

#[tokio::test]
async fn change_without_the_secret_of_its_session_is_refused() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let other = logged_in().await;
    for csrf in ["", "wrong", &other.csrf] {
        let form = format!("csrf={csrf}&name=forged");
        for path in ["/buckets", "/buckets/photos/delete-bucket", "/logout"] {
            let reply = site.post_bare(path, &form).await;
            assert_eq!(reply.status, StatusCode::FORBIDDEN, "{path}");
        }
        let upload = site.put("/buckets/photos/upload?o=a", csrf, "x").await;
        assert_eq!(upload.status, StatusCode::FORBIDDEN);
    }
    assert_eq!(site.model.buckets().unwrap().len(), 1);
}

#[tokio::test]
async fn request_that_another_site_makes_is_refused() {
    let site = site().await;
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("origin", "https://evil.example"),
    ] {
        let request = Request::post("/login")
            .header("content-type", "application/x-www-form-urlencoded")
            .header("host", "console.example")
            .header(name, value)
            .body(Body::from(format!("token={TOKEN}")));
        let reply = site.send(request.unwrap()).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN);
        assert_eq!(reply.header("set-cookie"), "");
    }
}

#[tokio::test]
async fn bucket_is_made_filled_emptied_and_deleted() {
    let site = logged_in().await;
    let key = site.model.create_access_key("key").await.unwrap();
    let form = format!("name=photos&owner={}", key.id);
    let made = site.post("/buckets", &form).await;
    assert_eq!(made.header("location"), "/buckets/photos", "{}", made.text);
    let name = "a%20b%2F%C3%A9%2B.html";
    let upload = format!("/buckets/photos/upload?o={name}");
    let stored = site.put(&upload, &site.csrf, "<b>content</b>").await;
    assert_eq!(stored.status, StatusCode::NO_CONTENT, "{}", stored.text);
    let top = site.get("/buckets/photos").await.text;
    assert!(top.contains("?prefix=a%20b%2F"), "{top}");
    let folder = site.get("/buckets/photos?prefix=a%20b%2F").await.text;
    assert!(folder.contains(">é+.html</a>"), "{folder}");
    let object = site.get(&format!("/buckets/photos/object?o={name}")).await;
    assert!(object.text.contains("text/html"), "{}", object.text);
    let full = site.post("/buckets/photos/delete-bucket", "").await;
    assert_eq!(full.status, StatusCode::CONFLICT);
    let form = format!("o={}", encode(name));
    let deleted = site.post("/buckets/photos/delete", &form);
    assert_eq!(deleted.await.header("location"), "/buckets/photos");
    let gone = site.post("/buckets/photos/delete-bucket", "").await;
    assert_eq!(gone.header("location"), "/buckets");
    assert!(site.model.buckets().unwrap().is_empty());
}

#[tokio::test]
async fn download_cannot_run_in_the_consoles_origin() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let content = "<script>alert(1)</script>";
    let upload = "/buckets/photos/upload?o=dir%2Fx%22%0D%0A.html";
    site.put(upload, &site.csrf, content).await;
    let path = "/buckets/photos/download?o=dir%2Fx%22%0D%0A.html";
    let reply = site.get(path).await;
    assert_eq!(
        (reply.status, reply.text.as_str()),
        (StatusCode::OK, content)
    );
    assert_eq!(reply.header("content-type"), "application/octet-stream");
    assert!(reply.header("content-security-policy").contains("sandbox"));
    let disposition = "attachment; filename*=UTF-8''x%22%0D%0A.html";
    assert_eq!(reply.header("content-disposition"), disposition);
    let request = Request::get(path).header("range", "bytes=1-6");
    let part = site.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(part.status, StatusCode::PARTIAL_CONTENT);
    assert_eq!(part.text, "script");
}

#[tokio::test]
async fn shared_link_is_one_to_the_address_of_s3_and_bounded() {
    let site = logged_in().await;
    site.bucket("photos").await;
    site.put("/buckets/photos/upload?o=a%2Fb", &site.csrf, "x")
        .await;
    let page = site
        .post("/buckets/photos/share", "o=a%252Fb&seconds=3600")
        .await;
    let link = "http://s3.example:3900/photos/a/b?X-Amz-Algorithm=";
    assert!(page.text.contains(link), "{}", page.text);
    for seconds in ["0", "604801", "x", ""] {
        let form = format!("o=a%252Fb&seconds={seconds}");
        let reply = site.post("/buckets/photos/share", &form).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    }
}

#[tokio::test]
async fn settings_change_what_the_form_names() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let key = site.model.create_access_key("second").await.unwrap();
    let set = async |form: String| {
        let reply = site.post("/buckets/photos/settings", &form).await;
        let to = "/buckets/photos/settings";
        assert_eq!(reply.header("location"), to, "{form}: {}", reply.text);
        site.get(to).await.text
    };
    let page = set(format!("change=grant&key={}&read=on", key.id)).await;
    assert!(page.contains(&key.id));
    let page = set("change=add-alias&alias=pictures".into()).await;
    assert!(page.contains("pictures"));
    let page = set("change=remove-alias&alias=pictures".into()).await;
    assert!(!page.contains("pictures"));
    let page = set("change=website&index=start.html&error=".into()).await;
    assert!(page.contains("start.html"));
    let page = set("change=no-website".into()).await;
    assert!(!page.contains("start.html"));
    set("change=publish".into()).await;
    set("change=unpublish".into()).await;
    set("change=abort-uploads".into()).await;
    let unknown = site.post("/buckets/photos/settings", "change=x").await;
    assert_eq!(unknown.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn lists_come_in_pages() {
    let site = logged_in().await;
    for number in 0..60 {
        site.bucket(&format!("bucket-{number:02}")).await;
    }
    let first = site.get("/buckets").await.text;
    assert!(first.contains("bucket-49") && !first.contains("bucket-50"));
    assert!(first.contains("/buckets?after=bucket-49"), "{first}");
    let second = site.get("/buckets?after=bucket-49").await.text;
    assert!(second.contains("bucket-59") && !second.contains("bucket-49<"));
    for number in 0..101 {
        let path = format!("/buckets/bucket-00/upload?o=o{number:03}");
        site.put(&path, &site.csrf, "x").await;
    }
    let first = site.get("/buckets/bucket-00").await.text;
    assert!(first.contains("o099<") && !first.contains("o100<"));
    let (_, rest) = first
        .split_once("<a href=\"/buckets/bucket-00?after=")
        .unwrap();
    let after = rest.split('"').next().unwrap().replace("&#38;", "&");
    let second = site.get(&format!("/buckets/bucket-00?after={after}")).await;
    assert!(second.text.contains("o100<") && !second.text.contains("o099<"));
}

impl Site {
    /// Sends the inputs of a page's form, as browsers do: they write every line end as CR LF.
    async fn submit(&self, page: &str, action: &str) -> Reply {
        let page = self.get(page).await.text;
        let (_, form) = page.split_once(&format!("action=\"{action}\"")).unwrap();
        let form = form.split("</form>").next().unwrap();
        let mut pairs = Vec::new();
        for input in form.split("<input ").skip(1) {
            let attribute = |name: &str| {
                let (_, rest) = input.split_once(&format!("{name}=\""))?;
                rest.split('"').next()
            };
            let (Some(name), Some(value)) = (attribute("name"), attribute("value")) else {
                continue;
            };
            let value = value.replace("\r\n", "\n").replace('\r', "\n");
            let value = value.replace('\n', "\r\n");
            pairs.push(format!("{name}={}", encode(&value)));
        }
        self.post_bare(action, &pairs.join("&")).await
    }

    async fn status_of(&self, path: &str) -> StatusCode {
        self.get(path).await.status
    }
}

/// Names that browsers would send as one, if a form had them as they are.
const NAMES: [&str; 3] = ["dir%2Fa%0Db", "dir%2Fa%0Ab", "dir%2Fa%0D%0Ab"];

#[tokio::test]
async fn form_acts_on_the_key_with_the_line_ends_that_its_page_is_about() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let page = |name: &str| format!("/buckets/photos/object?o={name}");
    for gone in NAMES {
        for name in NAMES {
            let upload = format!("/buckets/photos/upload?o={name}");
            site.put(&upload, &site.csrf, "x").await;
        }
        let tagged = site.submit(&page(gone), "/buckets/photos/tags").await;
        assert_eq!(tagged.header("location"), page(gone), "{}", tagged.text);
        let deleted = site.submit(&page(gone), "/buckets/photos/delete").await;
        let folder = "/buckets/photos?prefix=dir%2F";
        assert_eq!(deleted.header("location"), folder);
        for name in NAMES {
            let expected = match name == gone {
                true => StatusCode::NOT_FOUND,
                false => StatusCode::OK,
            };
            assert_eq!(site.status_of(&page(name)).await, expected, "{name}");
        }
    }
    // A list has all of them.
    let left = NAMES[0];
    site.submit("/buckets/photos?prefix=dir%2F", "/buckets/photos/delete")
        .await;
    assert_eq!(site.status_of(&page(left)).await, StatusCode::NOT_FOUND);
    let gone = site.post("/buckets/photos/delete-bucket", "").await;
    assert_eq!(gone.header("location"), "/buckets", "{}", gone.text);
}

#[tokio::test]
async fn folder_with_line_ends_is_found_by_the_forms_of_its_page() {
    let site = logged_in().await;
    site.bucket("photos").await;
    site.put("/buckets/photos/upload?o=a%0D%2Fb", &site.csrf, "x")
        .await;
    let page = site.get("/buckets/photos?prefix=a%0D%2F").await.text;
    let prefix = "a%0D%2F";
    for field in ["data-prefix", "name=\"prefix\" value", "name=\"at\" value"] {
        assert!(page.contains(&format!("{field}=\"{prefix}\"")), "{field}");
    }
    let same = site.get("/buckets/photos?at=a%250D%252F&k=").await;
    assert!(same.text.contains(">b</a>"), "{}", same.text);
    let other = site.get("/buckets/photos?at=a%0D%2F").await;
    assert_eq!(other.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn key_that_is_not_encoded_is_refused_and_nothing_is_deleted() {
    let site = logged_in().await;
    site.bucket("photos").await;
    site.put("/buckets/photos/upload?o=a%2Fb", &site.csrf, "x")
        .await;
    let good = encode("a%2Fb");
    for wrong in ["a%2Fb", "a%252fb", "%25", "%25zz", "%25FF", ""] {
        let forms = [format!("o={good}&o={wrong}"), format!("o={wrong}")];
        for form in forms {
            let reply = site.post("/buckets/photos/delete", &form).await;
            assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{form}");
        }
    }
    let there = site.status_of("/buckets/photos/object?o=a%2Fb").await;
    assert_eq!(there, StatusCode::OK);
}

/// S3 takes a request without a key for one about the bucket.
#[tokio::test]
async fn request_that_names_no_object_is_none_about_the_bucket() {
    let site = logged_in().await;
    site.bucket("photos").await;
    for what in ["object", "download", "preview", "history"] {
        for query in ["", "?o=", "?o=&v=null"] {
            let path = format!("/buckets/photos/{what}{query}");
            assert_eq!(site.status_of(&path).await, StatusCode::BAD_REQUEST);
        }
    }
    let stored = site.put("/buckets/photos/upload?o=", &site.csrf, "");
    assert_eq!(stored.await.status, StatusCode::BAD_REQUEST);
    for (what, form) in [
        ("share", "o=&seconds=60"),
        ("tags", "o=&tags=a%3Db"),
        ("delete", "o="),
        ("history", "o=&v=null&change=delete"),
    ] {
        let path = format!("/buckets/photos/{what}");
        let reply = site.post(&path, form).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{what}");
    }
    let bucket = site.model.bucket("photos").unwrap().unwrap();
    assert!(bucket.tags.is_empty());
}

#[tokio::test]
async fn page_of_the_longest_keys_is_deleted_at_once() {
    let site = logged_in().await;
    site.bucket("photos").await;
    let long = "%C3%A9".repeat(510);
    for number in 0..100 {
        let path = format!("/buckets/photos/upload?o={long}{number:03}");
        site.put(&path, &site.csrf, "x").await;
    }
    let deleted = site.submit("/buckets/photos", "/buckets/photos/delete");
    let deleted = deleted.await;
    assert_eq!(deleted.status, StatusCode::SEE_OTHER, "{}", deleted.text);
    let page = site.get("/buckets/photos").await.text;
    assert!(page.contains("There is nothing here"), "{page}");
}
