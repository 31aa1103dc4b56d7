use std::sync::Arc;

use archipel_model::{AccessKey, Secret};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};
use ring::hmac;

use super::{is_presented, verify, verify_policy};
use crate::s3::error::{Code, S3Result};
use crate::s3::target::Target;
use crate::s3::uri;

/// The key of AWS's examples.
const ID: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const EXPIRES: u64 = 1_175_139_620;

fn key() -> Arc<AccessKey> {
    Arc::new(AccessKey::new(ID.into(), Secret::new(SECRET.into())))
}

fn sign(text: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, SECRET.as_bytes());
    STANDARD.encode(hmac::sign(&key, text.as_bytes()))
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, value)| {
        let value = HeaderValue::from_str(value).unwrap();
        (HeaderName::from_static(name), value)
    });
    pairs.collect()
}

fn check(method: Method, host: &str, path: &str, more: &[(&'static str, &str)]) -> S3Result<()> {
    check_at(EXPIRES * 1000, method, host, path, more)
}

fn check_at(
    now_ms: u64,
    method: Method,
    host: &str,
    path: &str,
    more: &[(&'static str, &str)],
) -> S3Result<()> {
    let uri: Uri = path.parse().unwrap();
    let mut all = headers(more);
    all.insert("host", HeaderValue::from_str(host).unwrap());
    let target = Target::of(&uri, &all, Version::HTTP_11, &["s3.amazonaws.com".into()])?;
    assert!(is_presented(&target.query));
    let lookup = |id: &str| Ok((id == ID).then(key));
    verify(&method, &target, &all, now_ms, &lookup).map(|_| ())
}

fn url(path: &str, signature: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    let signature = uri::encode(signature);
    format!("{path}{separator}AWSAccessKeyId={ID}&Signature={signature}&Expires={EXPIRES}")
}

fn code(result: S3Result<()>) -> Option<Code> {
    result.err().map(|error| error.code())
}

/// The example "Query string request authentication alternative" of AWS's page.
#[test]
fn example_of_aws() {
    let path = url("/photos/puppy.jpg", "NpgCjnDzrM+WFzoENXmpNDUsSn8=");
    let host = "johnsmith.s3.amazonaws.com";
    assert_eq!(check(Method::GET, host, &path, &[]), Ok(()));
}

#[test]
fn everything_that_is_signed_counts() {
    let text = format!(
        "PUT\nmd5==\ntext/plain\n{EXPIRES}\nx-amz-acl:private\nx-amz-meta-a:1\n/b/k%20x?response-expires=now&versionId=null"
    );
    let signature = sign(&text);
    let good = "/b/k%20x?versionId=null&response-expires=now&x-amz-meta-a=1";
    let given = [
        ("content-md5", "md5=="),
        ("content-type", "text/plain"),
        ("x-amz-acl", "private"),
    ];
    let ask = |path: &str, given: &[(&'static str, &str)]| {
        code(check(
            Method::PUT,
            "localhost",
            &url(path, &signature),
            given,
        ))
    };
    assert_eq!(ask(good, &given), None);
    let wrong = Some(Code::SignatureDoesNotMatch);
    assert_eq!(ask(&good.replace("k%20x", "k%20y"), &given), wrong);
    assert_eq!(ask(&good.replace("null", "other"), &given), wrong);
    assert_eq!(ask(&good.replace("a=1", "a=2"), &given), wrong);
    assert_eq!(ask(good, &given[..2]), wrong);
    assert_eq!(
        ask(good, &[given[0], given[1], given[2], ("x-amz-b", "1")]),
        wrong
    );
    // Parts that the signature does not cover are refused, not ignored.
    assert_eq!(
        ask(&format!("{good}&prefix=x"), &given),
        Some(Code::AccessDenied)
    );
    assert_eq!(
        ask(&format!("{good}&content-type=a"), &given),
        Some(Code::AccessDenied)
    );
    assert_eq!(
        ask(&format!("{good}&content-type=text/plain"), &given),
        None
    );
    assert_eq!(
        ask(&format!("{good}&Content-Type=text/plain"), &given),
        None
    );
    assert_eq!(
        ask(&format!("{good}&Cache-Control=no-cache"), &given),
        Some(Code::AccessDenied)
    );
    let cached = [&given[..], &[("cache-control", "no-cache")]].concat();
    assert_eq!(
        ask(&format!("{good}&Cache-Control=no-cache"), &cached),
        None
    );
    // The signature covers the token, as other parameters of this kind.
    let token = format!("{good}&x-amz-security-token=x");
    assert_eq!(ask(&token, &given), Some(Code::SignatureDoesNotMatch));
    let other = format!("{good}&x-amz-acl=public-read");
    assert_eq!(ask(&other, &given), Some(Code::InvalidRequest));
    let both = [
        given[0],
        given[1],
        given[2],
        ("authorization", "AWS4-HMAC-SHA256 x"),
    ];
    assert_eq!(ask(good, &both), Some(Code::InvalidArgument));
}

#[test]
fn a_signature_is_for_one_bucket_in_one_style() {
    let signature = sign(&format!("GET\n\n\n{EXPIRES}\n/a/key"));
    assert_eq!(
        check(Method::GET, "localhost", &url("/a/key", &signature), &[]),
        Ok(())
    );
    // The same path on another bucket's host.
    let host = "b.s3.amazonaws.com";
    let result = check(Method::GET, host, &url("/a/key", &signature), &[]);
    assert_eq!(code(result), Some(Code::SignatureDoesNotMatch));
}

#[test]
fn time_key_and_target_are_checked() {
    let signature = sign(&format!("GET\n\n\n{EXPIRES}\n/b/k"));
    let path = url("/b/k", &signature);
    let late = check_at((EXPIRES + 1) * 1000, Method::GET, "localhost", &path, &[]);
    let late = late.unwrap_err();
    assert_eq!(late.code(), Code::AccessDenied);
    let told = [
        ("Expires", "2007-03-29T03:40:20Z".to_owned()),
        ("ServerTime", "2007-03-29T03:40:21Z".to_owned()),
    ];
    assert_eq!(late.details(), told);
    let other = path.replace(ID, "AKOTHER");
    let result = check(Method::GET, "localhost", &other, &[]);
    assert_eq!(code(result), Some(Code::InvalidAccessKeyId));
    // `+` that was not escaped.
    let plain = path.replace("%2B", "+");
    assert_eq!(check(Method::GET, "localhost", &plain, &[]), Ok(()));
    for (method, path) in [
        (Method::GET, "/b"),
        (Method::POST, "/b/k"),
        (Method::GET, "/"),
    ] {
        let result = check(method, "localhost", &url(path, &signature), &[]);
        assert_eq!(code(result), Some(Code::InvalidRequest), "{path}");
    }
}

/// Otherwise it would be served as if nobody had signed it.
#[test]
fn an_incomplete_signature_is_refused() {
    let signature = sign(&format!("GET\n\n\n{EXPIRES}\n/b/k"));
    let whole = url("/b/k", &signature);
    let (path, query) = whole.split_once('?').unwrap();
    let parameters: Vec<_> = query.split('&').collect();
    let without = |name: &str| -> Vec<&str> {
        let kept = parameters.iter().filter(|one| !one.starts_with(name));
        kept.copied().collect()
    };
    let some = ["AWSAccessKeyId", "Signature", "Expires"].map(without);
    let one = parameters[..2].iter().map(|one| vec![*one]);
    let empty = vec!["AWSAccessKeyId=a", "Expires=1", "Signature="];
    for kept in some.into_iter().chain(one).chain([empty]) {
        let path = format!("{path}?{}", kept.join("&"));
        let error = check(Method::GET, "localhost", &path, &[]).unwrap_err();
        assert_eq!(error.code(), Code::AccessDenied, "{path}");
        let why = "Query-string authentication requires the Signature, Expires and \
                   AWSAccessKeyId parameters";
        assert_eq!(error.message(), why);
    }
    // A link may have such a parameter for other reasons.
    assert!(!is_presented(&uri::Query::parse("Expires=1").unwrap()));
}

/// The example "Signing the policy" of AWS's page on forms signs the encoded policy itself.
#[test]
fn policies_of_forms() {
    let lookup = |id: &str| Ok((id == ID).then(key));
    let policy = "eyAiZXhwaXJhdGlvbiI6ICIyMDA3LTEyLTAxVDEyOjAwOjAwLjAwMFoifQ==";
    assert!(verify_policy(policy, ID, &sign(policy), &lookup).is_ok());
    let wrong = verify_policy(policy, ID, &sign("other"), &lookup).err();
    assert_eq!(wrong.map(|e| e.code()), Some(Code::SignatureDoesNotMatch));
    let unknown = verify_policy(policy, "AKOTHER", &sign(policy), &lookup).err();
    assert_eq!(unknown.map(|e| e.code()), Some(Code::InvalidAccessKeyId));
}
