use proptest::prelude::*;

use super::{Writer, parse};
use crate::s3::error::Code;

fn refused(document: &str) {
    let result = parse(document.as_bytes(), "R");
    assert_eq!(
        result.map_err(|e| e.code()),
        Err(Code::MalformedXML),
        "{document}"
    );
}

#[test]
fn reads_names_text_and_references() {
    let document = "<?xml version='1.0'?><!-- c --><R xmlns='x'><Key>a&amp;b&#x41;<![CDATA[<]]></Key><E/></R>\n";
    let root = parse(document.as_bytes(), "R").unwrap();
    assert_eq!(root.required_text("Key").unwrap(), "a&bA<");
    assert_eq!(root.child_text("E").unwrap(), Some(""));
    assert!(root.only(&["Key"]).is_err());
    assert!(root.only(&["Key", "E"]).is_ok());
}

#[test]
fn dangerous_or_broken_documents_are_refused() {
    refused("");
    refused("<Other/>");
    refused("<R>");
    refused("<R/><R/>");
    refused("<R/>trailing");
    refused("<R><a></b></R>");
    refused("<!DOCTYPE R [<!ENTITY a \"b\">]><R>&a;</R>");
    refused("<R>&unknown;</R>");
    refused("<R>&#0;</R>");
    refused("<R>&#1;</R>");
    refused("<R>\0</R>");
    refused(&format!("<R>{}{}</R>", "<a>".repeat(20), "</a>".repeat(20)));
    refused(&format!("<R>{}</R>", "<a/>".repeat(100_001)));
    assert!(parse(b"<R>\xff</R>", "R").is_err());
}

#[test]
fn repeated_single_child_is_refused() {
    let root = parse(b"<R><A>1</A><A>2</A></R>", "R").unwrap();
    assert!(root.child("A").is_err());
    assert_eq!(root.texts("A"), ["1", "2"]);
}

#[test]
fn writer_escapes_text() {
    let mut xml = Writer::new("List");
    xml.text("Key", "a<b>&\"\r\u{1}c");
    let text = String::from_utf8(xml.finish()).unwrap();
    assert!(text.ends_with(
        "<List xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Key>a&lt;b&gt;&amp;&quot;&#13;\u{fffd}c</Key></List>"
    ));
}

proptest! {
    #[test]
    fn noise_is_an_error_not_a_panic(noise: Vec<u8>) {
        let _ = parse(&noise, "R");
    }

    #[test]
    fn markup_noise_is_no_panic(noise in "[<>/&;#xR!\\[\\]CDAT' =\"?a-]{0,60}") {
        let _ = parse(noise.as_bytes(), "R");
    }

    #[test]
    fn written_documents_can_be_read(text in "[ -~éß漢\r\n\t]{0,40}") {
        let mut xml = Writer::new("R");
        xml.text("T", &text);
        let document = xml.finish();
        // A line end is a line feed to every XML parser, unless it is escaped as we do.
        let root = parse(&document, "R").unwrap();
        prop_assert_eq!(root.required_text("T").unwrap(), text);
    }
}
