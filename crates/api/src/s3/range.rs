//! The `Range` header.
//!
//! Source: RFC 9110 section 14; AWS, GetObject: one range only.

use std::ops::Range;

/// The part of an object that a `Range` header asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// All bytes: there is no range, it is malformed, or there are several.
    Whole,
    /// These bytes.
    Part(Range<u64>),
    /// Bytes that the object does not have.
    Unsatisfiable,
}

/// Reads a `Range` header's value for an object of `size` bytes.
pub fn parse(text: &str, size: u64) -> Asked {
    let Some((first, last)) = bounds(text) else {
        return Asked::Whole;
    };
    let range = match (first, last) {
        (Some(first), Some(last)) if last < first => return Asked::Whole,
        (Some(first), last) => first..last.map_or(size, |last| last.saturating_add(1).min(size)),
        // The last bytes of an empty object are there: none. No range can say so.
        (None, Some(count)) if size == 0 && count > 0 => return Asked::Whole,
        (None, Some(count)) => size.saturating_sub(count)..size,
        (None, None) => return Asked::Whole,
    };
    if range.is_empty() {
        Asked::Unsatisfiable
    } else {
        Asked::Part(range)
    }
}

/// Reads `bytes=first-last` exactly, both required: the range of a part's copy.
pub fn parse_exact(text: &str) -> Option<Range<u64>> {
    match bounds(text)? {
        (Some(first), Some(last)) if first <= last => Some(first..last.checked_add(1)?),
        _ => None,
    }
}

fn bounds(text: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (unit, range) = text.trim().split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    Some((number(first)?, number(last)?))
}

/// Reads a number or nothing; one beyond 64 bits is as good as the largest.
fn number(text: &str) -> Option<Option<u64>> {
    let text = text.trim();
    match text.bytes().all(|b| b.is_ascii_digit()) {
        true if text.is_empty() => Some(None),
        true => Some(Some(text.parse().unwrap_or(u64::MAX))),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Asked, parse, parse_exact};

    #[test]
    fn ranges() {
        assert_eq!(parse("bytes=0-0", 10), Asked::Part(0..1));
        assert_eq!(parse("bytes=2-", 10), Asked::Part(2..10));
        assert_eq!(parse("bytes=2-99", 10), Asked::Part(2..10));
        assert_eq!(parse("bytes=-3", 10), Asked::Part(7..10));
        assert_eq!(parse("bytes=-30", 10), Asked::Part(0..10));
        assert_eq!(parse("bytes=10-", 10), Asked::Unsatisfiable);
        assert_eq!(parse("bytes=-0", 10), Asked::Unsatisfiable);
        assert_eq!(parse("bytes=0-", 0), Asked::Unsatisfiable);
        assert_eq!(parse("bytes=-0", 0), Asked::Unsatisfiable);
        assert_eq!(parse("bytes=-5", 0), Asked::Whole);
        assert_eq!(
            parse("bytes=99999999999999999999-", 10),
            Asked::Unsatisfiable
        );
    }

    #[test]
    fn header_without_a_single_range_is_ignored() {
        for text in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-2",
            "bytes=0-1,3-4",
            "lines=0-1",
            "bytes=+1-2",
        ] {
            assert_eq!(parse(text, 10), Asked::Whole, "{text}");
        }
    }

    #[test]
    fn exact_ranges() {
        assert_eq!(parse_exact("bytes=0-9"), Some(0..10));
        assert_eq!(parse_exact("bytes=9-0"), None);
        assert_eq!(parse_exact("bytes=0-"), None);
        assert_eq!(parse_exact("bytes=-5"), None);
        assert_eq!(parse_exact("bytes=0-18446744073709551615"), None);
    }

    proptest! {
        #[test]
        fn always_within_the_object(text in "bytes=[0-9]{0,20}-[0-9]{0,20}", size: u64) {
            if let Asked::Part(range) = parse(&text, size) {
                prop_assert!(range.start < range.end && range.end <= size);
            }
        }

        #[test]
        fn noise_is_no_panic(text in "[bytes=0-9, -]{0,30}", size: u64) {
            let _ = (parse(&text, size), parse_exact(&text));
        }
    }
}
