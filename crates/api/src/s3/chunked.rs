//! The `aws-chunked` encoding of request bodies, as a state machine without I/O.
//!
//! Invariants: not a byte of a signed chunk is given out before its signature was checked; what
//! is given out has in the end exactly the length that was declared; what is held is bounded by
//! [`MAX_SIGNED_CHUNK_BYTES`].
//!
//! Source: AWS, "Signature Calculations for the Authorization Header: Transferring Payload in
//! Multiple Chunks", also "… Including Trailing Headers".

use bytes::{Buf, Bytes, BytesMut};
use ring::digest;

use super::error::{Code, S3Error, S3Result};
use super::sigv4::ChunkSigner;

/// The largest signed chunk: so much is held in memory until its signature is checked.
pub const MAX_SIGNED_CHUNK_BYTES: u64 = 16 << 20;

/// The smallest chunk that is not the last one.
const MIN_CHUNK_BYTES: u64 = 8 << 10;

/// The longest line of a chunk's header or of a trailer.
const MAX_LINE_BYTES: usize = 4 << 10;

/// The most trailing headers.
const MAX_TRAILERS: usize = 8;

/// Decodes one body.
pub struct Decoder {
    signer: Option<ChunkSigner>,
    trailer: bool,
    /// Content that is still to come.
    missing: u64,
    state: State,
    line: Vec<u8>,
    /// A chunk was smaller than the minimum: it must be the last.
    small: bool,
    trailers: Vec<(String, String)>,
    /// The trailers as they are signed.
    signed_trailer: Vec<u8>,
    trailer_signature: Option<String>,
}

enum State {
    /// Reading `size[;chunk-signature=…]`.
    Header,
    Data(Chunk),
    /// Reading the line end behind a chunk's data.
    DataEnd,
    Trailer,
    /// Read an empty line between signed trailers and their signature.
    TrailerSignature,
    Done,
    /// Read a second empty line behind unsigned trailers.
    Closed,
}

/// The chunk that is being read.
struct Chunk {
    left: u64,
    signed: Option<Box<SignedChunk>>,
}

struct SignedChunk {
    signature: String,
    sha256: digest::Context,
    held: BytesMut,
}

impl Decoder {
    /// Makes a decoder of a body with `length` bytes of content.
    ///
    /// With a `signer`, chunks and trailer must be signed. Without `trailer`, trailing headers are
    /// refused.
    pub fn new(signer: Option<ChunkSigner>, trailer: bool, length: u64) -> Decoder {
        Decoder {
            signer,
            trailer,
            missing: length,
            state: State::Header,
            line: Vec::new(),
            small: false,
            trailers: Vec::new(),
            signed_trailer: Vec::new(),
            trailer_signature: None,
        }
    }

