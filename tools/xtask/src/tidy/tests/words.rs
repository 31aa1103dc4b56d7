//! Retired words are found in prose, and left alone in code and where they are not retired.

use crate::tidy::words::{Retired, check_file};

const NONE: [&str; 0] = [];

const TABLE: &[Retired] = &[
    Retired {
        forms: &["mend", "mended"],
        instead: "repair",
        within: &["docs/", "crates/"],
    },
    Retired {
        forms: &["put aside"],
        instead: "quarantined",
        within: &[""],
    },
];

fn found(path: &str, text: &str) -> Vec<String> {
    check_file(path, text, TABLE)
}

#[test]
fn a_retired_word_is_found_with_its_line_and_its_replacement() {
    let complaints = found("docs/a.md", "one\nIt is Mended.\n");
    assert_eq!(complaints, ["docs/a.md:2: \"mended\": say repair"]);
}

#[test]
fn a_phrase_is_found_across_lines_but_not_across_sentences() {
    assert_eq!(found("docs/a.md", "it was put\naside\n").len(), 1);
    assert_eq!(found("docs/a.md", "it was put. Aside\n").len(), 0);
    let comment = "/// It was put\n/// aside.\nfn f() {}\n";
    assert_eq!(found("tools/sim/src/lib.rs", comment).len(), 1);
}

#[test]
fn parts_of_words_names_in_back_quotes_and_links_are_left_alone() {
    let text = "amend mended_rows `mend` [text](mend.md)\n```\nmend\n```\n";
    assert_eq!(found("docs/a.md", text), NONE);
}

#[test]
fn comments_and_strings_count_and_code_does_not() {
    let source = "fn mend() {}\n// mend this\nlet s = \"mend it\";\n";
    let complaints = found("crates/model/src/lib.rs", source);
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    assert!(complaints[0].starts_with("crates/model/src/lib.rs:2:"));
    assert!(complaints[1].starts_with("crates/model/src/lib.rs:3:"));
}

#[test]
fn a_word_is_left_alone_where_it_is_not_retired() {
    assert_eq!(found("tools/sim/src/lib.rs", "// mend\n"), NONE);
    assert_eq!(found("README.md", "mend\n"), NONE);
    assert_eq!(found("Cargo.toml", "# put aside\n"), NONE);
}

#[test]
fn changelog_is_read() {
    assert_eq!(found("CHANGELOG.md", "put aside\n").len(), 1);
}

#[test]
fn word_alone_in_double_quotes_is_a_name() {
    let source = "const METRIC: &str = \"mended\";\n";
    assert_eq!(found("crates/model/src/lib.rs", source), NONE);
}

#[test]
fn comments_and_docstrings_of_python_tests_count_and_code_does_not() {
    let source = "def f():\n    \"\"\"It is put\n    aside.\"\"\"\n    g(\"put aside # put aside\")  # put aside\n";
    let complaints = found("tests/faults/run.py", source);
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    assert!(complaints[0].starts_with("tests/faults/run.py:2:"));
    assert!(complaints[1].starts_with("tests/faults/run.py:4:"));
    assert_eq!(found("sdk/python/a.py", "# put aside\n"), NONE);
    let assigned = "TEXT = \"\"\"\nput aside\n\"\"\"\n";
    assert_eq!(found("tests/admin/a.py", assigned), NONE);
}
