//! Cycles of more than three modules are found, however the modules name one another.

use super::files;
use crate::tidy::cycle::check_with;

const NONE: [&str; 0] = [];
const ROOT: &str = "mod a;\nmod b;\nmod c;\nmod d;\npub use a::{First, Second};\n";

/// Returns the complaints about a crate whose four modules hold these texts.
fn complaints(texts: [&str; 4], allowed: &[(&str, usize)]) -> Vec<String> {
    let [a, b, c, d] = texts;
    let all = files(&[
        ("crates/x/src/lib.rs", ROOT),
        ("crates/x/src/a.rs", a),
        ("crates/x/src/b/mod.rs", b),
        ("crates/x/src/c.rs", ""),
        ("crates/x/src/c/inner.rs", c),
        ("crates/x/src/d.rs", d),
    ]);
    check_with(&all, allowed)
}

/// a uses b and c, b uses c, c uses d, d uses a.
const CYCLE: [&str; 4] = [
    "use super::{b::{B, D}, c};\n",
    "use crate::{error, c::C};\n",
    "fn f() { super::super::d::g() }\n",
    "use crate::First;\n",
];

#[test]
fn a_cycle_of_four_is_found_and_named() {
    let found = complaints(CYCLE, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("crates/x: 4 modules"), "{found:?}");
    assert!(found[0].contains(": a, b, c, d;"), "{found:?}");
}

#[test]
fn a_cycle_of_three_and_a_chain_are_allowed() {
    let [a, b, c, _] = CYCLE;
    assert_eq!(complaints([a, b, c, ""], &[]), NONE);
    let three = ["use crate::b;\n", "use crate::c;\n", "use crate::a;\n", a];
    assert_eq!(complaints(three, &[]), NONE);
}

#[test]
fn comments_strings_tests_and_inner_modules_are_no_imports() {
    let [a, b, c, _] = CYCLE;
    for last in [
        "// use crate::a;\n",
        "let s = \"crate::a\";\n",
        "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
        "use super::super::a;\n",
        "use self::a::A;\n",
    ] {
        assert_eq!(complaints([a, b, c, last], &[]), NONE, "{last}");
    }
}

#[test]
fn an_allowance_holds_and_must_be_lowered_with_the_cycle() {
    assert_eq!(complaints(CYCLE, &[("x", 4)]), NONE);
    let found = complaints(CYCLE, &[("x", 5)]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("lower or remove its number"), "{found:?}");
}
