use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn checked(traces: &file::Traces) -> Result<Option<Traces>, String> {
    let mut check = Check::default();
    let traces = check.traces(traces);
    match check.problems.is_empty() {
        true => Ok(traces),
        false => Err(check.problems.iter().map(|p| format!("{p}\n")).collect()),
    }
}

fn at(endpoint: &str) -> file::Traces {
    file::Traces {
        endpoint: Some(endpoint.into()),
        ..file::Traces::default()
    }
}

#[test]
fn traces_are_off_without_an_endpoint() {
    assert!(checked(&file::Traces::default()).unwrap().is_none());
}

#[test]
fn spans_are_posted_below_the_endpoint() {
    for (endpoint, address) in [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
        (
            "https://otlp.example.org/in",
            "https://otlp.example.org/in/v1/traces",
        ),
    ] {
        let traces = checked(&at(endpoint)).unwrap().unwrap();
        assert_eq!(traces.address, address);
        assert_eq!((traces.sample, traces.trust_clients), (0.01, false));
    }
}

#[test]
fn wrong_endpoints_and_shares_are_refused() {
    for endpoint in [
        "",
        "127.0.0.1:4318",
        "grpc://host:4317",
        "http://",
        "http://h/?k=v",
    ] {
        let why = checked(&at(endpoint)).unwrap_err();
        assert!(why.contains("traces.endpoint"), "{endpoint}: {why}");
    }
    let why = checked(&at("http://ann:secret@host")).unwrap_err();
    assert!(
        !why.contains("secret@") && why.contains("headers_file"),
        "{why}"
    );
    for sample in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let traces = file::Traces {
            sample: Some(sample),
            ..at("http://h")
        };
        assert!(checked(&traces).unwrap_err().contains("traces.sample"));
    }
}

#[test]
fn headers_come_from_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("headers");
    fs::write(&path, "Authorization: Bearer abc\n\nX-Team:  a:b \n").unwrap();
    let traces = file::Traces {
        headers_file: Some(path.clone()),
        ..at("http://h")
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let why = checked(&traces).unwrap_err();
    assert!(why.contains("every user") && !why.contains("abc"), "{why}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let read = checked(&traces).unwrap().unwrap();
    assert_eq!(read.headers["authorization"], "Bearer abc");
    assert_eq!(read.headers["x-team"], "a:b");
    assert!(!format!("{read:?}").contains("abc"));
    for wrong in ["abc", "X-Team: a\n: abc", "na me: abc"] {
        fs::write(&path, wrong).unwrap();
        let why = checked(&traces).unwrap_err();
        assert!(
            why.contains("is not a header") && !why.contains("abc"),
            "{why}"
        );
    }
}
