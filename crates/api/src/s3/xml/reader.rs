//! Reads the small documents that clients send, into a tree with bounds.

use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};

use super::is_legal;
use crate::s3::error::{Code, S3Error, S3Result};

/// The deepest nesting of elements.
const MAX_DEPTH: usize = 8;

/// The most elements of a document: 10,000 parts with seven fields each fit.
const MAX_ELEMENTS: usize = 100_000;

/// An element: its local name, its text, its children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// The name without a namespace prefix.
    pub name: String,
    /// The text of this element itself, put together.
    pub text: String,
    /// The children, in order.
    pub children: Vec<Element>,
}

impl Element {
    /// Returns the children, all of which must have one of these names.
    ///
    /// # Errors
    /// [`Code::MalformedXML`] if there is another: a mistyped name must not be passed over.
    pub fn only(&self, names: &[&str]) -> S3Result<&[Element]> {
        let known = |child: &Element| names.contains(&child.name.as_str());
        if self.children.iter().all(known) && self.text.trim().is_empty() {
            Ok(&self.children)
        } else {
            Err(malformed())
        }
    }

    /// Returns the child of that name, if there is one.
    ///
    /// # Errors
    /// [`Code::MalformedXML`] if there are several.
    pub fn child(&self, name: &str) -> S3Result<Option<&Element>> {
        let mut found = self.children.iter().filter(|c| c.name == name);
        let first = found.next();
        match found.next() {
            None => Ok(first),
            Some(_) => Err(malformed()),
        }
    }

    /// Returns the text of the child of that name, if there is one.
    pub fn child_text(&self, name: &str) -> S3Result<Option<&str>> {
        match self.child(name)? {
            Some(child) if child.children.is_empty() => Ok(Some(&child.text)),
            Some(_) => Err(malformed()),
            None => Ok(None),
        }
    }

    /// Returns the text of a child that must be there.
    pub fn required_text(&self, name: &str) -> S3Result<&str> {
        self.child_text(name)?.ok_or_else(malformed)
    }

    /// Returns true if a child of that name holds `true`, and false if it holds `false` or is not
    /// there.
    pub fn child_flag(&self, name: &str) -> S3Result<bool> {
        match self.child_text(name)?.map(str::trim) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(malformed()),
        }
    }

    /// Returns the text of every child of that name.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let found = self.children.iter().filter(|c| c.name == name);
        found.map(|c| c.text.clone()).collect()
    }
}

fn malformed() -> S3Error {
    Code::MalformedXML.into()
}

/// Reads a document whose root must be `root`.
///
/// # Errors
/// [`Code::MalformedXML`]: not well-formed, another root, a document type, an entity that is not
/// predefined, too deep, too many elements.
pub fn parse(document: &[u8], root: &str) -> S3Result<Element> {
    let text = std::str::from_utf8(document).map_err(|_| malformed())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut tree = Tree::default();
    let mut reader = Reader::from_str(text);
    reader.config_mut().enable_all_checks(true);
    loop {
        match reader.read_event().map_err(|_| malformed())? {
            Event::Eof => break,
            event => tree.take(event)?,
        }
    }
    let element = tree.finish()?;
    if element.name == root {
        Ok(element)
    } else {
        Err(malformed())
    }
}

/// The tree while it grows: the elements that are open, and the root once it is closed.
#[derive(Default)]
struct Tree {
    open: Vec<Element>,
    root: Option<Element>,
    elements: usize,
}

impl Tree {
    fn take(&mut self, event: Event<'_>) -> S3Result<()> {
        match event {
            Event::Start(start) => self.start(start.local_name().as_ref()),
            Event::Empty(start) => {
                self.start(start.local_name().as_ref())?;
                self.end()
            }
            Event::End(_) => self.end(),
            Event::Text(text) => self.characters(&text.xml10_content()),
            Event::CData(text) => self.characters(&text.xml10_content()),
            Event::GeneralRef(reference) => {
                let c = resolve(&reference)?;
                self.characters(c.encode_utf8(&mut [0; 4]))
            }
            Event::Decl(_) | Event::Comment(_) => Ok(()),
            Event::DocType(_) | Event::PI(_) | Event::Eof => Err(malformed()),
        }
    }

    fn start(&mut self, name: &str) -> S3Result<()> {
        self.elements += 1;
        let too_much = self.elements > MAX_ELEMENTS || self.open.len() == MAX_DEPTH;
        if too_much || self.root.is_some() {
            return Err(malformed());
        }
        self.open.push(Element {
            name: name.to_owned(),
            ..Element::default()
        });
        Ok(())
    }

    fn end(&mut self) -> S3Result<()> {
        let element = self.open.pop().ok_or_else(malformed)?;
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.root = Some(element),
        }
        Ok(())
    }

    fn characters(&mut self, text: &str) -> S3Result<()> {
        if !text.chars().all(is_legal) {
            return Err(malformed());
        }
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if text.trim().is_empty() => {}
            None => return Err(malformed()),
        }
        Ok(())
    }

    fn finish(self) -> S3Result<Element> {
        if self.open.is_empty() {
            self.root.ok_or_else(malformed)
        } else {
            Err(malformed())
        }
    }
}

/// Returns one of the five predefined entities, or a character by number.
fn resolve(reference: &BytesRef<'_>) -> S3Result<char> {
    if let Some(c) = reference.resolve_char_ref().map_err(|_| malformed())? {
        return Ok(c);
    }
    match reference.xml10_content().as_ref() {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => Err(malformed()),
    }
}
