//! Tags, as lines that people write, and those of an object.

use archipel_api::admin::types::NameValue;
use axum::extract::{Path, State};
use http::HeaderMap;
use quick_xml::escape::escape;

use crate::App;
use crate::backend::path;
use crate::fault::Fault;
use crate::objects::{about, store_of};
use crate::page::Shown;
use crate::render::see;
use crate::request::Posted;

/// Reads tags: a line for each.
///
/// # Errors
/// A line is no tag.
pub fn read(text: &str) -> Result<Vec<NameValue>, Fault> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let tag = |line: &str| match line.split_once('=') {
        Some((name, value)) => Ok(NameValue {
            name: name.trim().into(),
            value: value.trim().into(),
        }),
        None => Err(Fault::invalid(format!(
            "{line:?} is no tag; write NAME=VALUE"
        ))),
    };
    lines.map(tag).collect()
}

/// Writes tags: a line for each.
pub fn write(tags: &[NameValue]) -> String {
    let lines = tags
        .iter()
        .map(|tag| format!("{}={}\n", tag.name, tag.value));
    lines.collect()
}

/// Returns the document of S3 that sets the tags of an object.
fn document(tags: &[NameValue]) -> String {
    let tags = tags.iter().map(|tag| {
        let (name, value) = (escape(&tag.name), escape(&tag.value));
        format!("<Tag><Key>{name}</Key><Value>{value}</Value></Tag>")
    });
    let tags: String = tags.collect();
    format!("<Tagging><TagSet>{tags}</TagSet></Tagging>")
}

/// Replaces the tags of an object.
pub async fn change(State(app): State<App>, Path(name): Path<String>, posted: Posted) -> Shown {
    let (user, fields) = (&posted.user, &posted.fields);
    let (o, k) = (fields.exact("o"), fields.get("k"));
    let text = document(&read(&fields.text("tags"))?);
    let (_, store) = store_of(&app, user, &name, k).await?;
    let headers = HeaderMap::new();
    let stored = store.put_document(o, &[("tagging", "")], headers, text);
    stored.await?;
    Ok(see(&about(&path(&["buckets", &name]), "object", o, k)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_lines_and_escaped_in_documents() {
        let tags = read("team=a\n\n cost = b=c \n<x>=&\"").unwrap();
        assert_eq!(write(&tags), "team=a\ncost=b=c\n<x>=&\"\n");
        let text = document(&tags);
        assert!(
            text.contains("<Key>&lt;x&gt;</Key><Value>&amp;&quot;</Value>"),
            "{text}"
        );
        assert_eq!(document(&[]), "<Tagging><TagSet></TagSet></Tagging>");
        assert!(read("no tag").is_err());
    }
}
