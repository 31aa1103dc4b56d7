//! The ids that spans refer to one another by, and their forms in messages.
//!
//! Source: W3C, "Trace Context", level 1.

/// The length of a context in calls between nodes.
const BYTES: usize = 24;

/// The name of a trace, and of one span in it. Neither is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// The id of the trace.
    pub trace: [u8; 16],
    /// The id of the span.
    pub span: [u8; 8],
}

impl Context {
    /// Returns the form of calls between nodes: the trace's id, then the span's.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let (trace, span) = bytes.split_at_mut(self.trace.len());
        trace.copy_from_slice(&self.trace);
        span.copy_from_slice(&self.span);
        bytes
    }

    /// Reads the form of calls between nodes. Returns `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Context> {
        let (trace, span) = bytes.split_first_chunk()?;
        let span = <[u8; 8]>::try_from(span).ok()?;
        Context::valid(*trace, span)
    }

    fn valid(trace: [u8; 16], span: [u8; 8]) -> Option<Context> {
        let is_valid = trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Context { trace, span })
    }
}

/// The context that a client sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// The client's span, under which the request is a child.
    pub context: Context,
    /// True if the client records its own span.
    pub is_sampled: bool,
}

impl Received {
    /// Reads the header `traceparent`. Returns `None` if it is malformed: then the request begins a
    /// trace of its own.
    pub fn parse(header: &[u8]) -> Option<Received> {
        let (version, rest) = field::<1>(header)?;
        let (trace, rest) = field::<16>(dash(rest)?)?;
        let (span, rest) = field::<8>(dash(rest)?)?;
        let ([flags], rest) = field::<1>(dash(rest)?)?;
        match version {
            [0xff] => return None,
            [0] if !rest.is_empty() => return None,
            // Later versions may add fields.
            _ if !rest.is_empty() && dash(rest).is_none() => return None,
            _ => {}
        }
        Some(Received {
            context: Context::valid(trace, span)?,
            is_sampled: flags & 1 != 0,
        })
    }
}

fn dash(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"-")
}

/// Reads `N` bytes in lower-case hexadecimal digits. Returns them and the rest of the text.
fn field<const N: usize>(text: &[u8]) -> Option<([u8; N], &[u8])> {
    let (digits, rest) = text.split_at_checked(2 * N)?;
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some((bytes, rest))
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}