    /// Decodes the next bytes of the body and appends verified content to `out`.
    ///
    /// # Errors
    /// The body is malformed or too long, or a signature is wrong. The decoder is useless then.
    pub fn feed(&mut self, mut input: Bytes, out: &mut Vec<Bytes>) -> S3Result<()> {
        while !input.is_empty() {
            match &mut self.state {
                State::Data(_) => self.data(&mut input, out)?,
                State::Closed => return Err(behind_the_end()),
                _ => {
                    if let Some(line) = self.line(&mut input)? {
                        self.take_line(&line, out)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the number of bytes that wait for the end of a signed chunk.
    pub fn held(&self) -> usize {
        match &self.state {
            State::Data(Chunk {
                signed: Some(signed),
                ..
            }) => signed.held.len(),
            _ => 0,
        }
    }

    /// Ends the body. Returns the trailing headers by lower-case name.
    ///
    /// # Errors
    /// The body ended too early.
    pub fn finish(self) -> S3Result<Vec<(String, String)>> {
        match (self.state, self.missing) {
            (State::Done | State::Closed, 0) if self.line.is_empty() => Ok(self.trailers),
            (State::TrailerSignature, _) => Err(Code::MalformedTrailerError.into()),
            _ => Err(malformed("it ends too early")),
        }
    }

    /// Collects a line. Returns it without its line end once it is complete.
    fn line(&mut self, input: &mut Bytes) -> S3Result<Option<String>> {
        let end = input.iter().position(|b| *b == b'\n');
        let piece = input.split_to(end.unwrap_or(input.len()));
        if self.line.len() + piece.len() > MAX_LINE_BYTES {
            return Err(malformed("a line is too long"));
        }
        self.line.extend_from_slice(&piece);
        if end.is_none() {
            return Ok(None);
        }
        input.advance(1);
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        let line = String::from_utf8(line).map_err(|_| malformed("a line is not text"))?;
        Ok(Some(line))
    }

    fn take_line(&mut self, line: &str, out: &mut Vec<Bytes>) -> S3Result<()> {
        match self.state {
            State::Header => self.header(line, out),
            State::DataEnd if line.is_empty() => {
                self.state = State::Header;
                Ok(())
            }
            State::DataEnd => Err(malformed("a chunk is longer than it says")),
            State::Done if line.is_empty() && self.may_close_twice() => {
                self.state = State::Closed;
                Ok(())
            }
            State::Done => Err(behind_the_end()),
            _ => self.trailer_line(line),
        }
    }

    fn header(&mut self, line: &str, out: &mut Vec<Bytes>) -> S3Result<()> {
        let (size, extension) = match line.split_once(';') {
            Some((size, extension)) => (size, Some(extension)),
            None => (line, None),
        };
        let size = parse_size(size)?;
        if size > self.missing {
            return Err(malformed("it is longer than x-amz-decoded-content-length"));
        }
        if self.small && size > 0 {
            return Err(Code::InvalidChunkSizeError.into());
        }
        self.small = size < MIN_CHUNK_BYTES;
        let signed = match (&self.signer, extension) {
            (Some(_), Some(extension)) => Some(Box::new(signed_chunk(size, extension)?)),
            (None, None) => None,
            (Some(_), None) => return Err(malformed("a chunk has no signature")),
            (None, Some(_)) => return Err(malformed("a chunk has an extension")),
        };
        let chunk = Chunk { left: size, signed };
        match size {
            0 => {
                self.end_chunk(chunk, out)?;
                self.state = State::Trailer;
            }
            _ => self.state = State::Data(chunk),
        }
        Ok(())
    }

    fn data(&mut self, input: &mut Bytes, out: &mut Vec<Bytes>) -> S3Result<()> {
        let State::Data(chunk) = &mut self.state else {
            return Ok(());
        };
        let take = chunk.left.min(input.len() as u64);
        let piece = input.split_to(take as usize);
        chunk.left -= take;
        self.missing -= take;
        match &mut chunk.signed {
            None => out.push(piece),
            Some(signed) => {
                signed.sha256.update(&piece);
                signed.held.extend_from_slice(&piece);
            }
        }
        if chunk.left == 0
            && let State::Data(chunk) = std::mem::replace(&mut self.state, State::DataEnd)
        {
            self.end_chunk(chunk, out)?;
        }
        Ok(())
    }

    /// Checks the signature of a chunk that is complete, and gives its content out.
    fn end_chunk(&mut self, chunk: Chunk, out: &mut Vec<Bytes>) -> S3Result<()> {
        let (Some(signer), Some(signed)) = (&mut self.signer, chunk.signed) else {
            return Ok(());
        };
        if !signer.chunk(&signed.sha256.finish(), &signed.signature) {
            return Err(Code::SignatureDoesNotMatch.into());
        }
        if !signed.held.is_empty() {
            out.push(signed.held.freeze());
        }
        Ok(())
    }

    fn trailer_line(&mut self, line: &str) -> S3Result<()> {
        if line.is_empty() {
            return self.empty_line();
        }
        let (name, value) = line.split_once(':').ok_or(Code::MalformedTrailerError)?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        let is_signature = name == "x-amz-trailer-signature" && self.signer.is_some();
        let too_many = !self.trailer || self.trailers.len() == MAX_TRAILERS;
        let too_late = matches!(self.state, State::TrailerSignature) && !is_signature;
        if too_many || too_late || self.trailer_signature.is_some() {
            return Err(Code::MalformedTrailerError.into());
        }
        if is_signature {
            self.trailer_signature = Some(value.to_owned());
            return Ok(());
        }
        let signed = format!("{name}:{value}\n");
        self.signed_trailer.extend_from_slice(signed.as_bytes());
        self.trailers.push((name, value.to_owned()));
        Ok(())
    }

    /// Ends the trailers. minio-go sets an empty line between the trailers and their signature, and
    /// two empty lines behind trailers without a signature. AWS accepts both.
    fn empty_line(&mut self) -> S3Result<()> {
        let unsigned = self.signer.is_some() && self.trailer_signature.is_none();
        if matches!(self.state, State::Trailer) && unsigned && !self.trailers.is_empty() {
            self.state = State::TrailerSignature;
            return Ok(());
        }
        self.end_trailer()
    }

    fn may_close_twice(&self) -> bool {
        self.signer.is_none() && !self.trailers.is_empty()
    }

    fn end_trailer(&mut self) -> S3Result<()> {
        if self.trailer
            && let Some(signer) = &mut self.signer
        {
            let signature = self.trailer_signature.as_deref();
            let signature = signature.ok_or(Code::MalformedTrailerError)?;
            if !signer.trailer(&self.signed_trailer, signature) {
                return Err(Code::SignatureDoesNotMatch.into());
            }
        }
        self.state = State::Done;
        Ok(())
    }
}

fn malformed(why: &str) -> S3Error {
    let message = format!("The aws-chunked request body is not well-formed: {why}.");
    S3Error::new(Code::IncompleteBody, message)
}

fn behind_the_end() -> S3Error {
    malformed("there is data behind the end")
}

fn parse_size(text: &str) -> S3Result<u64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    let size = plain.then(|| u64::from_str_radix(text, 16).ok()).flatten();
    size.ok_or_else(|| malformed("a chunk's size is not a number"))
}

fn signed_chunk(size: u64, extension: &str) -> S3Result<SignedChunk> {
    if size > MAX_SIGNED_CHUNK_BYTES {
        let why = "A signed chunk must not be larger than 16 MiB.";
        return Err(S3Error::new(Code::InvalidRequest, why));
    }
    let signature = extension
        .strip_prefix("chunk-signature=")
        .ok_or_else(|| malformed("a chunk has no signature"))?;
    Ok(SignedChunk {
        signature: signature.to_owned(),
        sha256: digest::Context::new(&digest::SHA256),
        held: BytesMut::new(),
    })
}

#[cfg(test)]
pub mod tests;
