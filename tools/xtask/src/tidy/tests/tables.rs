//! Tables that name other modules than the file declares are found.

use crate::tidy::tables::check;

const NONE: [&str; 0] = [];
const PATH: &str = "crates/model/src/lib.rs";
const TABLE: &str =
    "//! | module | what it holds |\n//! |---|---|\n//! | [`a`], `b` | `c`, of both |\n\n";

fn complaints(modules: &str) -> Vec<String> {
    check(PATH, &format!("{TABLE}{modules}"))
}

#[test]
fn a_table_of_exactly_the_modules_gives_no_complaint() {
    let modules = "pub mod a;\nmod b;\n#[cfg(test)]\nmod tests;\n";
    assert_eq!(complaints(modules), NONE);
}

#[test]
fn missing_and_surplus_modules_are_found() {
    let found = complaints("mod a;\nmod c;\n");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("lacks `c`"), "{found:?}");
    assert!(found[1].contains("names `b`"), "{found:?}");
}

#[test]
fn other_tables_and_test_files_give_no_complaint() {
    let other = "//! | engine | for |\n//! |---|---|\n//! | [`lmdb`] | all |\n\nmod home;\n";
    assert_eq!(check(PATH, other), NONE);
    assert_eq!(check("crates/model/src/tests/mod.rs", TABLE), NONE);
}
