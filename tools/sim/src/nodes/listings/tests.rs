//! The check notices each kind of wrong listing, and accepts right ones.

use super::*;
use crate::nodes::history::End;

const DONE: End = End::Answered(Reply::Done);

fn write(history: &mut History, key: &str, value: Option<u32>, end: End) {
    let index = history.begin(0, key, Call::Write(value));
    history.end(key, index, end);
}

fn list(history: &mut History, entries: &[(&str, Option<u32>)]) {
    let between = (history.tick(), history.tick());
    let entry = |(name, value): &(&str, Option<u32>)| (name.to_string(), *value);
    history.pages.push(Page {
        between,
        prefix: String::new(),
        delimiter: Some("/".into()),
        after: None,
        truncated: false,
        entries: entries.iter().map(entry).collect(),
    });
}

fn history() -> History {
    let mut history = History::default();
    write(&mut history, "a", Some(1), DONE);
    write(&mut history, "a", Some(2), DONE);
    write(&mut history, "b/1", Some(3), DONE);
    write(&mut history, "b/2", Some(4), DONE);
    write(&mut history, "b/2", None, DONE);
    write(&mut history, "c", Some(5), DONE);
    write(&mut history, "c", None, DONE);
    history
}

#[test]
fn acknowledged_objects_must_be_listed() {
    let mut history = history();
    list(&mut history, &[("a", Some(2)), ("b/", None)]);
    assert_eq!(fault(&history), None);
}

#[test]
fn wrong_listings_are_refused() {
    let wrong: [&[(&str, Option<u32>)]; 6] = [
        &[("b/", None)],
        &[("a", Some(2))],
        &[("a", Some(1)), ("b/", None)],
        &[("a", Some(2)), ("b/", None), ("c", Some(5))],
        &[("b/", None), ("a", Some(2))],
        &[("a", Some(2)), ("b/", None), ("z", Some(9))],
    ];
    for entries in wrong {
        let mut history = history();
        list(&mut history, entries);
        assert!(fault(&history).is_some(), "{entries:?}");
    }
}

#[test]
fn objects_with_an_unknown_result_may_be_listed_or_not() {
    for entries in [&[("a", Some(2))][..], &[("a", Some(7))], &[]] {
        let mut history = History::default();
        write(&mut history, "a", Some(2), DONE);
        write(&mut history, "a", None, End::Unknown);
        write(&mut history, "a", Some(7), End::Unknown);
        list(&mut history, entries);
        assert_eq!(fault(&history), None, "{entries:?}");
    }
}

#[test]
fn writes_without_effect_are_not_listed_afterwards() {
    let mut history = History::default();
    write(&mut history, "a", Some(2), End::Void);
    list(&mut history, &[("a", Some(2))]);
    assert!(fault(&history).is_some());
}
