//! The objects of a bucket: folders, upload, download, links, deletion.

use archipel_api::admin::types::{BucketInfo, ObjectInfo};
use askama::Template;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::response::IntoResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use serde::Deserialize;

use crate::App;
use crate::backend::{encode, path, query};
use crate::fault::Fault;
use crate::folders::{about, below, crumbs, folder_of};
use crate::page::{Frame, Shown};
use crate::preview::{self, Preview};
use crate::render::{html, see};
use crate::request::{Posted, User, mark, read_key};
use crate::show;
use crate::store::{Item, Listing, Store, best_key};
use crate::tags;

/// Objects and folders on a page.
const PAGE_ITEMS: usize = 100;

/// The longest time for which a link may count: signatures allow no more.
const LONGEST_LINK_SECONDS: u64 = 7 * 24 * 3600;

/// A content must not run in the console's origin, whatever it says that it is.
const DOWNLOAD_POLICY: &str = "default-src 'none'; sandbox";

/// The folder or object that a page is about, and the access key to use.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Which {
    /// The folder: a prefix of keys.
    pub prefix: String,
    /// The same, from a form, where it is encoded.
    pub at: String,
    pub after: String,
    /// The object's key.
    pub o: String,
    /// The access key's id; the one that may do most if it is empty.
    pub k: String,
    /// The version; the current one if it is empty.
    pub v: String,
}

#[derive(Template)]
#[template(path = "objects.html")]
struct ObjectsPage {
    frame: Frame,
    base: String,
    bucket: BucketInfo,
    /// The access key in use.
    key: String,
    prefix: String,
    is_first: bool,
    content: Result<Listing, Fault>,
}

#[derive(Template)]
#[template(path = "object.html")]
struct ObjectPage {
    frame: Frame,
    base: String,
    key: String,
    object: ObjectInfo,
    preview: Preview,
    link: Option<Link>,
}

struct Link {
    url: String,
    until: String,
}

/// Shows a folder.
pub async fn list(
    State(app): State<App>,
    user: User,
    Path(name): Path<String>,
    Query(mut which): Query<Which>,
) -> Shown {
    if !which.at.is_empty() {
        which.prefix = read_key(&which.at)?;
    }
    let bucket = find(&app, &user, &name).await?;
    let (key, content) = match chosen(&bucket, &which.k) {
        Err(fault) => (String::new(), Err(fault)),
        Ok(key) => {
            let listed = async {
                let store = user.store(&app, &bucket.name, &key).await?;
                store.list(&which.prefix, &which.after, PAGE_ITEMS).await
            };
            let listed = listed.await;
            (key, listed)
        }
    };
    Ok(html(&ObjectsPage {
        frame: Frame::new(&user, "buckets"),
        base: path(&["buckets", &name]),
        bucket,
        key,
        prefix: which.prefix,
        is_first: which.after.is_empty(),
        content,
    }))
}

/// Shows an object.
pub async fn show(
    State(app): State<App>,
    user: User,
    Path(name): Path<String>,
    Query(which): Query<Which>,
) -> Shown {
    object(&app, &user, &name, &which.o, &which.k, None).await
}

/// Shows an object with a link for others.
pub async fn share(State(app): State<App>, Path(name): Path<String>, posted: Posted) -> Shown {
    let (user, fields) = (&posted.user, &posted.fields);
    let seconds = fields.get("seconds").parse().ok();
    let seconds = seconds.filter(|s| (1..=LONGEST_LINK_SECONDS).contains(s));
    let seconds = seconds.ok_or_else(|| Fault::invalid("a link counts for at most 7 days"))?;
    let o = fields.key("o")?;
    let (key, store) = store_of(&app, user, &name, fields.get("k")).await?;
    let link = Link {
        url: store.link(&o, seconds)?,
        until: show::time(app.clock.now_millis() + seconds * 1000),
    };
    object(&app, user, &name, &o, &key, Some(link)).await
}

async fn object(
    app: &App,
    user: &User,
    bucket: &str,
    o: &str,
    k: &str,
    link: Option<Link>,
) -> Shown {
    let base = path(&["buckets", bucket]);
    let object = inspect(app, user, bucket, o).await?;
    Ok(html(&ObjectPage {
        frame: Frame::new(user, "buckets"),
        key: k.to_owned(),
        preview: preview::of(app, user, bucket, &base, &object, k).await,
        base,
        object,
        link,
    }))
}

/// Returns the metadata of an object.
///
/// # Errors
/// Those of the API; the key is empty.
pub async fn inspect(app: &App, user: &User, bucket: &str, o: &str) -> Result<ObjectInfo, Fault> {
    if o.is_empty() {
        return Err(Fault::no_object());
    }
    let of_api = path(&["v1", "buckets", bucket, "object"]);
    let of_api = format!("{of_api}?key={}", encode(o));
    user.admin(app).get(&of_api).await
}

