//! Folders, markers, snapshots and conversion of the engines with files.

use std::fs;
use std::path::Path;

use archipel_storage::Error;
use archipel_storage::engine::convert::{Converted, Step, convert};
use archipel_storage::engine::lmdb::LmdbEngine;
use archipel_storage::engine::{
    Direction, Durability, Engine, EngineKind, EngineOptions, Tree, kind_of, open, snapshot,
};

use crate::fixture::{ALL, Fixture, entries, error_of, get, keys, put};

type Contents = Vec<Vec<(Vec<u8>, Vec<u8>)>>;

fn contents(engine: &dyn Engine) -> Contents {
    let txn = engine.read().unwrap();
    let tree = |tree| entries(&*txn, tree, ALL, Direction::Ascending);
    Tree::ALL.map(tree).to_vec()
}

fn opening(kind: EngineKind, folder: &Path) -> Result<(), Error> {
    open(kind, folder, &EngineOptions::default()).map(|_| ())
}

fn converting(folder: &Path, to: EngineKind) -> Result<Converted, Error> {
    convert(folder, to, &EngineOptions::default(), &mut |_| {})
}

/// Fills an engine with entries of several trees, for more than one batch of a copy.
fn fill(engine: &dyn Engine) -> Contents {
    let mut txn = engine.write().unwrap();
    for i in 0..6000_u32 {
        txn.put(Tree::Rows, &i.to_be_bytes(), &i.to_le_bytes())
            .unwrap();
    }
    txn.put(Tree::Payloads, b"large", &vec![7; 5 << 20])
        .unwrap();
    txn.put(Tree::Derived, &[0xff; 1200], b"").unwrap();
    txn.commit(Durability::Buffered).unwrap();
    contents(engine)
}

#[test]
fn engine_kinds_parse_and_print_their_names() {
    for kind in EngineKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    let error = "rocksdb".parse::<EngineKind>().unwrap_err().to_string();
    for kind in EngineKind::ALL {
        assert!(error.contains(kind.name()), "{error}");
    }
}

pub fn a_folder_remembers_its_kind(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    assert_eq!(kind_of(folder).unwrap(), None);
    put(&*fixture.open(), Tree::Rows, b"a", b"1");
    assert_eq!(kind_of(folder).unwrap(), Some(kind));
    for other in EngineKind::ALL.into_iter().filter(|&k| k != kind) {
        let text = error_of(opening(other, folder)).to_string();
        assert!(
            text.contains("convert") && text.contains(kind.name()),
            "{text}"
        );
    }
    assert_eq!(keys(&*fixture.open(), Tree::Rows), [b"a"]);
}

pub fn a_later_format_is_refused_with_advice(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    drop(fixture.open());
    let marker = folder.join("engine.json");
    let text = fs::read_to_string(&marker).unwrap();
    fs::write(&marker, text.replace("\"format\":3", "\"format\":99")).unwrap();
    match error_of(opening(kind, folder)) {
        Error::Refused(text) => assert!(text.contains("99") && text.contains("upgrade"), "{text}"),
        other => panic!("{other}"),
    }
}

/// LMDB had no journal in format 1.
#[test]
fn an_engine_without_a_journal_gets_one() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("engine.json");
    put(
        &LmdbEngine::open(folder.path(), &EngineOptions::default()).unwrap(),
        Tree::Rows,
        b"a",
        b"1",
    );
    fs::write(&marker, r#"{"engine":"lmdb","format":1}"#).unwrap();
    let engine = open(EngineKind::Lmdb, folder.path(), &EngineOptions::default()).unwrap();
    assert_eq!(get(&*engine, Tree::Rows, b"a").as_deref(), Some(&b"1"[..]));
    assert!(folder.path().join("lmdb/journal").is_dir());
    // An older release would not read the journal, so it must refuse the folder.
    assert!(
        fs::read_to_string(&marker)
            .unwrap()
            .contains("\"format\":3")
    );
}

pub fn a_folder_with_a_damaged_or_missing_marker_is_refused(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    drop(fixture.open());
    let marker = folder.join("engine.json");
    fs::write(&marker, "{\"eng").unwrap();
    assert!(matches!(error_of(opening(kind, folder)), Error::Damaged(_)));
    fs::remove_file(&marker).unwrap();
    assert!(matches!(error_of(opening(kind, folder)), Error::Damaged(_)));
}

pub fn opening_twice_is_refused(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let engine = fixture.open();
    match error_of(opening(kind, folder)) {
        Error::Refused(text) => assert!(text.contains("already open"), "{text}"),
        other => panic!("{other}"),
    }
    put(&*engine, Tree::Rows, b"a", b"1");
    drop(engine);
    opening(kind, folder).unwrap();
}

/// A process that ended while it copied leaves such a folder.
pub fn an_incomplete_copy_is_not_opened(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let target = tempfile::tempdir().unwrap();
    let engine = fixture.open();
    fill(&*engine);
    engine.snapshot_to(target.path()).unwrap();
    fs::remove_file(target.path().join("engine.json")).unwrap();
    let error = error_of(opening(kind, target.path()));
    assert!(matches!(error, Error::Damaged(_)), "{error}");
    // The marker comes last, so such a folder lacks it and contains nothing newer.
    drop(engine);
    opening(kind, folder).unwrap();
}

