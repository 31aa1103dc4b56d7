//! Previews of objects: images, texts and PDF documents, of kinds that run nothing.
//!
//! An image shows in an `img` element, where browsers run no script of an SVG. A browser that opens its
//! address itself gets it in a sandbox. A text is escaped into the page. A PDF document opens in a frame, in the
//! viewer of the browser, which shares nothing with the page.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{Path, Query, State};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::BodyExt;
use hyper::body::Frame;

use archipel_api::admin::types::ObjectInfo;

use crate::App;
use crate::fault::Fault;
use crate::folders::about;
use crate::objects::{Which, only, store_of};
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

/// The first bytes of every PDF document.
const PDF_BEGINNING: &[u8] = b"%PDF-";

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

/// The part of an object that a page shows.
pub enum Preview {
    /// The path of an image.
    Image(String),
    /// The path of a PDF document.
    Pdf(String),
    /// The beginning of a text, and whether there is more.
    Text(String, bool),
    /// Nothing, and the reason.
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
                beginning(&store, &object.key).await
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

/// Returns the beginning of a text.
async fn beginning(store: &Store<'_>, key: &str) -> Result<Vec<u8>, Fault> {
    let range = format!("bytes=0-{}", TEXT_BYTES - 1);
    let range = HeaderValue::from_str(&range).map_err(|error| Fault::internal(&error))?;
    let headers = HeaderMap::from_iter([(header::RANGE, range)]);
    let answer = store.get(key, "", headers).await?;
    let read = axum::body::to_bytes(answer.into_body(), TEXT_BYTES as usize).await;
    let read = read.map_err(|error| Fault::internal(&error))?;
    Ok(read.to_vec())
}

/// A content of which the beginning has been read.
struct Begun {
    beginning: Option<Bytes>,
    rest: Body,
}

impl Begun {
    /// Reads at least so many bytes, or the whole content if it is shorter.
    async fn read(mut rest: Body, bytes: usize) -> Result<Begun, Fault> {
        let mut read = BytesMut::new();
        while read.len() < bytes {
            let Some(frame) = rest.frame().await else {
                break;
            };
            let frame = frame.map_err(|error| Fault::internal(&error))?;
            if let Some(data) = frame.data_ref() {
                read.extend_from_slice(data);
            }
        }
        let beginning = Some(read.freeze());
        Ok(Begun { beginning, rest })
    }

    fn begins_with(&self, bytes: &[u8]) -> bool {
        let beginning = self.beginning.as_ref();
        beginning.is_some_and(|read| read.starts_with(bytes))
    }
}

impl hyper::body::Body for Begun {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.beginning.take() {
            Some(beginning) => Poll::Ready(Some(Ok(Frame::data(beginning)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }
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
            // Content that says that it is such a document and is not must not reach the browser as
            // one. The bytes that are sent are checked: another request may read another content.
            let body = std::mem::take(answer.body_mut());
            let content = Begun::read(body, PDF_BEGINNING.len()).await?;
            if !content.begins_with(PDF_BEGINNING) {
                return Err(Fault::invalid("the content is no PDF document"));
            }
            *answer.body_mut() = Body::new(content);
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

    #[tokio::test]
    async fn content_is_whole_after_its_beginning_was_read() {
        for (content, is_one) in [("%PDF-1.4 and more", true), ("%PD", false), ("", false)] {
            // One byte a frame: the beginning is in several.
            let frames = content.bytes().map(|byte| Bytes::from(vec![byte]));
            let frames: Vec<Result<Bytes, axum::Error>> = frames.map(Ok).collect();
            let body = Body::from_stream(futures_util::stream::iter(frames));
            let begun = Begun::read(body, PDF_BEGINNING.len()).await.unwrap();
            assert_eq!(begun.begins_with(PDF_BEGINNING), is_one, "{content}");
            let whole = Body::new(begun).collect().await.unwrap().to_bytes();
            assert_eq!(whole, content);
        }
    }

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
