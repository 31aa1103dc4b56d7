//! Runtimes, clocks and locks in the pure core are found.

use super::files;
use crate::tidy::purity::{check, check_file};

const NONE: [&str; 0] = [];
const PURE: &str = "crates/cluster/src/register/replica.rs";

#[test]
fn impure_names_are_found_with_their_line() {
    let source = "use std::sync::Mutex;\nasync fn f() { tokio::time::sleep(g).await }\n\
                  let now = std::time::Instant::now();\n";
    let found = check_file(PURE, source);
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(found[0].starts_with("crates/cluster/src/register/replica.rs:1: Mutex"));
    assert!(found[4].starts_with("crates/cluster/src/register/replica.rs:3: Instant"));
}

#[test]
fn every_part_of_the_core_is_looked_at() {
    for path in [
        "crates/cluster/src/merge/page.rs",
        "crates/cluster/src/placement/solve.rs",
        "crates/cluster/src/register.rs",
    ] {
        let found = check_file(path, "use tokio::sync::Notify;\n");
        assert_eq!(found.len(), 1, "{path}");
    }
}

#[test]
fn comments_tests_and_other_modules_may_name_them() {
    let source =
        "// tokio\n#[cfg(test)]\nmod tests {\n    use tokio::time;\n}\nlet instants = 1;\n";
    assert_eq!(check_file(PURE, source), NONE);
    for path in [
        "crates/cluster/src/register/tests/mod.rs",
        "crates/cluster/src/registered.rs",
        "crates/cluster/src/drive.rs",
    ] {
        assert_eq!(
            check_file(path, "use tokio::sync::Notify;\n"),
            NONE,
            "{path}"
        );
    }
}

#[test]
fn a_pure_module_that_is_gone_is_found() {
    let all = files(&[
        ("crates/cluster/src/merge/mod.rs", ""),
        ("crates/cluster/src/placement.rs", ""),
        (PURE, "use tokio::sync::Notify;\n"),
    ]);
    assert_eq!(check(&all).len(), 1);
    let found = check(&files(&[("crates/cluster/src/merge/mod.rs", "")]));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("crates/cluster/src/placement is not there"));
}
