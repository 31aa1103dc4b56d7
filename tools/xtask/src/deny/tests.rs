//! Each rule of `deny.toml` is enforced, and a rule that would not be is refused.

use super::{Metadata, check, licence, parse, policy};

const POLICY: &str = r#"
[graph]
targets = ["x86_64-unknown-linux-gnu"]
[licenses]
allow = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"]
[bans]
multiple-versions = "allow"
wildcards = "deny"
allow-wildcard-paths = true
deny = [{ crate = "openssl", reason = "ring is the one" }]
[sources]
unknown-registry = "deny"
unknown-git = "deny"
allow-registry = ["https://example.org/index"]
"#;

fn allows(expression: &str) -> bool {
    let policy = policy::parse(POLICY).unwrap();
    licence::is_allowed(expression, &policy.licenses.allow).unwrap()
}

/// One package of a registry with these fields in place of the usual ones.
fn package(fields: serde_json::Value) -> Metadata {
    let mut package = serde_json::json!({
        "id": "a 1.0.0", "name": "a", "version": "1.0.0", "license": "MIT",
        "source": "registry+https://example.org/index", "publish": null, "dependencies": [],
    });
    for (name, value) in fields.as_object().unwrap() {
        package[name] = value.clone();
    }
    let all = serde_json::json!({"packages": [package], "workspace_members": ["ours 1.0.0"]});
    parse(all.to_string().as_bytes()).unwrap()
}

fn complaints(fields: serde_json::Value) -> Vec<String> {
    check(&policy::parse(POLICY).unwrap(), &package(fields))
}

#[test]
fn one_side_of_or_and_both_sides_of_and_must_be_allowed() {
    assert!(allows("MIT"));
    assert!(allows("GPL-2.0-only OR MIT"));
    assert!(allows("MIT/GPL-2.0-only"));
    assert!(!allows("GPL-2.0-only AND MIT"));
    assert!(allows("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(!allows("(MIT OR Apache-2.0) AND OpenSSL"));
    assert!(!allows("OpenSSL AND MIT OR ISC"));
    assert!(allows("ISC OR MIT AND Apache-2.0"));
}

#[test]
fn an_exception_is_a_licence_of_its_own() {
    assert!(allows("Apache-2.0 WITH LLVM-exception"));
    assert!(!allows("MIT WITH LLVM-exception"));
}

#[test]
fn broken_expressions_are_errors() {
    for broken in [
        "",
        "MIT OR",
        "OR MIT",
        "(MIT",
        "MIT)",
        "MIT Apache-2.0",
        "MIT WITH",
        "()",
    ] {
        assert!(
            licence::is_allowed(broken, &["MIT".into()]).is_err(),
            "{broken}"
        );
    }
}

#[test]
fn a_package_that_keeps_all_rules_gives_no_complaint() {
    assert!(complaints(serde_json::json!({})).is_empty());
}

#[test]
fn licences_that_are_missing_or_not_allowed_are_found() {
    let missing = complaints(serde_json::json!({"license": null}));
    assert_eq!(missing, ["a 1.0.0: it declares no licence"]);
    assert_eq!(
        complaints(serde_json::json!({"license": "GPL-3.0-only"})).len(),
        1
    );
    assert_eq!(complaints(serde_json::json!({"license": "(MIT"})).len(), 1);
}

#[test]
fn banned_crates_are_found_with_the_reason() {
    let found = complaints(serde_json::json!({"name": "openssl"}));
    assert_eq!(found, ["openssl 1.0.0: it is banned: ring is the one"]);
}

#[test]
fn wildcards_are_found_except_paths_of_private_crates() {
    let any = serde_json::json!([{"name": "b", "req": "*", "path": null}]);
    let path = serde_json::json!([{"name": "b", "req": "*", "path": "/b"}]);
    let private = serde_json::json!([]);
    assert_eq!(
        complaints(serde_json::json!({"dependencies": any})).len(),
        1
    );
    assert_eq!(
        complaints(serde_json::json!({"dependencies": any, "publish": private})).len(),
        1
    );
    assert_eq!(
        complaints(serde_json::json!({"dependencies": path})).len(),
        1
    );
    assert!(complaints(serde_json::json!({"dependencies": path, "publish": private})).is_empty());
}

#[test]
fn other_registries_git_and_paths_outside_the_workspace_are_found() {
    for source in [
        "registry+https://example.org/other",
        "git+https://example.org/index",
        "https://example.org/index",
    ] {
        assert_eq!(
            complaints(serde_json::json!({"source": source})).len(),
            1,
            "{source}"
        );
    }
    assert_eq!(complaints(serde_json::json!({"source": null})).len(), 1);
    let ours = serde_json::json!({"source": null, "id": "ours 1.0.0"});
    assert!(complaints(ours).is_empty());
}

#[test]
fn settings_that_this_check_would_not_honour_are_refused() {
    for (from, to) in [
        (
            "multiple-versions = \"allow\"",
            "multiple-versions = \"deny\"",
        ),
        ("unknown-git = \"deny\"", "unknown-git = \"warn\""),
        ("[sources]", "[sources]\nallow-git = []"),
        ("[graph]", "[graph]\nexclude = []"),
        ("openssl", "openssl:<1"),
    ] {
        assert!(policy::parse(POLICY).is_ok());
        assert!(policy::parse(&POLICY.replace(from, to)).is_err(), "{to}");
    }
}
