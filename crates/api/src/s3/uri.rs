//! Percent encoding and query strings, as S3 signs and reads them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::error::{Code, S3Error, S3Result};

/// The most query parameters of a request.
const MAX_PARAMETERS: usize = 100;

/// The characters that SigV4 encodes: all but letters, digits, `-`, `_`, `.`, `~`.
const STRICT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The same for a path, whose slashes stay.
const PATH: &AsciiSet = &STRICT.remove(b'/');

/// Encodes everything that is not unreserved.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, STRICT).to_string()
}

/// Encodes everything that is not unreserved and not a slash.
pub fn encode_path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

/// Decodes a path; `+` stands for itself.
///
/// # Errors
/// [`Code::InvalidURI`] if it is not UTF-8 or an escape is broken.
pub fn decode_path(text: &str) -> S3Result<String> {
    check_escapes(text)?;
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| Code::InvalidURI)?.into_owned())
}

/// Decodes a part of a query; `+` stands for a space, as HTML forms have it.
fn decode_query(text: &str) -> S3Result<String> {
    if text.contains('+') {
        decode_path(&text.replace('+', "%20"))
    } else {
        decode_path(text)
    }
}

/// Checks that two hexadecimal digits follow every `%`: ambiguous text is refused.
fn check_escapes(text: &str) -> S3Result<()> {
    let bytes = text.as_bytes();
    for (at, _) in bytes.iter().enumerate().filter(|(_, b)| **b == b'%') {
        let digits = bytes.get(at + 1..at + 3);
        if !digits.is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit)) {
            return Err(Code::InvalidURI.into());
        }
    }
    Ok(())
}

/// Returns true if a text begins so, in any case.
pub fn begins_with(text: &str, prefix: &str) -> bool {
    let begin = text.get(..prefix.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
}

fn repeated(name: &str) -> S3Error {
    S3Error::argument(name, "", "This parameter may be given once only.")
}

/// The parameters of a query, decoded, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query string (without the question mark).
    ///
    /// # Errors
    /// [`Code::InvalidURI`] for broken escapes or too many parameters.
    pub fn parse(text: &str) -> S3Result<Query> {
        Query::parse_up_to(text, MAX_PARAMETERS)
    }

    /// Reads a query string or a form with up to `most` parameters.
    ///
    /// # Errors
    /// As [`parse`](Query::parse).
    pub fn parse_up_to(text: &str, most: usize) -> S3Result<Query> {
        let mut parameters = Vec::new();
        for piece in text.split('&').filter(|piece| !piece.is_empty()) {
            if parameters.len() == most {
                return Err(Code::InvalidURI.into());
            }
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            parameters.push((decode_query(name)?, decode_query(value)?));
        }
        Ok(Query(parameters))
    }

    /// Returns the value of a parameter, the first if it is repeated.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the value of a parameter that may be given once only.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] if it is repeated.
    pub fn single(&self, name: &str) -> S3Result<Option<&str>> {
        let mut found = self.0.iter().filter(|(n, _)| n == name);
        let first = found.next().map(|(_, value)| value.as_str());
        match found.next() {
            None => Ok(first),
            Some(_) => Err(repeated(name)),
        }
    }

    /// Returns the value of a parameter that may be given once only, unless it is empty.
    ///
    /// # Errors
    /// As [`single`](Query::single).
    pub fn single_text(&self, name: &str) -> S3Result<Option<&str>> {
        Ok(self.single(name)?.filter(|text| !text.is_empty()))
    }

    /// Returns the value of a parameter whose name may be written in any case.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] if it is repeated.
    pub fn single_in_any_case(&self, name: &str) -> S3Result<Option<&str>> {
        let spelled = |n: &&String| n.eq_ignore_ascii_case(name);
        let mut found = self.0.iter().map(|(n, _)| n).filter(spelled);
        match (found.next(), found.next()) {
            (Some(only), None) => self.single(only),
            (None, _) => Ok(None),
            _ => Err(repeated(name)),
        }
    }

    /// Returns true if a parameter is present, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns all parameters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// Returns SigV4's canonical form: sorted by encoded name, then value; without `skip`.
    pub fn canonical(&self, skip: Option<&str>) -> String {
        let mut pairs = self.encoded(skip);
        pairs.sort();
        joined(&pairs)
    }

    /// Returns the same, sorted by name only: values of one name keep their order.
    pub fn sorted_by_name(&self, skip: Option<&str>) -> String {
        let mut pairs = self.encoded(skip);
        pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
        joined(&pairs)
    }

    fn encoded(&self, skip: Option<&str>) -> Vec<(String, String)> {
        let pairs = self.iter().filter(|(name, _)| Some(*name) != skip);
        pairs
            .map(|(name, value)| (encode(name), encode(value)))
            .collect()
    }
}

fn joined(pairs: &[(String, String)]) -> String {
    let pairs: Vec<_> = pairs.iter().map(|(n, v)| format!("{n}={v}")).collect();
    pairs.join("&")
}
