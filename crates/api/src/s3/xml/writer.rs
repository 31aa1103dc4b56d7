//! Writes the documents that S3 answers with.

use super::is_legal;

/// The namespace of S3's documents.
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// The beginning of every document.
pub const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// Returns true if a byte of text needs no escape.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'&' | b'<' | b'>' | b'"')
}

/// Writes one document, element by element. Names are ours, text is escaped.
pub struct Writer {
    out: String,
    open: Vec<&'static str>,
}

impl Writer {
    /// Begins a document whose root is in S3's namespace.
    pub fn new(root: &'static str) -> Writer {
        let mut writer = Writer::empty();
        writer
            .out
            .push_str(&format!("<{root} xmlns=\"{NAMESPACE}\">"));
        writer.open.push(root);
        writer
    }

    /// Begins a document without a namespace, as errors are.
    pub fn bare(root: &'static str) -> Writer {
        let mut writer = Writer::empty();
        writer.open(root);
        writer
    }

    /// Begins a part of a document: elements without a root.
    pub fn fragment() -> Writer {
        Writer {
            out: String::new(),
            open: Vec::new(),
        }
    }

    fn empty() -> Writer {
        Writer {
            out: String::from(DECLARATION),
            open: Vec::new(),
        }
    }

    /// Reserves room for so many further bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    /// Opens an element.
    pub fn open(&mut self, name: &'static str) {
        self.open_with(name, "");
    }

    /// Opens an element with attributes, which are written as they are given.
    pub fn open_with(&mut self, name: &'static str, attributes: &str) {
        self.out.push('<');
        self.out.push_str(name);
        self.out.push_str(attributes);
        self.out.push('>');
        self.open.push(name);
    }

    /// Closes the innermost open element.
    pub fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.out.push_str("</");
            self.out.push_str(name);
            self.out.push('>');
        }
    }

    /// Writes an element that holds text.
    pub fn text(&mut self, name: &'static str, text: &str) {
        self.open(name);
        self.characters(text);
        self.close();
    }

    /// Writes an element that holds text, if there is any.
    pub fn optional(&mut self, name: &'static str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// Writes an element that holds a number or another plain value.
    pub fn value(&mut self, name: &'static str, value: impl std::fmt::Display) {
        self.text(name, &value.to_string());
    }

    /// Writes text into the open element.
    pub fn characters(&mut self, text: &str) {
        let mut rest = text;
        loop {
            // Nearly all text is plain and is copied in one piece.
            let plain = rest.bytes().position(|byte| !is_plain(byte));
            let (text, special) = rest.split_at(plain.unwrap_or(rest.len()));
            self.out.push_str(text);
            let mut special = special.chars();
            let Some(c) = special.next() else {
                return;
            };
            self.special(c);
            rest = special.as_str();
        }
    }

    fn special(&mut self, c: char) {
        match c {
            '&' => self.out.push_str("&amp;"),
            '<' => self.out.push_str("&lt;"),
            '>' => self.out.push_str("&gt;"),
            '"' => self.out.push_str("&quot;"),
            // A parser would turn it into a line feed or a space if it stood bare.
            '\r' => self.out.push_str("&#13;"),
            c if is_legal(c) => self.out.push(c),
            // XML 1.0 cannot say it, not even escaped, and one such key must not make a whole
            // listing unreadable; with `encoding-type=url` it is told exactly.
            _ => self.out.push('\u{fffd}'),
        }
    }

    /// Closes the open elements and returns the document.
    pub fn finish(mut self) -> Vec<u8> {
        while !self.open.is_empty() {
            self.close();
        }
        self.out.into_bytes()
    }
}
