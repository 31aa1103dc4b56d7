//! The audit log: the newest requests to the node, who sent them, and what became of them.

use archipel_api::admin::types::{AuditLine, Page};
use archipel_api::audit::is_look;
use askama::Template;
use axum::extract::{Query, State};
use serde::Deserialize;

use crate::App;
use crate::backend::query;
use crate::fault::Fault;
use crate::page::{Frame, Shown};
use crate::render::html;
use crate::request::User;
use crate::show;

/// Lines on a page.
const PAGE_LINES: usize = 100;

/// The lines that are asked for: a node keeps no more.
const KEPT_LINES: &str = "1000";

/// The value of the filter for really all lines.
const ALL: &str = "all";

/// The choice of lines.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Which {
    /// The endpoint; all but reads of operators if it is empty.
    endpoint: String,
    /// The access key or the token.
    who: String,
    action: String,
    bucket: String,
    /// A part of the object's key, or of the path.
    key: String,
    decision: String,
    /// The number of the line before which the page begins.
    before: String,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    which: Which,
    lines: Vec<AuditLine>,
    next: Option<String>,
}

impl Which {
    /// Returns the query that asks the admin API for the lines.
    fn ask(&self) -> String {
        let endpoint = match self.endpoint.as_str() {
            ALL => "",
            endpoint => endpoint,
        };
        query(&[
            ("limit", KEPT_LINES),
            ("endpoint", endpoint),
            ("who", self.who.trim()),
            ("action", self.action.trim()),
            ("bucket", self.bucket.trim()),
            ("decision", &self.decision),
        ])
    }

    /// Returns whether a line is shown that the admin API found.
    fn has(&self, line: &AuditLine) -> bool {
        let key = self.key.trim();
        let places = [&line.key, &line.path].into_iter().flatten();
        let is_named = key.is_empty() || places.into_iter().any(|place| place.contains(key));
        is_named
            && !(self.endpoint.is_empty() && is_look(&line.endpoint, &line.method, &line.action))
    }

    /// Returns the link to the lines before one.
    fn before(&self, number: u64) -> String {
        let query = query(&[
            ("endpoint", &self.endpoint),
            ("who", &self.who),
            ("action", &self.action),
            ("bucket", &self.bucket),
            ("key", &self.key),
            ("decision", &self.decision),
            ("before", &number.to_string()),
        ]);
        format!("/audit{query}")
    }
}

/// Shows a page of lines, the newest first.
pub async fn show(State(app): State<App>, user: User, Query(which): Query<Which>) -> Shown {
    let before = match which.before.as_str() {
        "" => u64::MAX,
        text => text
            .parse()
            .map_err(|_| Fault::invalid(format!("before: {text:?} is no number")))?,
    };
    let ask = format!("/v1/audit{}", which.ask());
    let found: Page<AuditLine> = user.admin(&app).get(&ask).await?;
    let lines = found.items.into_iter().rev();
    let mut lines = lines.filter(|line| line.number < before && which.has(line));
    let shown: Vec<AuditLine> = lines.by_ref().take(PAGE_LINES).collect();
    let is_more = lines.next().is_some();
    let last = shown.last().filter(|_| is_more);
    Ok(html(&AuditPage {
        frame: Frame::new(&user, "audit"),
        next: last.map(|line| which.before(line.number)),
        lines: shown,
        which,
    }))
}

impl AuditPage {
    /// Returns the choices of endpoints, each with its name for people.
    fn endpoints(&self) -> [(&'static str, &'static str); 6] {
        [
            ("", "requests of clients, and changes"),
            ("s3", "requests to S3"),
            ("web", "requests to websites"),
            ("k2v", "requests to K2V"),
            ("admin", "requests of operators"),
            (ALL, "everything"),
        ]
    }

    fn decisions(&self) -> [(&'static str, &'static str); 5] {
        [
            ("", "any"),
            ("allowed", "allowed"),
            ("denied", "denied: no right to it"),
            ("refused", "refused: it made no sense"),
            ("failed", "failed: no fault of the client"),
        ]
    }

    fn time(&self, line: &AuditLine) -> String {
        show::iso(&line.time)
    }

    fn who<'a>(&self, line: &'a AuditLine) -> &'a str {
        line.who.as_deref().unwrap_or("anybody")
    }

    /// Returns what the request was about.
    fn about(&self, line: &AuditLine) -> String {
        match (&line.bucket, &line.key, &line.path) {
            (Some(bucket), Some(key), _) => format!("{bucket}/{key}"),
            (Some(bucket), None, _) => bucket.clone(),
            (None, _, Some(path)) => path.clone(),
            (None, _, None) => String::new(),
        }
    }

    fn tone(&self, line: &AuditLine) -> &'static str {
        match line.decision.as_str() {
            "allowed" => "good",
            "refused" => "warn",
            _ => "bad",
        }
    }

    fn answer(&self, line: &AuditLine) -> String {
        match (line.status, line.code.as_str()) {
            (0, _) => "no answer".into(),
            (status, "") => status.to_string(),
            (status, code) => format!("{status} {code}"),
        }
    }

    /// Returns how many bytes moved and how long it took.
    fn amount(&self, line: &AuditLine) -> String {
        let moved = [("in", line.received), ("out", line.sent)];
        let moved = moved.iter().filter(|(_, bytes)| *bytes > 0);
        let mut parts: Vec<String> = moved
            .map(|(way, bytes)| format!("{} {way}", show::bytes(*bytes)))
            .collect();
        parts.push(format!("{} ms", line.milliseconds));
        parts.join(", ")
    }

    /// Returns the link to the reason for which S3 denied a request.
    fn why(&self, line: &AuditLine) -> Option<String> {
        let bucket = line.bucket.as_deref()?;
        let is_explained = line.endpoint == "s3" && line.decision == "denied";
        let resource = match &line.key {
            Some(key) => format!("{bucket}/{key}"),
            None => bucket.to_owned(),
        };
        let from = line.from.as_ref();
        let context = from.map_or(String::new(), |from| format!("aws:SourceIp={from}"));
        let query = query(&[
            ("key", line.who.as_deref().unwrap_or("anonymous")),
            ("action", &format!("s3:{}", right(&line.action))),
            ("resource", &resource),
            ("context", &context),
        ]);
        is_explained.then(|| format!("/access{query}"))
    }
}

/// Returns the right that an operation of S3 needs, where it has another name.
fn right(operation: &str) -> &str {
    match operation {
        "HeadObject" | "GetObjectAttributes" => "GetObject",
        "HeadBucket" | "ListObjects" | "ListObjectsV2" => "ListBucket",
        "ListObjectVersions" => "ListBucketVersions",
        "ListMultipartUploads" => "ListBucketMultipartUploads",
        "ListParts" => "ListMultipartUploadParts",
        "DeleteObjects" => "DeleteObject",
        "CopyObject"
        | "CreateMultipartUpload"
        | "UploadPart"
        | "UploadPartCopy"
        | "CompleteMultipartUpload" => "PutObject",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_need_rights_with_other_names() {
        assert_eq!(right("ListObjectsV2"), "ListBucket");
        assert_eq!(right("UploadPart"), "PutObject");
        assert_eq!(right("GetObject"), "GetObject");
    }
}
