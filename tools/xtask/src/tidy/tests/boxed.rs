//! Public async functions without the attribute are found.

use super::files;
use crate::tidy::boxed::{check, check_file};

const PATH: &str = "crates/model/src/objects.rs";

#[test]
fn a_public_async_function_without_the_attribute_is_found() {
    let source =
        "#[boxed]\n#[must_use]\npub async fn first(&self) {}\n\npub async fn second(&self) {}\n";
    let found = check_file(PATH, source);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("crates/model/src/objects.rs:5: second: "));
}

#[test]
fn functions_with_type_parameters_cannot_have_it() {
    for function in [
        "pub async fn run<T: Send>(&self, what: T) {}",
        "pub async fn run(\n    &self,\n    decide: impl Fn(u8) -> bool,\n) {}",
        "pub(crate) async fn run(&self) {}",
    ] {
        assert!(check_file(PATH, function).is_empty(), "{function}");
    }
    let with_lifetime = "pub async fn run<'a>(&'a self) -> Option<&'a u8> {}";
    assert_eq!(check_file(PATH, with_lifetime).len(), 1);
}

#[test]
fn other_crates_and_tests_need_none() {
    let source = "pub async fn run(&self) {}\n";
    let paths = [
        "crates/api/src/serve.rs",
        "crates/model/src/tests/shards.rs",
    ];
    let all = paths.map(|path| (path, source));
    assert!(check(&files(&all)).is_empty());
    assert_eq!(check(&files(&[(PATH, source)])).len(), 1);
}
