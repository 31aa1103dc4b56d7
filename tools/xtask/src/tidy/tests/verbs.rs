//! Comments of functions that begin with no verb are found.

use super::files;
use crate::tidy::verbs::{check, check_file};

const NONE: [&str; 0] = [];
const PATH: &str = "crates/model/src/objects.rs";

#[test]
fn comments_that_begin_with_no_verb_are_found() {
    for (comment, word) in [
        ("The bucket.", "The"),
        ("`GetBucketAcl`.", "`GetBucketAcl`."),
        ("`limit` is in bytes.", "`limit`"),
        ("Return the bucket.", "Return"),
        ("returns the bucket.", "returns"),
        ("As [`first`].", "As"),
        ("ListObjects.", "ListObjects."),
        ("", ""),
    ] {
        let source = format!("use x::y;\n\n/// {comment}\n/// Returns it.\npub fn of() {{}}\n");
        let found = check_file(PATH, &source);
        let begin = format!("{PATH}:3: \"{word}\": ");
        assert_eq!(found.len(), 1, "{comment}: {found:?}");
        assert!(found[0].starts_with(&begin), "{found:?}");
    }
}

#[test]
fn every_kind_of_function_is_looked_at() {
    for function in [
        "fn of();",
        "pub fn of() {}",
        "pub(crate) async fn of() {}",
        "pub(in crate::upkeep) const unsafe fn of() {}",
        "pub extern \"C\" fn of() {}",
        "#[must_use]\nfn of() {}",
        "#[utoipa::path(\n    get, path = \"/v1/of\",\n    params((\"id\" = String, Path)),\n)]\nfn of() {}",
        "// Why it is so.\n#[boxed]\nfn of() {}",
    ] {
        let begun =
            |word: &str| check_file(PATH, &format!("    /// {word} a bucket.\n{function}\n"));
        assert_eq!(begun("Of").len(), 1, "{function}");
        assert_eq!(begun("Makes"), NONE, "{function}");
    }
}

#[test]
fn verbs_and_comments_of_other_items_are_left_alone() {
    let source = "/// The bucket.\npub struct Bucket {\n    /// The name.\n    name: String,\n}\n\n\
                  /// The limit.\nconst LIMIT: fn() = of;\n\nfn of() {}\n\n\
                  /// Asks, and waits.\nfn ask() {}\n\n/// Re-reads it.\nfn read() {}\n";
    assert_eq!(check_file(PATH, source), NONE);
}

#[test]
fn tests_are_left_alone() {
    let source = "/// The bucket.\nfn bucket() {}\n";
    let paths = [
        "crates/model/src/tests/shards.rs",
        "crates/model/src/quota/tests.rs",
        "tools/sim/tests/model.rs",
        "docs/example.rs",
    ];
    assert_eq!(check(&files(&paths.map(|path| (path, source)))), NONE);
    assert_eq!(check(&files(&[(PATH, source)])).len(), 1);
    let inner = "/// A node.\n#[test]\nfn one() {}\n\n/// A node.\n#[tokio::test]\nasync fn two() {}\n\n\
                 #[cfg(test)]\nmod tests {\n    /// A node.\n    fn three() {}\n}\n\n\
                 /// A node.\n#[cfg(test)]\nfn four() {}\n\nfn five() {}\n";
    assert_eq!(check_file(PATH, inner), NONE);
}
