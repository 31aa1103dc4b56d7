//! Copies that fail, restores that are interrupted, and copies of an LMDB whose values do not fit into its map.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use archipel_storage::Error;
use archipel_storage::engine::convert::convert;
use archipel_storage::engine::{
    Direction, Durability, Engine, EngineKind, EngineOptions, KeyRange, ReadTxn, Tree, Visitor,
    open, snapshot,
};

use crate::fixture::{ALL, Fixture, entries, error_of, get, keys, put};

/// A source that can be read in part.
struct Unreadable;

impl ReadTxn for Unreadable {
    fn get(&self, _: Tree, _: &[u8]) -> Result<Option<Cow<'_, [u8]>>, Error> {
        Ok(None)
    }

    fn scan(
        &self,
        _: Tree,
        _: KeyRange<'_>,
        _: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<(), Error> {
        visit(b"key", b"value")?;
        Err(Error::Io("unreadable".into()))
    }
}

/// An incomplete copy is no snapshot, so nobody would see it.
pub fn a_failed_copy_leaves_nothing(fixture: &Fixture) {
    if fixture.files().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let engine = fixture.open();
    let error = error_of(engine.copy_to(&Unreadable, &copy));
    assert!(matches!(error, Error::Io(_)), "{error}");
    assert!(!copy.exists());
    // Other files stay.
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("file"), b"of another program").unwrap();
    error_of(engine.copy_to(&Unreadable, &copy));
    assert!(copy.join("file").exists());
    // The folder can be made, but nothing in it: the paths would be longer than the 4095 bytes of the system.
    let mut long = folder.path().to_path_buf();
    while long.as_os_str().len() < 3900 {
        long.push("a".repeat(100));
    }
    long.push("a".repeat(4089 - long.as_os_str().len()));
    error_of(engine.snapshot_to(&long));
    assert!(long.parent().unwrap().exists() && !long.exists());
}

/// An engine looks at the folder of its copy while it makes it, as another node may that shares the folder.
struct Watched<'a>(&'a Changed, Box<dyn ReadTxn + 'a>);

impl ReadTxn for Watched<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>, Error> {
        self.1.get(tree, key)
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<(), Error> {
        let store = self.0;
        snapshot::remove_remains(&store.snapshots, &store.current)?;
        assert_eq!(snapshot::list(&store.snapshots)?.len(), 1);
        self.1.scan(tree, range, direction, visit)
    }
}

pub fn a_copy_that_is_being_made_stays(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let store = Changed::new(kind, folder);
    let copy = store.snapshots.join(snapshot::name_at(5678));
    let engine = store.open(&store.current);
    let source = Watched(&store, engine.read().unwrap());
    engine.copy_to(&source, &copy).unwrap();
    assert_eq!(snapshot::list(&store.snapshots).unwrap().len(), 2);
    store.assert_value(&copy, "after");
}

/// The folders of a store that has changed since its snapshot.
pub struct Changed {
    pub kind: EngineKind,
    pub current: PathBuf,
    pub snapshots: PathBuf,
    pub snapshot: PathBuf,
    pub kept: PathBuf,
}

impl Changed {
    pub fn new(kind: EngineKind, folder: &Path) -> Changed {
        let (current, snapshots) = (folder.join("metadata"), folder.join("snapshots"));
        let changed = Changed {
            kind,
            snapshot: snapshots.join(snapshot::name_at(1234)),
            kept: snapshot::beside(&current, "before"),
            current,
            snapshots,
        };
        let engine = changed.open(&changed.current);
        put(&*engine, Tree::Rows, b"k", b"before");
        engine.snapshot_to(&changed.snapshot).unwrap();
        put(&*engine, Tree::Rows, b"k", b"after");
        changed
    }

    pub fn open(&self, folder: &Path) -> std::sync::Arc<dyn Engine> {
        open(self.kind, folder, &EngineOptions::default()).unwrap()
    }

    pub fn assert_value(&self, folder: &Path, expected: &str) {
        let value = get(&*self.open(folder), Tree::Rows, b"k").unwrap();
        assert_eq!(value, expected.as_bytes());
    }

    /// Goes as far as a restore of `source` that is interrupted between its two last steps. Returns its copy.
    pub fn restore_half(&self, source: &Path) -> PathBuf {
        let copy = snapshot::beside(&self.current, "restoring");
        self.open(source).snapshot_to(&copy).unwrap();
        fs::rename(&self.current, &self.kept).unwrap();
        copy
    }
}

pub fn an_interrupted_restore_can_be_repeated(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let store = Changed::new(kind, folder);
    // It was of another snapshot: the one that is named now counts.
    let copy = store.restore_half(&store.current);
    let options = EngineOptions::default();
    snapshot::restore(&store.snapshot, &store.current, &store.kept, &options).unwrap();
    assert!(!copy.exists());
    store.assert_value(&store.current, "before");
    store.assert_value(&store.kept, "after");
}

pub fn the_next_start_finishes_an_interrupted_restore(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let store = Changed::new(kind, folder);
    let copy = store.restore_half(&store.snapshot);
    // An empty folder holds no metadata.
    fs::create_dir(&store.current).unwrap();
    snapshot::remove_remains(&store.snapshots, &store.current).unwrap();
    store.assert_value(&store.current, "before");
    store.assert_value(&store.kept, "after");
    assert!(!copy.exists());
}

