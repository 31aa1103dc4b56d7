//! A reader of `multipart/form-data`, piece by piece, in bounded memory. It passes the file on at
//! once.

use bytes::{Buf, Bytes, BytesMut};

use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::precondition;

/// The longest boundary (RFC 2046, 5.1.1).
const MAX_BOUNDARY_BYTES: usize = 70;
/// The longest headers of one part.
const MAX_HEADER_BYTES: usize = 8 * 1024;
/// The most bytes before the file: S3's documented limit is 20 KB.
const MAX_FIELDS_BYTES: usize = 20 * 1024;
/// The most fields of a form.
const MAX_FIELDS: usize = 200;

/// A piece of a form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A field before the file.
    Field {
        /// The name as it was sent.
        name: String,
        /// Its text.
        value: String,
    },
    /// The file begins; nothing but its content follows.
    File {
        /// Its name without folders; empty if there is none.
        filename: String,
        /// Its type, if the form declares it.
        content_type: Option<String>,
    },
    /// Content of the file.
    Data(Bytes),
    /// The file has ended. Everything after it is ignored, as S3 does.
    End,
}

/// Reads a form piece by piece.
pub struct FormReader {
    /// `\r\n--` and the boundary.
    delimiter: Vec<u8>,
    buffer: BytesMut,
    state: State,
    fields: usize,
    /// Bytes of names and values so far.
    fields_bytes: usize,
}

enum State {
    /// Before the first boundary.
    Preamble,
    /// Behind a boundary: line end, or `--`.
    AfterBoundary,
    Headers,
    Field {
        name: String,
    },
    File,
    Ended,
}

impl FormReader {
    /// Makes a reader for a body of this `Content-Type`.
    ///
    /// # Errors
    /// `PreconditionFailed` for a body that is not `multipart/form-data`, as in S3;
    /// `MalformedPOSTRequest` for a bad boundary.
    pub fn new(content_type: &str) -> S3Result<FormReader> {
        let (kind, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
        if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
            let why = "Bucket POST must be of the enclosure-type multipart/form-data";
            return Err(precondition::failed(why));
        }
        let boundary = parameter(parameters, "boundary").unwrap_or_default();
        if boundary.is_empty() || boundary.len() > MAX_BOUNDARY_BYTES {
            return Err(malformed());
        }
        Ok(FormReader {
            delimiter: [b"\r\n--", boundary.as_bytes()].concat(),
            // The first boundary stands at the very beginning: as if a line had ended before it.
            buffer: BytesMut::from(&b"\r\n"[..]),
            state: State::Preamble,
            fields: 0,
            fields_bytes: 0,
        })
    }

    /// Reads a piece of the body and appends the events that it completes.
    ///
    /// # Errors
    /// `MalformedPOSTRequest`, `MaxPostPreDataLengthExceededError`.
    pub fn feed(&mut self, piece: &[u8], out: &mut Vec<Event>) -> S3Result<()> {
        if matches!(self.state, State::Ended) {
            return Ok(());
        }
        self.buffer.extend_from_slice(piece);
        while self.step(out)? {}
        Ok(())
    }

    /// Ends the body.
    ///
    /// # Errors
    /// `MalformedPOSTRequest` if the form has not ended.
    pub fn finish(&self) -> S3Result<()> {
        match self.state {
            State::Ended => Ok(()),
            _ => Err(malformed()),
        }
    }

    /// Reads one element. Returns `false` if it needs more bytes.
    fn step(&mut self, out: &mut Vec<Event>) -> S3Result<bool> {
        match &self.state {
            State::Preamble => self.skip_preamble(),
            State::AfterBoundary => self.after_boundary(),
            State::Headers => self.headers(out),
            State::Field { .. } => self.field(out),
            State::File => self.file(out),
            State::Ended => {
                self.buffer.clear();
                Ok(false)
            }
        }
    }

    fn skip_preamble(&mut self) -> S3Result<bool> {
        match find(&self.buffer, &self.delimiter) {
            Some(at) => {
                self.buffer.advance(at + self.delimiter.len());
                self.state = State::AfterBoundary;
                Ok(true)
            }
            None => self.need_more(MAX_HEADER_BYTES),
        }
    }

    fn need_more(&self, limit: usize) -> S3Result<bool> {
        if self.buffer.len() > limit {
            Err(Code::MaxPostPreDataLengthExceededError.into())
        } else {
            Ok(false)
        }
    }

    fn after_boundary(&mut self) -> S3Result<bool> {
        if self.buffer.len() < 2 {
            return Ok(false);
        }
        let next = match &self.buffer[..2] {
            b"\r\n" => State::Headers,
            // The form ended without a file.
            b"--" => return Err(no_file()),
            _ => return Err(malformed()),
        };
        self.buffer.advance(2);
        self.state = next;
        Ok(true)
    }

