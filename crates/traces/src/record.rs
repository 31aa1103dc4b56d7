//! The record of a span: its names, times and attributes.

use crate::context::Context;

/// The most bytes of a name or a text. Clients choose paths and hosts, and many spans wait in the
/// queue.
const MAX_TEXT_BYTES: usize = 1024;

/// The side of a request or a call that a span shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A step within a node.
    Internal,
    /// The side that answers.
    Server,
    /// The side that asks.
    Client,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A text. Long ones are cut off.
    Text(String),
    /// A number.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::from(text.as_str())
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Value {
        Value::Number(number.into())
    }
}

/// The record of a span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The span, and the trace that it belongs to.
    pub context: Context,
    /// The span above it, if there is one.
    pub parent: Option<[u8; 8]>,
    /// True if that one is on another machine.
    pub has_remote_parent: bool,
    /// The side that it shows.
    pub kind: Kind,
    /// The name of the step.
    pub name: String,
    /// The begin, in nanoseconds since 1970.
    pub start_ns: u64,
    /// The end, in nanoseconds since 1970.
    pub end_ns: u64,
    /// Attributes, each name once.
    pub attributes: Vec<(&'static str, Value)>,
    /// True if what was done failed, and not by the client's fault.
    pub is_failed: bool,
}

impl Record {
    /// Sets an attribute.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        let value = value.into();
        match self.attributes.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.attributes.push((name, value)),
        }
    }

    /// Sets the name.
    pub fn rename(&mut self, name: &str) {
        self.name = name[..name.floor_char_boundary(MAX_TEXT_BYTES)].to_owned();
    }

    /// Says that it failed, and by which kind of error.
    pub fn fail(&mut self, kind: &str) {
        self.is_failed = true;
        self.set("error.type", kind);
    }
}
