//! Documents that name what is not there are found.

use super::files;
use crate::tidy::docs::check;

const NONE: [&str; 0] = [];

const PAGE: (&str, &str) = (
    "docs/internals/data-format.md",
    "- `format`: the version of the\n  whole format. It is 3. Any other is refused.\n",
);
const BOOT: (&str, &str) = (
    "crates/storage/src/store/boot.rs",
    "pub const FORMAT: u64 = 3;\n",
);

#[test]
fn paths_links_and_headings_that_exist_give_no_complaint() {
    let text = "`crates/storage/src/store/`, `store/boot.rs`, `tests/*.py`, `crates/storage and`\n\
                [a](internals/data-format.md) [b](https://example.org/x.md) [c](#a-title-1-2)\n\
                [d](../README.md)\n```\n`docs/fenced.md` [e](gone.md)\n```\n# A `title`: 1-2\n";
    let readme = ("README.md", "");
    let found = check(&files(&[PAGE, BOOT, readme, ("docs/a.md", text)]));
    assert_eq!(found, NONE);
}

#[test]
fn paths_links_and_headings_that_do_not_exist_are_found() {
    let text = "`tests/cost.rs` `sync/cost.rs` [a](gone.md) [b](internals/data-format.md#no)\n";
    let found = check(&files(&[PAGE, BOOT, ("docs/a.md", text)]));
    let expected = [
        "docs/a.md names tests/cost.rs, which does not exist",
        "docs/a.md names sync/cost.rs, which does not exist",
        "docs/a.md links to gone.md, which does not exist",
        "docs/a.md links to internals/data-format.md#no: \
         docs/internals/data-format.md has no such heading",
    ];
    assert_eq!(found, expected);
}

#[test]
fn files_that_are_no_documents_may_name_anything() {
    let changelog = ("CHANGELOG.md", "`crates/gone/src/lib.rs`\n");
    assert_eq!(check(&files(&[PAGE, BOOT, changelog])), NONE);
}

#[test]
fn paths_in_the_comment_of_a_module_are_looked_for_in_its_crate_too() {
    let text = "//! `docs/internals/data-format.md`, `tests/engines/main.rs`, `store/boot.rs`\n\
                //! `tests/engines.rs`, `tests/it.rs`, `store/gone.rs`\n\
                // `tests/gone.rs`\nfn f() {}\n";
    let source = ("crates/storage/src/lib.rs", text);
    let tests = ("crates/storage/tests/engines/main.rs", "");
    let others = ("crates/model/tests/it.rs", "");
    let found = check(&files(&[PAGE, BOOT, source, tests, others]));
    let expected = [
        "crates/storage/src/lib.rs names tests/engines.rs, which does not exist",
        "crates/storage/src/lib.rs names tests/it.rs, which does not exist",
        "crates/storage/src/lib.rs names store/gone.rs, which does not exist",
    ];
    assert_eq!(found, expected);
}

#[test]
fn another_format_number_and_a_missing_one_are_found() {
    let newer = (BOOT.0, "pub const FORMAT: u64 = 4;\n");
    let found = check(&files(&[PAGE, newer]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("states format 3; it is 4"), "{found:?}");
    assert_eq!(check(&files(&[PAGE])).len(), 1);
    assert_eq!(check(&files(&[(PAGE.0, "no number"), BOOT])).len(), 1);
}
