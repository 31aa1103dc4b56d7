//! Transcripts: what a listing asks the replicas, what they answer, and the merged page, as text.
//!
//! The files are in `testdata/merge`. A changed behaviour is a difference there:
//! `REWRITE=1 cargo test -p archipel-cluster transcripts` rewrites the files.
//!
//! `rows replica=0`, followed by lines such as `a/1 live 5` or `a/2 deleted 7`, says what a replica
//! holds. `list` lists them: `prefix` and `limit` as in S3, `folders` with the delimiter `/`,
//! `answers=(2,0)` for the replicas that answer, in that order (default: all).

use std::collections::BTreeMap;
use std::fmt::Write;

use archipel_storage::{ListEntry, ListQuery, ListStart, Listing};
use bytes::Bytes;
use datadriven::TestCase;

use super::{HERE, Replica, Version};
use crate::merge::{ListMerge, ListOutput};
use crate::register::Quorums;

#[test]
fn transcripts() {
    datadriven::walk("testdata/merge", |file| {
        let mut rows = vec![BTreeMap::new(); 3];
        file.run(|case| {
            let text = match case.directive.as_str() {
                "rows" => hold(&mut rows, case),
                "list" => list(&rows, case),
                other => panic!("unknown command: {other}"),
            };
            case.expect_empty().unwrap();
            text
        });
    });
}

fn hold(rows: &mut [BTreeMap<Bytes, Version>], case: &mut TestCase) -> String {
    let replica: usize = case.take_arg("replica").unwrap();
    rows[replica] = case
        .input
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [key, state, time] = words[..] else {
                panic!("not a row: {line}");
            };
            let key = Bytes::copy_from_slice(key.as_bytes());
            (key, (time.parse().unwrap(), state == "live"))
        })
        .collect();
    "ok\n".into()
}

fn list(rows: &[BTreeMap<Bytes, Version>], case: &mut TestCase) -> String {
    let prefix: Option<String> = case.try_take_arg("prefix").unwrap();
    let folders = case.take_flag("folders").unwrap();
    let query = ListQuery {
        delimiter: folders.then(|| Bytes::from_static(b"/")),
        limit: case.try_take_arg("limit").unwrap().unwrap_or(1000),
        ..ListQuery::new(HERE, Bytes::from(prefix.unwrap_or_default()))
    };
    let answering = case.try_take_args("answers").unwrap();
    let answering: Vec<usize> = answering.unwrap_or_else(|| (0..rows.len()).collect());
    let replicas: Vec<Replica> = rows.iter().map(Replica::new).collect();

    let mut out = String::new();
    let quorums = Quorums::majority_of(replicas.len());
    let (mut merge, mut outputs) = ListMerge::new(quorums, query);
    let mut open = Vec::new();
    loop {
        for output in outputs {
            match output {
                ListOutput::Ask {
                    replica,
                    round,
                    query,
                } => open.push((round, replica, query)),
                ListOutput::Done { listing, unsettled } => {
                    writeln!(out, "page: {}", listing_text(&listing)).unwrap();
                    if !unsettled.is_empty() {
                        let keys = unsettled.iter().map(|key| String::from_utf8_lossy(key));
                        writeln!(out, "unsettled: {}", keys.collect::<Vec<_>>().join(" ")).unwrap();
                    }
                    return out;
                }
                ListOutput::Failed => {
                    out.push_str("too few replicas answer\n");
                    return out;
                }
            }
        }
        // Rounds in order, and in each round the replicas as the command says.
        let place = |replica: &usize| answering.iter().position(|one| one == replica);
        open.sort_by_key(|(round, replica, _)| (*round, place(replica).unwrap_or(usize::MAX)));
        let (round, replica, query) = open.remove(0);
        outputs = if place(&replica).is_some() {
            let page = replicas[replica].list(&query);
            let (asked, told) = (query_text(&query), listing_text(&page.listing));
            writeln!(out, "round {round}, replica {replica}, {asked}: {told}").unwrap();
            merge.on_page(replica, round, page)
        } else {
            writeln!(out, "round {round}, replica {replica}: no answer").unwrap();
            merge.on_failure(replica, round)
        };
    }
}

fn query_text(query: &ListQuery) -> String {
    let prefix = String::from_utf8_lossy(&query.prefix);
    let mut text = format!("\"{prefix}\" {}", start_text(&query.start));
    if query.delimiter.is_none() {
        text.push_str(" row by row");
    }
    text
}

fn start_text(start: &ListStart) -> String {
    let text = |key: &Bytes| String::from_utf8_lossy(key).into_owned();
    match start {
        ListStart::At(key) if key.is_empty() => "from the start".into(),
        ListStart::At(key) => format!("from \"{}\"", text(key)),
        ListStart::After(key) => format!("after \"{}\"", text(key)),
        ListStart::AfterPrefix(prefix) => format!("after prefix \"{}\"", text(prefix)),
    }
}

fn listing_text(page: &Listing) -> String {
    let mut parts: Vec<String> = Vec::new();
    for entry in &page.entries {
        parts.push(match entry {
            ListEntry::Prefix(prefix) => String::from_utf8_lossy(prefix).into_owned(),
            ListEntry::Row { key, metadata } => {
                let key = String::from_utf8_lossy(key);
                let time = metadata.stamp.millis();
                match metadata.metadata {
                    Some(_) => format!("{key} ({time})"),
                    None => format!("{key} (deleted {time})"),
                }
            }
        });
    }
    if parts.is_empty() {
        parts.push("nothing".into());
    }
    if let Some(next) = &page.next {
        parts.push(format!("more {}", start_text(next)));
    }
    parts.join(", ")
}
