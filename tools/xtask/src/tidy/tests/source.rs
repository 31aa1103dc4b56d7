//! Code, prose and product code are told from one another, and lines stay where they are.

use crate::tidy::source::{code, comments, modules, product_code, prose};

const SOURCE: &str = r##"//! a doc
fn f<'a>(x: &'a str) -> char { /* in /* nested */ side */ '"' }
let s = "a \" quote"; let r = r#"raw " one"#; let c = '\''; // tail
"##;

#[test]
fn code_has_no_comments_and_no_strings() {
    let found = code(SOURCE);
    assert_eq!(found.lines().count(), SOURCE.lines().count());
    for word in ["doc", "nested", "side", "quote", "raw", "one", "tail"] {
        assert!(!found.contains(word), "{word}: {found}");
    }
    let kept = "fn f<'a>(x: &'a str) -> char {";
    assert!(found.contains(kept), "{found}");
    assert!(found.contains(r"let c = '\''"), "{found}");
}

#[test]
fn prose_has_comments_and_strings_only() {
    let found = prose(SOURCE);
    for word in ["doc", "nested", "side", "quote", "raw", "one", "tail"] {
        assert!(found.contains(word), "{word}: {found}");
    }
    assert!(!found.contains("let") && !found.contains("char"), "{found}");
}

#[test]
fn comments_have_no_strings() {
    let found = comments(SOURCE);
    assert_eq!(found.lines().count(), SOURCE.lines().count());
    for kept in ["doc", "nested", "side", "tail"] {
        assert!(found.contains(kept), "{kept}: {found}");
    }
    for gone in ["quote", "raw", "one", "let"] {
        assert!(!found.contains(gone), "{gone}: {found}");
    }
}

#[test]
fn product_code_has_no_items_of_tests() {
    let source = "use a::b;\n#[cfg(test)]\nmod tests {\n    fn g() { inner() }\n}\nfn h() {}\n\
                  #[cfg(test)]\nuse x::y;\nfn last() {}\n";
    let found = product_code(source);
    assert_eq!(found.lines().count(), source.lines().count());
    for gone in ["inner", "x::y"] {
        assert!(!found.contains(gone), "{found}");
    }
    for kept in ["a::b", "fn h()", "fn last()"] {
        assert!(found.contains(kept), "{found}");
    }
}

#[test]
fn modules_are_those_that_product_code_declares() {
    let source = "mod a;\npub mod b {\n    mod inner;\n}\npub(crate) mod c;\n// mod d;\n\
                  #[cfg(test)]\nmod tests;\nlet module = 1;\n";
    assert_eq!(modules(source), ["a", "b", "c"]);
}
