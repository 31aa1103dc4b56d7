//! Restores that are interrupted or fail: nothing is lost, and nothing is left that a start would take for metadata.

use std::fs;

use archipel_storage::Error;
use archipel_storage::engine::{EngineOptions, snapshot};

use crate::fixture::{Fixture, error_of};
use crate::snapshots::Changed;

/// A command that opens the metadata removes no remains first, as a server does.
pub fn an_opening_finishes_an_interrupted_restore(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let store = Changed::new(kind, folder);
    let copy = store.restore_half(&store.snapshot);
    store.assert_value(&store.current, "before");
    assert!(!copy.exists());
    store.assert_value(&store.kept, "after");
}

/// An operator may have made the folder since.
pub fn an_interrupted_restore_can_be_repeated_over_an_empty_folder(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let store = Changed::new(kind, folder);
    let copy = store.restore_half(&store.current);
    fs::create_dir(&store.current).unwrap();
    let options = EngineOptions::default();
    snapshot::restore(&store.snapshot, &store.current, &store.kept, &options).unwrap();
    assert!(!copy.exists());
    store.assert_value(&store.current, "before");
    store.assert_value(&store.kept, "after");
}

/// It has its marker already, but nobody knows that the marker is durable.
pub fn an_incomplete_snapshot_is_not_restored(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let store = Changed::new(kind, folder);
    fs::write(store.snapshot.join("incomplete"), b"").unwrap();
    let options = EngineOptions::default();
    let restored = snapshot::restore(&store.snapshot, &store.current, &store.kept, &options);
    let error = error_of(restored);
    assert!(matches!(error, Error::Refused(_)), "{error}");
    assert!(!store.kept.exists());
    store.assert_value(&store.current, "after");
}

/// The folder may be a mount point, for instance. Here it is to be kept where no folder is. Were it unmounted at the
/// next start, a complete copy beside it would take its place.
pub fn a_restore_that_cannot_move_the_folder_leaves_no_copy(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let store = Changed::new(kind, folder);
    let kept = folder.join("missing").join("kept");
    let options = EngineOptions::default();
    error_of(snapshot::restore(
        &store.snapshot,
        &store.current,
        &kept,
        &options,
    ));
    assert!(!snapshot::beside(&store.current, "restoring").exists());
    store.assert_value(&store.current, "after");
}

/// The complete copy of the interrupted restore is all that there is in place of the folder.
pub fn a_restore_that_fails_keeps_the_copy_of_an_interrupted_one(fixture: &Fixture) {
    let Some((kind, folder)) = fixture.files() else {
        return;
    };
    let store = Changed::new(kind, folder);
    let copy = store.restore_half(&store.snapshot);
    // It has its marker, but not the files that the marker names.
    let damaged = store.snapshots.join(snapshot::name_at(5678));
    fs::create_dir(&damaged).unwrap();
    fs::copy(
        store.snapshot.join("engine.json"),
        damaged.join("engine.json"),
    )
    .unwrap();
    let options = EngineOptions::default();
    error_of(snapshot::restore(
        &damaged,
        &store.current,
        &store.kept,
        &options,
    ));
    assert!(copy.exists());
    store.assert_value(&store.current, "before");
    store.assert_value(&store.kept, "after");
}
