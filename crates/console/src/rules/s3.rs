//! The documents of S3 about a bucket that have no path of their own in the admin API.

use quick_xml::events::Event;
use quick_xml::{Reader, Writer};
use serde::Deserialize;

use crate::fault::Fault;
use crate::store::Store;

/// The documents, as the page shows them.
pub struct Documents {
    /// Empty if other origins may do nothing.
    pub cors: String,
    /// The events that are told, and their targets.
    pub events: String,
    /// True if new objects are encrypted with keys of the cluster.
    pub encrypts: bool,
    pub block: PublicAccessBlock,
    /// The owner of new objects: `BucketOwnerEnforced` if access control lists do not count.
    pub ownership: String,
}

/// The settings that keep the public out, whatever policies and lists say.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct PublicAccessBlock {
    #[serde(rename = "BlockPublicAcls")]
    pub block_acls: bool,
    #[serde(rename = "IgnorePublicAcls")]
    pub ignore_acls: bool,
    #[serde(rename = "BlockPublicPolicy")]
    pub block_policy: bool,
    #[serde(rename = "RestrictPublicBuckets")]
    pub restrict: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OwnershipControls {
    #[serde(rename = "Rule")]
    rule: OwnershipRule,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OwnershipRule {
    #[serde(rename = "ObjectOwnership")]
    ownership: String,
}

/// Reads all documents.
pub async fn read(store: &Store<'_>) -> Result<Documents, Fault> {
    let text = |text: Option<String>| text.map_or(Ok(String::new()), |text| pretty(&text));
    let block = store.document("publicAccessBlock").await?;
    let ownership = store.document("ownershipControls").await?;
    Ok(Documents {
        cors: text(store.document("cors").await?)?,
        events: text(store.document("notification").await?)?,
        encrypts: store.document("encryption").await?.is_some(),
        block: block.map_or(Ok(PublicAccessBlock::default()), |text| parse(&text))?,
        ownership: match ownership {
            Some(text) => parse::<OwnershipControls>(&text)?.rule.ownership,
            None => String::new(),
        },
    })
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Fault> {
    quick_xml::de::from_str(text).map_err(|error| Fault::internal(&error))
}

/// Returns a document with a line for each element, for people who edit it. A document that says nothing
/// becomes an empty text.
fn pretty(text: &str) -> Result<String, Fault> {
    let mut reader = Reader::from_str(text);
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    let mut elements = 0;
    loop {
        let event = reader.read_event();
        match event.map_err(|error| Fault::internal(&error))? {
            Event::Eof => break,
            Event::Decl(_) => {}
            event => {
                elements += usize::from(matches!(event, Event::Start(_) | Event::Empty(_)));
                let written = writer.write_event(event);
                written.map_err(|error| Fault::internal(&error))?;
            }
        }
    }
    if elements <= 1 {
        return Ok(String::new());
    }
    String::from_utf8(writer.into_inner()).map_err(|error| Fault::internal(&error))
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn documents_get_a_line_for_each_element() {
        let text = "<?xml version=\"1.0\"?><A><B><C>x &amp; y</C></B></A>";
        let lines = "<A>\n  <B>\n    <C>x &amp; y</C>\n  </B>\n</A>";
        assert_eq!(pretty(text).unwrap(), lines);
        assert_eq!(pretty("<A/>").unwrap(), "");
        assert_eq!(pretty("<A></A>").unwrap(), "");
        assert!(pretty("<A><B></A>").is_err());
    }
}
