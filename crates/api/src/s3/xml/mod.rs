//! XML, in and out: a bounded reader and a writer. No document types, no entities.

mod reader;
mod writer;

pub use reader::{Element, parse};
pub use writer::Writer;

#[cfg(test)]
mod tests;
