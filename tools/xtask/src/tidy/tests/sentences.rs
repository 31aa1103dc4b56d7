//! Sentences that begin like a question and are none are found.

use super::files;
use crate::tidy::sentences::{check, check_file};

const NONE: [&str; 0] = [];
const SOURCE: &str = "crates/model/src/lib.rs";

/// Returns the line and the word of each complaint.
fn found(path: &str, text: &str) -> Vec<String> {
    let complaints = check_file(path, text).into_iter();
    let short = complaints.map(|complaint| {
        let rest = complaint.strip_prefix(&format!("{path}:")).unwrap();
        rest.split_once("\": ").unwrap().0.to_owned()
    });
    short.collect()
}

#[test]
fn a_sentence_that_begins_with_a_word_of_a_question_is_found_with_its_line() {
    let complaints = check_file(SOURCE, "//! The crate. What\n//! it is.\n");
    let expected = "crates/model/src/lib.rs:1: \"What\": begin the sentence with its subject, \
                    or end it with a question mark";
    assert_eq!(complaints, [expected]);
}

#[test]
fn comments_of_all_kinds_are_looked_at() {
    let text = "//! What it holds.\n\n/// The name. Who has it\n/// knows it. Whether it counts.\n\
                struct Name(u8); // What it is\n\n// (Who) asks\n// ... What\n";
    let expected = [
        "1: \"What",
        "3: \"Who",
        "4: \"Whether",
        "5: \"What",
        "7: \"Who",
        "8: \"What",
    ];
    assert_eq!(found(SOURCE, text), expected);
}

#[test]
fn items_of_lists_and_cells_of_tables_begin_sentences() {
    let text = "- It is\n- What it is\n  1. *Who* it is\n> Whether\n\n\
                | What | of what |\n|---|---|\n| **Whether** it is | x. What |\n";
    let expected = [
        "2: \"What",
        "3: \"Who",
        "4: \"Whether",
        "6: \"What",
        "8: \"Whether",
        "8: \"What",
    ];
    assert_eq!(found("docs/a.md", text), expected);
    assert_eq!(found("CHANGELOG.md", text), expected);
}

#[test]
fn comments_and_docstrings_of_python_are_looked_at() {
    let text =
        "def f():\n    \"\"\"What it does.\n\n    Who asks.\"\"\"\n    g(\"What\")  # Whether\n";
    let expected = ["2: \"What", "4: \"Who", "5: \"Whether"];
    assert_eq!(found("tests/s3/a.py", text), expected);
}

#[test]
fn questions_and_other_words_are_left_alone() {
    let text = "What is it? Who\nmay ask? (\"Whether so?\")\n\n| What? |\n\n\
                Whatever comes, it is so. `What` is a name. A client asks\nWho it is.\n";
    assert_eq!(found("docs/a.md", text), NONE);
}

#[test]
fn headings_code_and_strings_are_left_alone() {
    let text = "# What it does\n\n    What is code\n    Who is, too\n\n```\nWhat\n```\nIt ends.\n";
    assert_eq!(found("docs/a.md", text), NONE);
    let source =
        "let s = \"What. // Who\";\n/// # What\n/// ```\n/// Whether\n/// ```\nfn f() {}\n";
    assert_eq!(found(SOURCE, source), NONE);
}

#[test]
fn documents_and_sources_are_looked_at_and_other_files_are_not() {
    let text = "What it is.\n";
    let all = files(&[("docs/a.txt", text), ("README", text), ("README.md", text)]);
    assert_eq!(check(&all).len(), 1);
}
