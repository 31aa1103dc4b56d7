//! Tags, as lines that people write, and those of an object.
//!
//! A line is `NAME=VALUE`. Characters that it could not hold are percent-encoded: `=` in a name, spaces at an end, and
//! what is no text. So the lines of all tags stand for these tags alone.

use std::borrow::Cow;

use archipel_api::admin::types::NameValue;
use axum::extract::{Path, State};
use http::HeaderMap;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use quick_xml::escape::escape;

use crate::App;
use crate::backend::path;
use crate::fault::Fault;
use crate::folders::about;
use crate::held;
use crate::objects::{inspect, store_of};
use crate::page::Shown;
use crate::render::see;
use crate::request::Posted;

/// Reads tags: a line for each.
///
/// # Errors
/// A line is no tag.
pub fn read(text: &str) -> Result<Vec<NameValue>, Fault> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let wrong = |line: &str| {
        let why = "is no tag; write NAME=VALUE, %3D for = in a name, %20 for a space at an end, and %25 for %";
        Fault::invalid(format!("{line:?} {why}"))
    };
    let tag = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some(NameValue {
            name: decode(name.trim())?,
            value: decode(value.trim())?,
        })
    };
    lines
        .map(|line| tag(line).ok_or_else(|| wrong(line)))
        .collect()
}

/// Writes tags: a line for each.
pub fn write(tags: &[NameValue]) -> String {
    let lines = tags.iter().map(|tag| {
        format!(
            "{}={}\n",
            encode(&tag.name, true),
            encode(&tag.value, false)
        )
    });
    lines.collect()
}

/// Encodes what a line cannot hold as it is. Only a value may hold `=`.
pub(crate) fn encode(text: &str, is_name: bool) -> String {
    let last = text.chars().count().saturating_sub(1);
    let mut encoded = String::new();
    for (place, c) in text.chars().enumerate() {
        let is_end = place == 0 || place == last;
        let is_plain = match c {
            '%' => false,
            '=' => !is_name,
            ' ' => !is_end,
            c => !c.is_control() && !c.is_whitespace(),
        };
        let mut buffer = [0; 4];
        let c = c.encode_utf8(&mut buffer);
        match is_plain {
            true => encoded.push_str(c),
            false => encoded.extend(utf8_percent_encode(c, NON_ALPHANUMERIC)),
        }
    }
    encoded
}

/// Reads what [`encode`] wrote; `None` if a `%` does not begin an encoded character.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut codes = text.split('%').skip(1);
    let is_code = |code: &str| {
        let digits = code.get(..2);
        digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    if !codes.all(is_code) {
        return None;
    }
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.ok().map(Cow::into_owned)
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

/// Replaces the tags of an object. S3 has no condition for that: of two operators who do it in the same moment, the
/// later one may not hear of the other.
pub async fn change(State(app): State<App>, Path(name): Path<String>, posted: Posted) -> Shown {
    let (user, fields) = (&posted.user, &posted.fields);
    let (o, k) = (fields.key("o")?, fields.get("k"));
    let base = path(&["buckets", &name]);
    let page = about(&base, "object", &o, k);
    let set = async {
        let text = document(&read(&fields.text("tags"))?);
        let object = inspect(&app, user, &name, &o).await?;
        fields.check_shown(&write(&object.tags))?;
        let (_, store) = store_of(&app, user, &name, k).await?;
        let (query, headers) = ([("tagging", "")], HeaderMap::new());
        store.put_document(&o, &query, headers, text).await
    };
    match set.await {
        Ok(()) => Ok(see(&page)),
        Err(fault) if fields.get("tags").is_empty() => Err(fault),
        Err(fault) => held::again(&posted, "tags", &format!("{base}/tags"), &page, fault),
    }
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

    #[test]
    fn lines_stand_for_the_tags_that_they_were_written_from() {
        let tag = |name: &str, value: &str| NameValue {
            name: name.into(),
            value: value.into(),
        };
        let cases = [
            (tag("a=b", "c=d"), "a%3Db=c=d\n"),
            (tag(" a ", "  x y  "), "%20a%20=%20 x y %20\n"),
            (tag(" ", ""), "%20=\n"),
            (tag("100%", "%41"), "100%25=%2541\n"),
            (tag("\n\r", "\t\u{2003}é"), "%0A%0D=%09%E2%80%83é\n"),
        ];
        for (tag, line) in cases {
            assert_eq!(write(std::slice::from_ref(&tag)), line);
            let read = read(&line.replace('\n', "\r\n")).unwrap();
            assert_eq!((&read[0].name, &read[0].value), (&tag.name, &tag.value));
            assert_eq!(read.len(), 1, "{line}");
        }
        for wrong in ["a%=b", "a=100%", "a=%4", "a=%zz", "a=%+4", "a=%FF"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