    fn headers(&mut self, out: &mut Vec<Event>) -> S3Result<bool> {
        let Some(end) = find(&self.buffer, b"\r\n\r\n") else {
            return self.need_more(MAX_HEADER_BYTES);
        };
        let block = self.buffer.split_to(end + 4);
        let text = std::str::from_utf8(&block[..end]).map_err(|_| malformed())?;
        let header = |name: &str| {
            text.split("\r\n").find_map(|line| {
                let (n, value) = line.split_once(':')?;
                n.trim().eq_ignore_ascii_case(name).then(|| value.trim())
            })
        };
        let disposition = header("content-disposition").ok_or_else(malformed)?;
        let (kind, parameters) = disposition.split_once(';').ok_or_else(malformed)?;
        let name = parameter(parameters, "name").ok_or_else(malformed)?;
        if !kind.trim().eq_ignore_ascii_case("form-data") {
            return Err(malformed());
        }
        if !name.eq_ignore_ascii_case("file") {
            self.state = State::Field { name };
            return Ok(true);
        }
        out.push(Event::File {
            filename: base_name(&parameter(parameters, "filename").unwrap_or_default()),
            content_type: header("content-type").map(str::to_owned),
        });
        self.state = State::File;
        Ok(true)
    }

    fn field(&mut self, out: &mut Vec<Event>) -> S3Result<bool> {
        let Some(end) = find(&self.buffer, &self.delimiter) else {
            return self.need_more(MAX_FIELDS_BYTES);
        };
        let value = self.buffer.split_to(end);
        self.buffer.advance(self.delimiter.len());
        let value = String::from_utf8(value.to_vec()).map_err(|_| malformed())?;
        let state = std::mem::replace(&mut self.state, State::AfterBoundary);
        if let State::Field { name } = state {
            self.count(&name, &value)?;
            out.push(Event::Field { name, value });
        }
        Ok(true)
    }

    fn count(&mut self, name: &str, value: &str) -> S3Result<()> {
        self.fields += 1;
        self.fields_bytes += name.len() + value.len();
        if self.fields > MAX_FIELDS || self.fields_bytes > MAX_FIELDS_BYTES {
            Err(Code::MaxPostPreDataLengthExceededError.into())
        } else {
            Ok(())
        }
    }

    /// Passes on the bytes that cannot belong to a delimiter.
    fn file(&mut self, out: &mut Vec<Event>) -> S3Result<bool> {
        if let Some(end) = find(&self.buffer, &self.delimiter) {
            push_data(out, self.buffer.split_to(end).freeze());
            // A line that only begins as the delimiter does would cut the file off.
            return match self
                .buffer
                .get(self.delimiter.len()..self.delimiter.len() + 2)
            {
                None => Ok(false),
                Some(b"\r\n" | b"--") => {
                    out.push(Event::End);
                    self.state = State::Ended;
                    Ok(true)
                }
                Some(_) => Err(malformed()),
            };
        }
        let sure = self.buffer.len().saturating_sub(self.delimiter.len() - 1);
        push_data(out, self.buffer.split_to(sure).freeze());
        Ok(false)
    }
}

fn push_data(out: &mut Vec<Event>, data: Bytes) {
    if !data.is_empty() {
        out.push(Event::Data(data));
    }
}

fn malformed() -> S3Error {
    Code::MalformedPOSTRequest.into()
}

fn no_file() -> S3Error {
    let why = "POST requires exactly one file upload per request.";
    S3Error::argument("file", "0", why)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    // Line ends are rare in a file: look for the first byte, then compare.
    while let Some(at) = haystack[from..].iter().position(|b| *b == first) {
        let start = from + at;
        if haystack[start..].starts_with(needle) {
            return Some(start);
        }
        from = start + 1;
    }
    None
}

/// Returns the value of a parameter of a header, without its quotes.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([';', ' ', '\t']);
        let (key, behind) = rest.split_once('=')?;
        let (value, behind) = take_value(behind)?;
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = behind;
    }
}

/// Returns a token or a quoted string, and what follows it. A backslash escapes a quote or another
/// one only: browsers send the paths of Windows as they are.
fn take_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.trim_start().strip_prefix('"') else {
        let end = text.find(';').unwrap_or(text.len());
        return Some((text[..end].trim().to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => {
                let escaped = chars.next_if(|(_, next)| matches!(next, '"' | '\\'));
                value.push(escaped.map_or(c, |(_, next)| next));
            }
            c => value.push(c),
        }
    }
    None
}

/// Returns the last part of a path: browsers may send a whole one.
fn base_name(path: &str) -> String {
    let end = path.rsplit(['/', '\\']).next();
    end.unwrap_or_default().to_owned()
}
