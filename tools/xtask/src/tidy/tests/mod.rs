//! Each rule finds what it is for, and leaves the rest alone.

use std::collections::BTreeMap;

use super::{edges, lines, map};

mod boxed;
mod cycle;
mod docs;
mod purity;
mod sentences;
mod settings;
mod source;
mod tables;
mod verbs;
mod words;

/// Files of a repository, by path.
fn files(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = all.iter();
    owned
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect()
}

const DOC: &str = "//! The purpose.\n";

fn complaints(path: &str, text: &str) -> Vec<String> {
    lines::check(path, text)
}

#[test]
fn a_clean_file_gives_no_complaint() {
    assert!(complaints("crates/model/src/lib.rs", DOC).is_empty());
}

#[test]
fn whitespace_at_the_end_of_a_line_is_found_with_its_line() {
    let found = complaints("docs/s3.md", "one \ntwo\n");
    assert_eq!(found, ["docs/s3.md:1: remove the space at the line's end"]);
    assert_eq!(complaints("docs/s3.md", "one").len(), 1);
}

#[test]
fn long_files_and_files_without_a_purpose_are_found() {
    let long = format!("{DOC}{}", "// line\n".repeat(400));
    assert_eq!(complaints("crates/model/src/lib.rs", &long).len(), 1);
    assert_eq!(
        complaints("crates/model/src/lib.rs", "fn f() {}\n").len(),
        1
    );
}

#[test]
fn a_row_that_is_broken_over_two_lines_is_found() {
    let whole = "//! The crate.\n//!\n//! | a | b |\n//! |---|---|\n//! | c | d |\n";
    assert!(complaints("crates/a/src/lib.rs", whole).is_empty());
    let broken = whole.replace("| d |", "| d\n//! |");
    assert_eq!(complaints("crates/a/src/lib.rs", &broken).len(), 2);
}

#[test]
fn an_allowance_of_length_holds_and_must_be_lowered_with_the_file() {
    let path = "crates/model/src/lib.rs";
    let long = format!("{DOC}{}", "// line\n".repeat(409));
    assert!(lines::check_with(path, &long, &[(path, 410)]).is_empty());
    assert_eq!(lines::check_with(path, &long, &[(path, 409)]).len(), 1);
    let found = lines::check_with(path, &long, &[(path, 411)]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("lower or remove its number"), "{found:?}");
}

#[test]
fn what_must_be_absent_is_found_only_where_it_must_be_absent() {
    let text = format!("{DOC}use tokio::net::TcpStream;\n");
    assert_eq!(complaints("crates/cluster/src/lib.rs", &text).len(), 1);
    assert!(complaints("crates/api/src/lib.rs", &text).is_empty());
    assert!(complaints("crates/cluster/tests/it.rs", &text).is_empty());
    let files = format!("{DOC}use std::fs;\n");
    assert_eq!(
        complaints("crates/storage/src/rows/mod.rs", &files).len(),
        1
    );
    assert!(complaints("crates/storage/src/disk/mod.rs", &files).is_empty());
    let comment = format!("{DOC}// not std::fs here\n");
    assert!(complaints("crates/model/src/lib.rs", &comment).is_empty());
}

#[test]
fn edges_to_the_right_and_confined_crates_are_found() {
    let metadata = br#"{"packages": [
        {"name": "archipel-base", "dependencies": [{"name": "archipel-model", "kind": null}]},
        {"name": "archipel-model", "dependencies": [
            {"name": "archipel-base", "kind": null},
            {"name": "hyper", "kind": null},
            {"name": "clap", "kind": "dev"}]},
        {"name": "archipel", "dependencies": [
            {"name": "hyper", "kind": null},
            {"name": "quick-xml", "kind": null}]},
        {"name": "xtask", "dependencies": [{"name": "clap", "kind": null}]}
    ]}"#;
    let found = edges::check(&edges::parse(metadata).unwrap());
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("archipel-base uses archipel-model"));
    assert!(found[1].starts_with("archipel-model uses hyper"));
    assert!(found[2].starts_with("archipel uses quick-xml"));
}

#[test]
fn a_map_and_a_page_of_operations_with_gaps_are_found() {
    let read = |path: &str| {
        Ok(match path {
            "Cargo.toml" => "[workspace]\nmembers = [\"crates/base\", \"crates/api\"]\n".into(),
            "ARCHITECTURE.md" => "`crates/base`\n".to_owned(),
            "crates/api/src/s3/route.rs" => {
                "        PutObject => PutObject,\n        GetObject => GetObject,\n".into()
            }
            "docs/s3.md" => "| GetObject | yes |\n".into(),
            _ => String::new(),
        })
    };
    let found = map::check(&read).unwrap();
    assert_eq!(
        found,
        [
            "ARCHITECTURE.md does not name `crates/api`",
            "docs/s3.md does not name PutObject"
        ]
    );
}
