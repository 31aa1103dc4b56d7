//! The documents that IAM and STS answer with.

use archipel_model::Tags;
use http::{HeaderValue, header};

use super::error::{IamError, IamResult};
use super::form::Form;
use crate::s3::respond::{self, Answer};
use crate::s3::uri;
use crate::s3::xml::{DECLARATION, Writer};

/// The most entries of a list, and the usual number.
const MAX_ITEMS: u64 = 1000;
const ITEMS: u64 = 100;

/// The action whose result has no members. SDKs demand the element all the same.
const EMPTY_RESULT: &str = "UpdateRole";

/// Makes the document of a success. `result` is empty for actions that say nothing.
pub fn success(action: &str, namespace: &str, result: Writer, request_id: &str) -> Answer {
    let result = String::from_utf8(result.finish()).unwrap_or_default();
    let result = match result.is_empty() {
        true if action != EMPTY_RESULT => result,
        _ => format!("<{action}Result>{result}</{action}Result>"),
    };
    let document = format!(
        "{DECLARATION}<{action}Response xmlns=\"{namespace}\">{result}<ResponseMetadata>\
         <RequestId>{request_id}</RequestId></ResponseMetadata></{action}Response>"
    );
    finish(http::StatusCode::OK, document.into_bytes())
}

/// Makes the document of an error.
pub fn failure(error: &IamError, namespace: &str, request_id: &str) -> Answer {
    let mut xml = Writer::fragment();
    xml.open("Error");
    let by_client = error.status.is_client_error();
    xml.text("Type", if by_client { "Sender" } else { "Receiver" });
    xml.text("Code", error.code);
    xml.text("Message", &error.message);
    xml.close();
    xml.text("RequestId", request_id);
    let inner = String::from_utf8(xml.finish()).unwrap_or_default();
    let document =
        format!("{DECLARATION}<ErrorResponse xmlns=\"{namespace}\">{inner}</ErrorResponse>");
    finish(error.status, document.into_bytes())
}

fn finish(status: http::StatusCode, document: Vec<u8>) -> Answer {
    let mut answer = respond::xml_bytes(status, document);
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/xml"));
    // Answers hold secrets.
    let no_store = HeaderValue::from_static("no-store");
    headers.insert(header::CACHE_CONTROL, no_store);
    answer
}

/// Writes a time as IAM has it.
pub fn time(xml: &mut Writer, element: &'static str, millis: u64) {
    // Without milliseconds.
    let text = respond::iso_seconds(millis);
    xml.text(element, &text.replace(".000Z", "Z"));
}

/// Writes the text of a policy: encoded as in an address.
pub fn policy(xml: &mut Writer, element: &'static str, text: &str) {
    xml.text(element, &uri::encode(text));
}

/// Writes tags, if there are any.
pub fn tags(xml: &mut Writer, tags: &Tags) {
    if tags.is_empty() {
        return;
    }
    xml.open("Tags");
    for (name, value) in tags {
        xml.open("member");
        xml.text("Key", name);
        xml.text("Value", value);
        xml.close();
    }
    xml.close();
}

/// Writes a page of a list whose entries are sorted by name: those after the marker.
///
/// # Errors
/// `ValidationError` for a wrong `MaxItems`.
pub fn page<T>(
    form: &Form,
    xml: &mut Writer,
    element: &'static str,
    entries: Vec<(String, T)>,
    write: impl Fn(&mut Writer, &T),
) -> IamResult<()> {
    let page = page_of(form, entries)?;
    xml.open(element);
    for (_, entry) in &page.entries {
        xml.open("member");
        write(xml, entry);
        xml.close();
    }
    xml.close();
    page.finish(xml);
    Ok(())
}

/// A page of a list.
pub struct Page<T> {
    /// The entries, each with its place in the list.
    pub entries: Vec<(String, T)>,
    truncated: bool,
}

impl<T> Page<T> {
    /// Writes whether more follows, and where.
    pub fn finish(&self, xml: &mut Writer) {
        xml.value("IsTruncated", self.truncated);
        if let Some((last, _)) = self.entries.last().filter(|_| self.truncated) {
            xml.text("Marker", last);
        }
    }
}

/// Returns the page of a list that the request asks for: the entries after the marker.
///
/// # Errors
/// `ValidationError` for a wrong `MaxItems`.
pub fn page_of<T>(form: &Form, mut entries: Vec<(String, T)>) -> IamResult<Page<T>> {
    let most = form.number("MaxItems", ITEMS, 1, MAX_ITEMS)?;
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    if let Some(marker) = form.get("Marker") {
        entries.retain(|(name, _)| name.as_str() > marker);
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let truncated = entries.len() > most;
    entries.truncate(most);
    Ok(Page { entries, truncated })
}

/// Writes a list that has no pages and no entries, because there are none of the kind here.
pub fn nothing(xml: &mut Writer, element: &'static str) {
    xml.open(element);
    xml.close();
    xml.value("IsTruncated", false);
}