/// No folder can take the place of a link. A start must not try it again and again.
pub fn a_restore_that_fails_in_its_last_step_leaves_nothing(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let store = Changed::new(kind, folder);
    let empty = folder.join("empty");
    fs::remove_dir_all(&store.current).unwrap();
    fs::create_dir(&empty).unwrap();
    std::os::unix::fs::symlink(&empty, &store.current).unwrap();
    let options = EngineOptions::default();
    let restored = snapshot::restore(&store.snapshot, &store.current, &store.kept, &options);
    error_of(restored);
    assert!(!snapshot::beside(&store.current, "restoring").exists());
    snapshot::remove_remains(&store.snapshots, &store.current).unwrap();
    store.assert_value(&store.snapshot, "before");
}

pub fn remains_of_snapshots_and_restores_are_removed(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let store = Changed::new(kind, folder);
    let half = store.snapshots.join(snapshot::name_at(1));
    let restoring = snapshot::beside(&store.current, "restoring");
    // The last one may be a snapshot that an operator copies back.
    let foreign = ["notes", "snapshot-of-mine", "snapshot-2"];
    let foreign = foreign.map(|name| store.snapshots.join(name));
    for folder in [&half, &restoring].into_iter().chain(&foreign) {
        fs::create_dir_all(folder.join(kind.name())).unwrap();
        fs::write(folder.join("file"), b"half").unwrap();
    }
    fs::write(half.join("incomplete"), b"").unwrap();
    // It was interrupted after its marker was written.
    fs::copy(store.snapshot.join("engine.json"), half.join("engine.json")).unwrap();
    assert_eq!(snapshot::list(&store.snapshots).unwrap().len(), 1);
    snapshot::remove_remains(&store.snapshots, &store.current).unwrap();
    assert!(!half.exists() && !restoring.exists());
    assert!(foreign.iter().all(|folder| folder.join("file").exists()));
    store.assert_value(&store.current, "after");
    store.assert_value(&store.snapshot, "before");
    // There may be nothing to remove, nor to look at.
    snapshot::remove_remains(&store.snapshots, &store.current).unwrap();
    snapshot::remove_remains(&folder.join("none"), &folder.join("nothing")).unwrap();
}

const PAYLOADS: u32 = 4096;

/// Writes twice as much as the map may hold.
fn fill(engine: &dyn Engine) {
    for batch in 0..16 {
        let mut txn = engine.write().unwrap();
        for i in 0..PAYLOADS / 16 {
            let i = batch * (PAYLOADS / 16) + i;
            let value = [&i.to_be_bytes()[..], &[7; 4092]].concat();
            txn.put(Tree::Payloads, &i.to_be_bytes(), &value).unwrap();
        }
        txn.commit(Durability::Buffered).unwrap();
    }
}

fn assert_filled(engine: &dyn Engine) {
    assert!(!engine.is_nearly_full(0));
    let txn = engine.read().unwrap();
    let found = entries(&*txn, Tree::Payloads, ALL, Direction::Ascending);
    assert_eq!(found.len(), PAYLOADS as usize);
    for (key, value) in found {
        assert!(value.starts_with(&key) && value.len() == 4096);
    }
}

/// Long values are in segments, and not in the map. So they are in a copy.
#[test]
fn the_map_of_a_copy_need_not_hold_long_values() {
    let folder = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        map_bytes: Some(8 << 20),
        ..EngineOptions::default()
    };
    let [current, copy, kept] = ["metadata", "copy", "kept"].map(|name| folder.path().join(name));
    let open = |kind, folder: &Path| open(kind, folder, &options).unwrap();
    let engine = open(EngineKind::Lmdb, &current);
    fill(&*engine);
    engine.snapshot_to(&copy).unwrap();
    drop(engine);
    snapshot::restore(&copy, &current, &kept, &options).unwrap();
    assert_filled(&*open(EngineKind::Lmdb, &current));
    let other = folder.path().join("converted");
    fill(&*open(EngineKind::Sqlite, &other));
    convert(&other, EngineKind::Lmdb, &options, &mut |_| {}).unwrap();
    assert_filled(&*open(EngineKind::Lmdb, &other));
}

/// The pages of a copy may be filled less well than those of its source. So a copy may need more room than its source
/// may take.
#[test]
fn the_map_of_a_copy_has_no_limit() {
    let folder = tempfile::tempdir().unwrap();
    let limited = EngineOptions {
        map_bytes: Some(8 << 20),
        ..EngineOptions::default()
    };
    let [current, copy, large] = ["metadata", "copy", "large"].map(|name| folder.path().join(name));
    let options = EngineOptions::default();
    let source = open(EngineKind::Sqlite, &large, &options).unwrap();
    let mut txn = source.write().unwrap();
    for i in 0..PAYLOADS {
        txn.put(Tree::Rows, &i.to_be_bytes(), &[7; 4096]).unwrap();
    }
    txn.commit(Durability::Buffered).unwrap();
    let engine = open(EngineKind::Lmdb, &current, &limited).unwrap();
    engine.copy_to(&*source.read().unwrap(), &copy).unwrap();
    let copied = open(EngineKind::Lmdb, &copy, &options).unwrap();
    assert_eq!(keys(&*copied, Tree::Rows).len(), PAYLOADS as usize);
}
