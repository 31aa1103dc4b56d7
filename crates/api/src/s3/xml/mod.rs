//! XML, in and out: a bounded reader and a writer. No document types, no entities.

mod reader;
mod writer;

pub use reader::{Element, parse};
pub use writer::{DECLARATION, Writer};

/// Returns true if XML 1.0 permits the character.
pub fn is_legal(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests;
