use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::{document, of_bucket, of_headers, of_object};
use crate::s3::error::{Code, S3Result};
use crate::s3::uri::encode;

fn header(value: &str) -> S3Result<Vec<(String, String)>> {
    let mut headers = HeaderMap::new();
    headers.insert("x-amz-tagging", HeaderValue::from_str(value).unwrap());
    of_headers(&headers)
}

fn tags(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn set(tags: &[(String, String)]) -> Vec<u8> {
    document(&tags.to_vec()).finish()
}

fn numbered(count: usize) -> Vec<(String, String)> {
    (0..count)
        .map(|n| (format!("k{n}"), String::new()))
        .collect()
}

fn code<T: std::fmt::Debug>(result: S3Result<T>) -> Code {
    result.unwrap_err().code()
}

#[test]
fn header_is_read_as_a_query() {
    assert_eq!(header("").unwrap(), tags(&[]));
    let found = header("a=1&b%20c=%C3%A4+x&flag&%40=%3D").unwrap();
    assert_eq!(
        found,
        tags(&[("a", "1"), ("b c", "ä x"), ("flag", ""), ("@", "=")])
    );
    assert_eq!(of_headers(&HeaderMap::new()).unwrap(), tags(&[]));
    for malformed in ["a=1&a=2", "a=%zz", "a=%ff", "a=%"] {
        assert_eq!(
            code(header(malformed)),
            Code::InvalidArgument,
            "{malformed}"
        );
    }
    assert_eq!(code(header("=1")), Code::InvalidTag);
    assert_eq!(code(header("a=%00")), Code::InvalidTag);
}

#[test]
fn limits_are_those_of_s3() {
    assert!(of_object(&set(&numbered(10))).is_ok());
    assert_eq!(code(of_object(&set(&numbered(11)))), Code::BadRequest);
    assert!(of_bucket(&set(&numbered(50))).is_ok());
    assert_eq!(code(of_bucket(&set(&numbered(51)))), Code::BadRequest);
    let one = |key: &str, value: &str| of_object(&set(&tags(&[(key, value)])));
    assert!(one(&"ä".repeat(128), &"ü".repeat(256)).is_ok());
    assert_eq!(code(one(&"a".repeat(129), "")), Code::InvalidTag);
    assert_eq!(code(one("a", &"v".repeat(257))), Code::InvalidTag);
    assert_eq!(code(one("", "v")), Code::InvalidTag);
    assert!(one("Ab 9+-=._:/@", "é 漢字").is_ok());
    for bad in [
        "a,b",
        "a*",
        "a\tb",
        "a\nb",
        "<",
        "a;b",
        "\"",
        "a?b",
        "emoji 🙂",
    ] {
        assert_eq!(code(one(bad, "")), Code::InvalidTag, "{bad:?}");
        assert_eq!(code(one("a", bad)), Code::InvalidTag, "{bad:?}");
    }
    for system in ["aws:x", "AWS:x", "aws:"] {
        assert_eq!(code(one(system, "")), Code::InvalidTag, "{system}");
    }
    assert!(one("aws", "aws:x").is_ok());
    let twice = tags(&[("a", "1"), ("a", "1")]);
    assert_eq!(code(of_object(&set(&twice))), Code::InvalidTag);
    assert!(of_object(&set(&tags(&[("a", "1"), ("A", "1")]))).is_ok());
}

#[test]
fn only_the_documented_elements_are_accepted() {
    for malformed in [
        "",
        "<Tagging/>",
        "<TagSet/>",
        "<Tagging><TagSet/><TagSet/></Tagging>",
        "<Tagging><TagSet><Tag/></TagSet></Tagging>",
        "<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>",
        "<Tagging><TagSet><Tag><Value>a</Value></Tag></TagSet></Tagging>",
        "<Tagging><TagSet><Tag><Key>a</Key><Key>b</Key><Value/></Tag></TagSet></Tagging>",
        "<Tagging><TagSet><Tag><Key>a</Key><Value/><X/></Tag></TagSet></Tagging>",
        "<Tagging><TagSet>text</TagSet></Tagging>",
        "<Tagging><Tag><Key>a</Key><Value/></Tag></Tagging>",
    ] {
        assert_eq!(
            code(of_object(malformed.as_bytes())),
            Code::MalformedXML,
            "{malformed}"
        );
    }
    assert_eq!(
        of_object(b"<Tagging><TagSet/></Tagging>").unwrap(),
        tags(&[])
    );
}

proptest! {
    /// A header means the same as a document, and both come back unchanged.
    #[test]
    fn tags_come_back_unchanged(
        found in proptest::collection::btree_map("[a-zA-Z0-9 +=._:/@ä-]{1,128}", "[a-z0-9 +=._:/@ü-]{0,256}", 0..=10)
    ) {
        let given: Vec<_> = found.into_iter().filter(|(key, _)| !key.starts_with("aws:")).collect();
        let pairs: Vec<_> = given.iter().map(|(k, v)| format!("{}={}", encode(k), encode(v))).collect();
        prop_assert_eq!(&header(&pairs.join("&")).unwrap(), &given);
        prop_assert_eq!(&of_object(&set(&given)).unwrap(), &given);
    }
}
