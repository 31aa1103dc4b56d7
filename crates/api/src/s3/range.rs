//! The `Range` header: one range of bytes, or the whole.
//!
//! S3 serves a single range. A header that is not understood, or that asks for several ranges, is
//! ignored, as RFC 9110 section 14.2 allows and S3 does: the whole object is sent.

use std::ops::Range;

use super::error::{Code, S3Error, S3Result};

/// What a request asks for of an object's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteRange {
    /// From a position to the end, or to a last byte.
    From {
        /// The first byte.
        first: u64,
        /// The last byte, if it is named.
        last: Option<u64>,
    },
    /// So many bytes at the end.
    Suffix(u64),
}

/// Reads a `Range` header; `None` if it is to be ignored.
pub fn parse(header: &str) -> Option<ByteRange> {
    let (unit, set) = header.trim().split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    match (number(first)?, number(last)?) {
        (None, Some(length)) => Some(ByteRange::Suffix(length)),
        (Some(first), last) if last.is_none_or(|last| first <= last) => {
            Some(ByteRange::From { first, last })
        }
        _ => None,
    }
}

/// Digits, or nothing; the outer `None` is for anything else.
fn number(text: &str) -> Option<Option<u64>> {
    match text.trim() {
        "" => Some(None),
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok().map(Some),
        _ => None,
    }
}

/// Reads the strict form of `x-amz-copy-source-range`: `bytes=first-last`.
///
/// # Errors
/// `InvalidArgument` for any other form.
pub fn parse_copy_source(header: &str) -> S3Result<(u64, u64)> {
    let wrong = || {
        S3Error::argument(
            "x-amz-copy-source-range",
            header,
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy",
        )
    };
    match parse(header) {
        Some(ByteRange::From {
            first,
            last: Some(last),
        }) => Ok((first, last)),
        _ => Err(wrong()),
    }
}

impl ByteRange {
    /// The bytes of an object of `size` that are meant.
    ///
    /// # Errors
    /// `InvalidRange` if there are none.
    pub fn of(self, size: u64) -> S3Result<Range<u64>> {
        let range = match self {
            ByteRange::From { first, last } => {
                let end = last.map_or(size, |last| last.saturating_add(1).min(size));
                first..end
            }
            ByteRange::Suffix(length) => size.saturating_sub(length)..size,
        };
        if range.is_empty() {
            return Err(S3Error::from(Code::InvalidRange).with("ActualObjectSize", size.to_string()));
        }
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_understood() {
        let from = |first, last| Some(ByteRange::From { first, last });
        assert_eq!(parse("bytes=0-4"), from(0, Some(4)));
        assert_eq!(parse("bytes=5-"), from(5, None));
        assert_eq!(parse("bytes=-3"), Some(ByteRange::Suffix(3)));
        assert_eq!(parse(" Bytes = 1 - 2 "), from(1, Some(2)));
        for ignored in ["bytes=0-1,3-4", "bytes=4-2", "bytes=-", "items=0-1", "bytes=a-", "0-4"] {
            assert_eq!(parse(ignored), None, "{ignored}");
        }
        assert_eq!(parse_copy_source("bytes=0-9"), Ok((0, 9)));
        assert!(parse_copy_source("bytes=-9").is_err());
        assert!(parse_copy_source("0-9").is_err());
    }

    #[test]
    fn what_is_meant() {
        let of = |header: &str, size| parse(header).map(|r| r.of(size));
        assert_eq!(of("bytes=0-4", 10), Some(Ok(0..5)));
        assert_eq!(of("bytes=8-99", 10), Some(Ok(8..10)));
        assert_eq!(of("bytes=-3", 10), Some(Ok(7..10)));
        assert_eq!(of("bytes=-30", 10), Some(Ok(0..10)));
        for (header, size) in [("bytes=10-", 10), ("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-1", 0)] {
            let refused = of(header, size).and_then(Result::err).map(|e| e.code());
            assert_eq!(refused, Some(Code::InvalidRange), "{header}");
        }
    }

    proptest! {
        #[test]
        fn noise_is_no_panic(header in ".{0,40}", size: u64) {
            if let Some(range) = parse(&header) {
                let _ = range.of(size);
            }
        }
    }
}
