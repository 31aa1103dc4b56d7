//! Previews of objects: images, texts and PDF documents, of kinds that run nothing.
//!
//! An image shows in an `img` element, where browsers run no script of an SVG. A browser that opens its
//! address itself gets it in a sandbox. A text is escaped into the page. A PDF document opens in a frame, in the
//! viewer of the browser, which shares nothing with the page.

use axum::body::Body;
use axum::extract::{Path, Query, State};
use http::{HeaderMap, HeaderValue, Response, header};

use archipel_api::admin::types::ObjectInfo;

use crate::App;
use crate::fault::Fault;
use crate::objects::{Which, about, only, store_of};
use crate::page::Shown;
use crate::request::User;
use crate::store::Store;

/// The most of a text that a page shows.
const TEXT_BYTES: u64 = 64 << 10;

/// The largest image or document that a page loads by itself.
const MAX_BYTES: u64 = 32 << 20;

const IMAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// Viewers of PDF documents do not start in a sandbox.
const PDF_POLICY: &str = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

const PDF: &str = "application/pdf";

/// The images that browsers show, by the ends of their names.
const IMAGES: [(&str, &str); 8] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("svg", "image/svg+xml"),
];

const TEXTS: [&str; 14] = [
    "txt", "md", "csv", "tsv", "json", "xml", "yaml", "yml", "toml", "log", "html", "css", "js",
    "py",
];

/// What a page shows of an object.
pub enum Preview {
    /// The path of an image.
    Image(String),
    /// The path of a PDF document.
    Pdf(String),
    /// The beginning of a text, and whether there is more.
    Text(String, bool),
    /// Why nothing is shown.
    Nothing(String),
}

#[derive(PartialEq, Debug)]
enum Kind {
    Image(&'static str),
    Pdf,
    Text,
}

/// Returns the kind of a content, by its type, or by its name if the type says nothing.
fn kind(content_type: &str, key: &str) -> Option<Kind> {
    let given = content_type.split(';').next().unwrap_or_default().trim();
    let given = given.to_ascii_lowercase();
    if let Some((_, image)) = IMAGES.iter().find(|(_, image)| *image == given) {
        return Some(Kind::Image(image));
    }
    match given.as_str() {
        PDF => return Some(Kind::Pdf),
        "application/json" | "application/xml" | "application/yaml" | "application/javascript" => {
            return Some(Kind::Text);
        }
        text if text.starts_with("text/") => return Some(Kind::Text),
        "" | "application/octet-stream" | "binary/octet-stream" => {}
        _ => return None,
    }
    let (_, end) = key.rsplit_once('.')?;
    let end = end.to_ascii_lowercase();
    if let Some((_, image)) = IMAGES.iter().find(|(name, _)| *name == end) {
        return Some(Kind::Image(image));
    }
    match end.as_str() {
        "pdf" => Some(Kind::Pdf),
        end if TEXTS.contains(&end) => Some(Kind::Text),
        _ => None,
    }
}

/// Returns what the page of an object shows of it.
pub async fn of(
    app: &App,
    user: &User,
    bucket: &str,
    base: &str,
    object: &ObjectInfo,
    k: &str,
) -> Preview {
    let content_type = object.headers.iter();
    let content_type = content_type.filter(|h| h.name.eq_ignore_ascii_case("content-type"));
    let content_type = content_type.map(|header| header.value.as_str()).next();
    let kind = match kind(content_type.unwrap_or_default(), &object.key) {
        Some(kind) => kind,
        None => return Preview::Nothing("There is no preview of this kind of object.".into()),
    };
    let path = about(base, "preview", &object.key, k);
    match kind {
        Kind::Image(_) | Kind::Pdf if object.bytes > MAX_BYTES => {
            Preview::Nothing("The object is too large for a preview.".into())
        }
        Kind::Image(_) => Preview::Image(path),
        Kind::Pdf => Preview::Pdf(path),
        Kind::Text if object.bytes == 0 => Preview::Text(String::new(), false),
        Kind::Text => {
            let text = async {
                let (_, store) = store_of(app, user, bucket, k).await?;
                beginning(&store, &object.key, TEXT_BYTES).await
            };
            match text.await {
                Ok(bytes) if bytes.contains(&0) => {
                    Preview::Nothing("The content is no text.".into())
                }
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    Preview::Text(text, object.bytes > TEXT_BYTES)
                }
                Err(fault) => Preview::Nothing(fault.detail),
            }
        }
    }
}

async fn beginning(store: &Store<'_>, key: &str, bytes: u64) -> Result<Vec<u8>, Fault> {
    let range = format!("bytes=0-{}", bytes - 1);
    let range = HeaderValue::from_str(&range).map_err(|error| Fault::internal(&error))?;
    let headers = HeaderMap::from_iter([(header::RANGE, range)]);
    let answer = store.get(key, "", headers).await?;
    let read = axum::body::to_bytes(answer.into_body(), bytes as usize).await;
    let read = read.map_err(|error| Fault::internal(&error))?;
    Ok(read.to_vec())
}

/// Sends an image or a PDF document for a page of the console.
pub async fn show(
    State(app): State<App>,
    user: User,
    Path(name): Path<String>,
    Query(which): Query<Which>,
) -> Shown {
    let (_, store) = store_of(&app, &user, &name, &which.k).await?;
    let mut answer = store.get(&which.o, &which.v, HeaderMap::new()).await?;
    let given = answer.headers().get(header::CONTENT_TYPE);
    let given = given
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let (content_type, policy) = match kind(given, &which.o) {
        Some(Kind::Image(image)) => (image, IMAGE_POLICY),
        Some(Kind::Pdf) => {
            // Whatever says that it is such a document and is not must not reach the browser as one.
            if beginning(&store, &which.o, 5).await? != b"%PDF-" {
                return Err(Fault::invalid("the content is no PDF document"));
            }
            (PDF, PDF_POLICY)
        }
        _ => return Err(Fault::invalid("there is no preview of this kind of object")),
    };
    let mut headers = only(answer.headers(), &[header::CONTENT_LENGTH]);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    let policy = HeaderValue::from_static(policy);
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    let same = HeaderValue::from_static("SAMEORIGIN");
    headers.insert(header::X_FRAME_OPTIONS, same);
    *answer.headers_mut() = headers;
    Ok::<Response<Body>, Fault>(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_that_of_the_type_or_else_of_the_name() {
        let cases = [
            ("image/png", "x", Some(Kind::Image("image/png"))),
            (
                "IMAGE/SVG+XML; charset=utf-8",
                "x",
                Some(Kind::Image("image/svg+xml")),
            ),
            ("text/html", "x.png", Some(Kind::Text)),
            ("application/pdf", "x", Some(Kind::Pdf)),
            (
                "binary/octet-stream",
                "a.b/X.JPG",
                Some(Kind::Image("image/jpeg")),
            ),
            ("", "notes.md", Some(Kind::Text)),
            ("application/xhtml+xml", "x.png", None),
            ("", "x", None),
            ("video/mp4", "x.txt", None),
        ];
        for (content_type, key, expected) in cases {
            assert_eq!(kind(content_type, key), expected, "{content_type} {key}");
        }
    }
}
