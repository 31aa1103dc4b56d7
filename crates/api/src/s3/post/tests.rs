use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use super::*;
use crate::s3::error::Code;

const TYPE: &str = "multipart/form-data; boundary=\"xYz\"";

fn form(fields: &[(&str, &str)], file: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in fields {
        let head = format!("--xYz\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(value.as_bytes());
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(
        b"--xYz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\\\dir\\\\a b.txt\"\r\n\
          Content-Type: text/plain\r\n\r\n",
    );
    body.extend_from_slice(file);
    body.extend_from_slice(b"\r\n--xYz--\r\n");
    body
}

/// Reads a body that arrives in pieces. Returns the events, and the file's content in one piece.
fn read(body: &[u8], piece: usize) -> S3Result<(Vec<Event>, Vec<u8>)> {
    let mut reader = FormReader::new(TYPE)?;
    let mut events = Vec::new();
    for piece in body.chunks(piece.max(1)) {
        reader.feed(piece, &mut events)?;
    }
    reader.finish()?;
    let mut file = Vec::new();
    events.retain(|event| match event {
        Event::Data(data) => {
            file.extend_from_slice(data);
            false
        }
        _ => true,
    });
    Ok((events, file))
}

#[test]
fn form_is_read_in_pieces() {
    let body = form(
        &[("Key", "up/${filename}"), ("empty", "")],
        b"content\r\n--xY",
    );
    let (events, file) = read(&body, 7).unwrap();
    let field = |name: &str, value: &str| Event::Field {
        name: name.into(),
        value: value.into(),
    };
    let begin = Event::File {
        filename: "a b.txt".into(),
        content_type: Some("text/plain".into()),
    };
    let expected = [
        field("Key", "up/${filename}"),
        field("empty", ""),
        begin,
        Event::End,
    ];
    assert_eq!(events, expected);
    assert_eq!(file, b"content\r\n--xY");
}

#[test]
fn names_of_files_are_without_folders() {
    for (sent, name) in [
        (r"C:\Program Files\directory1\file.txt", "file.txt"),
        (r"C:\\dir\\file.txt", "file.txt"),
        (r"a\b.txt", "b.txt"),
        ("a/b.txt", "b.txt"),
        (r#"a \"b\".txt"#, r#"a "b".txt"#),
    ] {
        let body = format!(
            "--xYz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{sent}\"\r\n\r\n\
             x\r\n--xYz--\r\n"
        );
        let (events, _) = read(body.as_bytes(), 100).unwrap();
        let begin = Event::File {
            filename: name.into(),
            content_type: None,
        };
        assert_eq!(events, [begin, Event::End], "{sent}");
    }
}

fn code<T>(result: S3Result<T>) -> Option<Code> {
    result.err().map(|error| error.code())
}

#[test]
fn malformed_forms_are_refused() {
    let malformed = Some(Code::MalformedPOSTRequest);
    let cut = &form(&[], b"abc")[..100];
    assert_eq!(code(read(cut, 10)), malformed);
    assert_eq!(code(FormReader::new("multipart/form-data")), malformed);
    let other = FormReader::new("text/plain; boundary=x");
    assert_eq!(code(other), Some(Code::PreconditionFailed));
    let large = "x".repeat(21 * 1024);
    let exceeded = Some(Code::MaxPostPreDataLengthExceededError);
    assert_eq!(code(read(&form(&[("a", &large)], b""), 1000)), exceeded);
    let half = "x".repeat(11 * 1024);
    let both = form(&[("a", &half), ("b", &half)], b"");
    assert_eq!(code(read(&both, 1000)), exceeded);
    let no_file = b"--xYz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--xYz--\r\n";
    assert_eq!(code(read(no_file, 10)), Some(Code::InvalidArgument));
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        file in prop::collection::vec(prop::sample::select(b"\r\n-xYza".to_vec()), 0..200),
        value in "[a-z\r\n-]{0,30}",
        piece in 1usize..50,
    ) {
        prop_assume!(!file.windows(7).any(|w| w == b"\r\n--xYz") && !value.contains("\r\n--xYz"));
        let body = form(&[("k", &value)], &file);
        let (events, read_file) = read(&body, piece).unwrap();
        prop_assert_eq!(read_file, file);
        prop_assert_eq!(&events[0], &Event::Field { name: "k".into(), value });
    }

    #[test]
    fn noise_is_no_panic(body: Vec<u8>, piece in 1usize..50) {
        let _ = read(&body, piece);
        let _ = Policy::parse(&String::from_utf8_lossy(&body));
        let _ = Policy::parse(&STANDARD.encode(&body));
    }
}

fn fields(pairs: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::default();
    for (name, value) in pairs {
        fields.add(name, (*value).into()).unwrap();
    }
    fields
}

/// 2030-01-01T00:00:00Z.
const EXPIRES_MS: u64 = 1_893_456_000_000;

fn policy(conditions: &str) -> S3Result<Policy> {
    let json = format!("{{\"expiration\":\"2030-01-01T00:00:00Z\",\"conditions\":[{conditions}]}}");
    Policy::parse(&STANDARD.encode(json))
}

#[test]
fn policy_permits_only_what_its_conditions_match() {
    let policy = policy(
        r#"{"bucket":"b"},["starts-with","$key","user/"],["eq","$Acl","private"],["content-length-range",2,10]"#,
    )
    .unwrap();
    assert_eq!(policy.length, 2..=10);
    let good = [
        ("key", "user/x"),
        ("acl", "private"),
        ("x-ignore-me", "1"),
        ("policy", "p"),
    ];
    let check =
        |pairs: &[(&str, &str)], bucket, now| code(policy.check(&fields(pairs), bucket, now));
    assert_eq!(check(&good, "b", 0), None);
    let denied = Some(Code::AccessDenied);
    assert_eq!(check(&good, "c", 0), denied);
    assert_eq!(check(&good, "b", EXPIRES_MS), denied);
    assert_eq!(
        check(&[("key", "other"), ("acl", "private")], "b", 0),
        denied
    );
    assert_eq!(
        check(&[("key", "user/x"), ("acl", "public-read")], "b", 0),
        denied
    );
    let extra = [("key", "user/x"), ("acl", "private"), ("x-amz-meta-a", "1")];
    assert_eq!(check(&extra, "b", 0), denied);
}

/// The signer of a policy may count on every field that it names.
#[test]
fn condition_about_an_absent_field_fails() {
    for condition in [
        r#"["starts-with","$x-amz-meta-a",""]"#,
        r#"["eq","$x-amz-meta-a",""]"#,
        r#"{"x-amz-meta-a":""}"#,
        r#"["starts-with","$Content-Type",""]"#,
    ] {
        let policy = policy(&format!(r#"{{"bucket":"b"}},{{"key":"k"}},{condition}"#)).unwrap();
        let without = fields(&[("key", "k")]);
        let refused = policy.check(&without, "b", 0).unwrap_err();
        assert_eq!(refused.code(), Code::AccessDenied, "{condition}");
        assert!(refused.message().contains("Policy Condition failed"));
        let name = match condition.contains("Content-Type") {
            true => "Content-Type",
            false => "x-amz-meta-a",
        };
        let empty = fields(&[("key", "k"), (name, "")]);
        assert_eq!(code(policy.check(&empty, "b", 0)), None, "{condition}");
    }
}

#[test]
fn policy_without_a_bucket_allows_no_bucket() {
    let policy = policy(r#"["starts-with","$key",""]"#).unwrap();
    let refused = policy.check(&fields(&[("key", "k")]), "b", 0).unwrap_err();
    assert_eq!(refused.code(), Code::AccessDenied);
    assert!(refused.message().ends_with("Extra input fields: bucket"));
}

#[test]
fn bucket_must_match_exactly() {
    let invalid = Some(Code::InvalidPolicyDocument);
    assert_eq!(code(policy(r#"["starts-with","$bucket","b"]"#)), invalid);
    assert_eq!(code(policy(r#"["starts-with","$Bucket",""]"#)), invalid);
    let policy = policy(r#"["eq","$Bucket","b"],["eq","$key","k"]"#).unwrap();
    let key = fields(&[("key", "k")]);
    assert_eq!(code(policy.check(&key, "b", 0)), None);
    assert_eq!(code(policy.check(&key, "bb", 0)), Some(Code::AccessDenied));
}

#[test]
fn ambiguous_policies_are_refused() {
    let invalid = Some(Code::InvalidPolicyDocument);
    for conditions in [
        r#"{"bucket":"a","bucket":"b"}"#,
        r#"{"bucket":"a","key":"b"}"#,
        "{}",
    ] {
        assert_eq!(code(policy(conditions)), invalid, "{conditions}");
    }
    let end = r#""expiration":"2030-01-01T00:00:00Z""#;
    let none = r#""conditions":[{"bucket":"b"}]"#;
    for document in [
        format!("{{{end},{end},{none}}}"),
        format!("{{{end},{none},{none}}}"),
        format!("{{{end},{none},\"Conditions\":[]}}"),
        format!("{{{end},{none},\"not-before\":\"2029-01-01T00:00:00Z\"}}"),
        format!("{{{end},{none}}} {{}}"),
    ] {
        assert_eq!(
            code(Policy::parse(&STANDARD.encode(&document))),
            invalid,
            "{document}"
        );
    }
    let good = format!("{{{end},{none}}}");
    assert_eq!(code(Policy::parse(&STANDARD.encode(good))), None);
}

/// Escapes that JSON lacks, and commas behind the last condition: AWS's documentation has both.
#[test]
fn policies_are_written_as_aws_documents_them() {
    let with = |conditions: &str| policy(&format!(r#"{{"bucket":"b"}},{conditions}"#));
    let policy = with(r#"["eq","$key","a\$b\v,]"],"#).unwrap();
    let key = fields(&[("key", "a$b\u{b},]")]);
    assert_eq!(code(policy.check(&key, "b", 0)), None);
    assert_eq!(
        code(with(r#"["eq","$key","a\q"]"#)),
        Some(Code::InvalidPolicyDocument)
    );
    assert_eq!(
        code(with(r#"["eq","$key","a",,"b"]"#)),
        Some(Code::InvalidPolicyDocument)
    );
}

#[test]
fn malformed_policies_are_refused() {
    let invalid = Some(Code::InvalidPolicyDocument);
    for conditions in [
        "1",
        "[\"eq\",\"key\",\"x\"]",
        "[\"like\",\"$key\",\"x\"]",
        "[\"eq\"]",
        "{\"a\":1}",
    ] {
        assert_eq!(code(policy(conditions)), invalid, "{conditions}");
    }
    assert_eq!(code(Policy::parse("not base64!")), invalid);
    assert_eq!(code(Policy::parse(&STANDARD.encode("{}"))), invalid);
}

#[test]
fn fields_are_found_by_any_case_and_once() {
    let mut fields = fields(&[("Key", "a/${filename}"), ("policy", "${filename}")]);
    fields.expand("x.txt");
    assert_eq!(fields.key().unwrap(), "a/x.txt");
    assert_eq!(fields.get("policy"), Some("${filename}"));
    assert!(fields.add("kEY", "b".into()).is_err());
    assert_eq!(code(Fields::default().key()), Some(Code::InvalidArgument));
    // As the values of a header.
    fields.add("x-amz-meta-tag", "Ninja".into()).unwrap();
    fields.add("X-Amz-Meta-Tag", "Stallman".into()).unwrap();
    assert_eq!(fields.get("x-amz-meta-tag"), Some("Ninja,Stallman"));
}