pub fn conversion_to_every_other_engine_and_back_keeps_all_entries(fixture: &Fixture) {
    let Some((first, folder)) = fixture.files() else {
        return;
    };
    let engine = fixture.open();
    let expected = fill(&*engine);
    drop(engine);
    let mut now = first;
    let others = EngineKind::ALL.into_iter().filter(|&kind| kind != first);
    for to in others.chain([first]) {
        let (mut copying, mut comparing) = (Vec::new(), Vec::new());
        let done = convert(
            folder,
            to,
            &EngineOptions::default(),
            &mut |step| match step {
                Step::Copying(copied) => copying.push(copied),
                Step::Comparing { done, all } => comparing.push((done, all)),
            },
        )
        .unwrap();
        assert_eq!((done.from, done.copied.entries), (now, 6002));
        assert!(copying.len() > 2 && copying.is_sorted_by_key(|c| c.entries));
        assert_eq!(copying.last(), Some(&done.copied));
        assert!(comparing.len() > 2 && comparing.is_sorted());
        assert_eq!(comparing.last(), Some(&(2 * 6002, 2 * 6002)));
        assert_eq!(kind_of(folder).unwrap(), Some(to));
        let engine = open(to, folder, &EngineOptions::default()).unwrap();
        assert!(contents(&*engine) == expected, "{now} to {to}");
        fs::remove_dir_all(&done.old_files).unwrap();
        now = to;
    }
}

pub fn a_refused_conversion_changes_nothing(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let refused = |to| {
        let error = error_of(converting(folder, to));
        assert!(matches!(error, Error::Refused(_)), "{error}");
    };
    let other = EngineKind::ALL.into_iter().find(|&k| k != kind).unwrap();
    // There is no metadata.
    refused(other);
    // The metadata are open.
    let engine = fixture.open();
    put(&*engine, Tree::Rows, b"a", b"1");
    refused(other);
    drop(engine);
    // The metadata are of this kind already.
    refused(kind);
    // Files of the target engine are in the way.
    let way = folder.join(other.name());
    fs::create_dir_all(&way).unwrap();
    fs::write(way.join("file"), b"of another program").unwrap();
    refused(other);
    assert_eq!(fs::read(way.join("file")).unwrap(), b"of another program");
    assert_eq!(keys(&*fixture.open(), Tree::Rows), [b"a"]);
}

pub fn a_failed_conversion_leaves_no_remains(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let expected = fill(&*fixture.open());
    let other = EngineKind::ALL.into_iter().find(|&k| k != kind).unwrap();
    // The marker cannot be replaced, because its temporary file is a folder.
    fs::create_dir(folder.join("engine.tmp")).unwrap();
    error_of(converting(folder, other));
    assert_eq!(kind_of(folder).unwrap(), Some(kind));
    assert!(!folder.join(other.name()).exists());
    fs::remove_dir(folder.join("engine.tmp")).unwrap();
    converting(folder, other).unwrap();
    let engine = open(other, folder, &EngineOptions::default()).unwrap();
    assert!(contents(&*engine) == expected);
}

pub fn an_interrupted_first_start_is_repeated(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let data = folder.join(kind.name());
    let marker = format!(r#"{{"engine":"{kind}","format":1,"complete":false}}"#);
    drop(fixture.open());
    // First half of the files, each cut; then no folder at all.
    for remains in [true, false] {
        fs::remove_dir_all(&data).unwrap();
        fs::write(folder.join("engine.json"), &marker).unwrap();
        if remains {
            fs::create_dir(&data).unwrap();
            for file in ["data.mdb", "metadata.sqlite", "version", "0.jnl"] {
                fs::write(data.join(file), b"half").unwrap();
            }
        }
        put(&*fixture.open(), Tree::Rows, b"a", b"1");
        assert_eq!(keys(&*fixture.open(), Tree::Rows), [b"a"]);
    }
}

pub fn restoring_a_snapshot_replaces_the_folder(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let (current, all) = (folder.join("metadata"), folder.join("snapshots"));
    let options = EngineOptions::default();
    let engine = open(kind, &current, &options).unwrap();
    put(&*engine, Tree::Rows, b"k", b"before");
    assert_eq!(snapshot::list(&all).unwrap(), []);
    let name = snapshot::name_at(1234);
    engine.snapshot_to(&all.join(&name)).unwrap();
    put(&*engine, Tree::Rows, b"k", b"after");
    drop(engine);
    let listed = snapshot::list(&all).unwrap();
    assert_eq!(
        (&listed[0].name, listed[0].made_ms, listed.len()),
        (&name, 1234, 1)
    );
    let kept = snapshot::beside(&current, "before");
    for wrong in [all.join("none"), folder.join("snapshots")] {
        assert!(snapshot::restore(&wrong, &current, &kept, &EngineOptions::default()).is_err());
    }
    snapshot::restore(&all.join(&name), &current, &kept, &EngineOptions::default()).unwrap();
    // Restore twice: a kept folder is never overwritten.
    assert!(
        snapshot::restore(&all.join(&name), &current, &kept, &EngineOptions::default()).is_err()
    );
    let value = |folder: &Path| get(&*open(kind, folder, &options).unwrap(), Tree::Rows, b"k");
    assert_eq!(value(&current).as_deref(), Some(&b"before"[..]));
    assert_eq!(value(&kept).as_deref(), Some(&b"after"[..]));
    // The snapshot itself is unchanged.
    assert_eq!(value(&all.join(&name)).as_deref(), Some(&b"before"[..]));
}
