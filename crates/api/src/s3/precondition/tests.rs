use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        (name, HeaderValue::from_str(value).unwrap())
    };
    pairs.iter().map(pair).collect()
}

fn object() -> ObjectHead {
    // Sun, 06 Nov 1994 08:49:37 GMT and a half.
    ObjectHead::for_tests("abc", 784_111_777_500)
}

fn read(pairs: &[(&str, &str)]) -> Verdict {
    Read::of(&headers(pairs)).unwrap().check(&object())
}

const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

#[test]
fn reads() {
    assert_eq!(read(&[]), Verdict::Pass);
    assert_eq!(read(&[("if-match", "\"abc\"")]), Verdict::Pass);
    assert_eq!(read(&[("if-match", "x, abc")]), Verdict::Pass);
    assert_eq!(
        read(&[("if-match", "\"abd\"")]),
        Verdict::Failed("If-Match")
    );
    assert_eq!(
        read(&[("if-none-match", "\"abc\"")]),
        Verdict::NotModified("If-None-Match")
    );
    assert_eq!(
        read(&[("if-none-match", "*")]),
        Verdict::NotModified("If-None-Match")
    );
    assert_eq!(read(&[("if-none-match", "\"abd\"")]), Verdict::Pass);
    assert_eq!(
        read(&[("if-modified-since", THEN)]),
        Verdict::NotModified("If-Modified-Since")
    );
    assert_eq!(read(&[("if-modified-since", BEFORE)]), Verdict::Pass);
    assert_eq!(read(&[("if-modified-since", "garbage")]), Verdict::Pass);
    assert_eq!(read(&[("if-unmodified-since", THEN)]), Verdict::Pass);
    assert_eq!(
        read(&[("if-unmodified-since", BEFORE)]),
        Verdict::Failed("If-Unmodified-Since")
    );
}

/// S3 ignores such a date; RFC 9110 does not ask for that.
#[test]
fn dates_in_the_future_do_not_count_at_a_time() {
    const LATER: &str = "Sun, 06 Nov 1994 08:49:40 GMT";
    let at = |now_ms, since| {
        let read = Read::of(&headers(&[("if-modified-since", since)])).unwrap();
        read.at(now_ms).check(&object())
    };
    let not_modified = Verdict::NotModified("If-Modified-Since");
    assert_eq!(read(&[("if-modified-since", LATER)]), not_modified);
    assert_eq!(at(784_111_779_999, LATER), Verdict::Pass);
    assert_eq!(at(784_111_780_000, LATER), not_modified);
    // The clock of the node that stored the object was ahead.
    assert_eq!(at(784_111_770_000, THEN), not_modified);
    let copy = headers(&[("x-amz-copy-source-if-modified-since", LATER)]);
    let copy = Read::of_copy_source(&copy).unwrap().at(784_111_779_999);
    assert_eq!(copy.check(&object()), Verdict::Pass);
}

#[test]
fn entity_tags_come_before_dates() {
    let both = [("if-match", "abc"), ("if-unmodified-since", BEFORE)];
    assert_eq!(read(&both), Verdict::Pass);
    let both = [("if-none-match", "x"), ("if-modified-since", THEN)];
    assert_eq!(read(&both), Verdict::Pass);
}

#[test]
fn a_header_given_twice_is_refused() {
    let mut twice = headers(&[("if-match", "a")]);
    twice.append("if-match", HeaderValue::from_static("b"));
    assert!(Read::of(&twice).is_err());
}

fn check(condition: S3Result<Condition>, current: Option<&ObjectHead>) -> Result<(), Error> {
    match condition.unwrap() {
        Condition::Always => Ok(()),
        Condition::Check(test) => test(current),
    }
}

#[test]
fn writes() {
    let object = object();
    let absent = || of_write(&headers(&[("if-none-match", "*")]));
    assert_eq!(check(absent(), None), Ok(()));
    assert_eq!(
        check(absent(), Some(&object)),
        Err(Error::PreconditionFailed)
    );
    let same = || of_write(&headers(&[("if-match", "\"abc\"")]));
    assert_eq!(check(same(), Some(&object)), Ok(()));
    assert_eq!(check(same(), None), Err(Error::NoSuchKey));
    let other = of_write(&headers(&[("if-match", "\"x\"")]));
    assert_eq!(check(other, Some(&object)), Err(Error::PreconditionFailed));
    let code = |pairs| of_write(&headers(pairs)).err().map(|e| e.code());
    assert_eq!(
        code(&[("if-none-match", "abc")]),
        Some(Code::NotImplemented)
    );
    let both = [("if-none-match", "*"), ("if-match", "abc")];
    assert_eq!(code(&both), Some(Code::InvalidRequest));
}

#[test]
fn deletes() {
    let object = object();
    let any = || of_delete(&headers(&[("if-match", "*")]));
    assert_eq!(check(any(), Some(&object)), Ok(()));
    assert_eq!(check(any(), None), Err(Error::NoSuchKey));
    let size = of_delete(&headers(&[("x-amz-if-match-size", "1")]));
    assert_eq!(size.err().map(|e| e.code()), Some(Code::NotImplemented));
    assert_eq!(check(of_delete(&headers(&[])), None), Ok(()));
}