/// Sends the content of an object, to be saved and not to be shown.
pub async fn download(
    State(app): State<App>,
    user: User,
    Path(name): Path<String>,
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Shown {
    let (_, store) = store_of(&app, &user, &name, &which.k).await?;
    let asked = [header::RANGE, header::IF_RANGE, header::IF_NONE_MATCH];
    let mut answer = store
        .get(&which.o, &which.v, only(&headers, &asked))
        .await?;
    let kept = [
        header::CONTENT_LENGTH,
        header::CONTENT_RANGE,
        header::ACCEPT_RANGES,
        header::ETAG,
        header::LAST_MODIFIED,
    ];
    let mut headers = only(answer.headers(), &kept);
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    let policy = HeaderValue::from_static(DOWNLOAD_POLICY);
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    let file = which.o.rsplit('/').find(|part| !part.is_empty());
    let disposition = format!(
        "attachment; filename*=UTF-8''{}",
        encode(file.unwrap_or("object"))
    );
    if let Ok(value) = HeaderValue::from_str(&disposition) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    *answer.headers_mut() = headers;
    Ok(answer)
}

/// Stores the body of the request as an object: the script sends one file after the other.
pub async fn upload(
    State(app): State<App>,
    user: User,
    Path(name): Path<String>,
    Query(which): Query<Which>,
    request: Request,
) -> Result<Response<Body>, Response<Body>> {
    let checked = user.check(request.headers());
    checked.map_err(IntoResponse::into_response)?;
    let stored = async {
        let (_, store) = store_of(&app, &user, &name, &which.k).await?;
        let asked = [header::CONTENT_LENGTH, header::CONTENT_TYPE];
        let headers = only(request.headers(), &asked);
        store.put(&which.o, headers, request.into_body()).await
    };
    match stored.await {
        Ok(()) => Ok(StatusCode::NO_CONTENT.into_response()),
        // The script shows the text beside the name of the file.
        Err(fault) => Err((fault.status, fault.detail).into_response()),
    }
}

/// Deletes the chosen objects.
pub async fn delete(State(app): State<App>, Path(name): Path<String>, posted: Posted) -> Shown {
    let (user, fields) = (&posted.user, &posted.fields);
    let (objects, prefix) = (fields.keys("o")?, fields.key("prefix")?);
    if objects.iter().any(String::is_empty) {
        return Err(Fault::no_object());
    }
    let (_, store) = store_of(&app, user, &name, fields.get("k")).await?;
    for object in &objects {
        store.delete(object).await?;
    }
    let here = query(&[("prefix", &prefix), ("k", fields.get("k"))]);
    Ok(see(&format!("{}{here}", path(&["buckets", &name]))))
}

/// Returns a bucket with its access keys.
async fn find(app: &App, user: &User, name: &str) -> Result<BucketInfo, Fault> {
    user.admin(app).get(&path(&["v1", "buckets", name])).await
}

/// Returns the access key to use, and the objects of a bucket as it may use them.
pub async fn store_of<'a>(
    app: &'a App,
    user: &'a User,
    name: &str,
    wanted: &str,
) -> Result<(String, Store<'a>), Fault> {
    let bucket = find(app, user, name).await?;
    let key = chosen(&bucket, wanted)?;
    let store = user.store(app, &bucket.name, &key).await?;
    Ok((key, store))
}

/// Returns the access key to use.
fn chosen(bucket: &BucketInfo, wanted: &str) -> Result<String, Fault> {
    if !wanted.is_empty() {
        return Ok(wanted.to_owned());
    }
    let best = best_key(bucket).map(|grant| grant.key.clone());
    best.ok_or_else(|| {
        Fault::invalid(
            "No access key may use this bucket. Its settings give a key permissions; then its objects \
             are shown here.",
        )
    })
}

/// Returns the headers of these names.
pub fn only(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let found = names
        .iter()
        .filter_map(|name| Some((name.clone(), headers.get(name)?.clone())));
    found.collect()
}

impl ObjectsPage {
    fn crumbs(&self) -> Vec<(String, String)> {
        crumbs(&self.bucket.name, &self.prefix, |prefix| {
            self.folder(prefix)
        })
    }

    fn folder(&self, prefix: &str) -> String {
        let query = query(&[("prefix", prefix), ("k", &self.key)]);
        format!("{}{query}", self.base)
    }

    fn below<'a>(&self, key: &'a str) -> &'a str {
        below(&self.prefix, key)
    }

    fn about(&self, item: &Item) -> String {
        about(&self.base, "object", &item.key, &self.key)
    }

    /// Returns a key as forms carry it.
    fn field(&self, key: &str) -> String {
        encode(key)
    }

    fn size(&self, item: &Item) -> String {
        show::bytes(item.size)
    }

    fn modified(&self, item: &Item) -> String {
        show::iso(&item.modified)
    }

    fn next(&self, listing: &Listing) -> Option<String> {
        let after = listing.next.as_deref()?;
        let query = query(&[("prefix", &self.prefix), ("after", after), ("k", &self.key)]);
        Some(format!("{}{query}", self.base))
    }

    fn parts(&self) -> String {
        format!("{}/parts{}", self.base, query(&[("k", &self.key)]))
    }

    fn upload(&self) -> String {
        format!("{}/upload{}", self.base, query(&[("k", &self.key)]))
    }
}

impl ObjectPage {
    fn download(&self) -> String {
        about(&self.base, "download", &self.object.key, &self.key)
    }

    fn history(&self) -> String {
        about(&self.base, "history", &self.object.key, &self.key)
    }

    /// Returns the prefix of the object's folder.
    fn prefix(&self) -> &str {
        folder_of(&self.object.key)
    }

    fn folder(&self) -> String {
        let query = query(&[("prefix", self.prefix()), ("k", &self.key)]);
        format!("{}{query}", self.base)
    }

    fn size(&self) -> String {
        let bytes = self.object.bytes;
        format!("{} ({} bytes)", show::bytes(bytes), show::count(bytes))
    }

    fn modified(&self) -> String {
        show::time(self.object.modified_ms)
    }

    fn tags(&self) -> String {
        tags::write(&self.object.tags)
    }

    /// Returns the mark of the tags as the form shows them.
    fn shown(&self) -> String {
        mark(&self.tags())
    }

    /// Returns the object's key as forms carry it.
    fn field(&self) -> String {
        encode(&self.object.key)
    }

    /// Returns the prefix of the object's folder as forms carry it.
    fn prefix_field(&self) -> String {
        encode(self.prefix())
    }
}
