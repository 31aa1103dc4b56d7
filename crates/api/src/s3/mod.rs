//! The S3 API.
#![allow(dead_code)]

pub mod error;
mod checksum;
mod chunked;
mod cors; // written by "lead": pure CORS matching
mod post; // written by "lead": multipart/form-data parser and policy of PostObject
mod precondition; // written by "lead": If-* on reads and writes
mod range; // written by "lead": Range header
mod sigv4;
mod uri;
mod xml;
