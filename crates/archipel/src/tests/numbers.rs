//! Tests of the numbers of disks, where the registry and the marks say different things.

use std::fs;
use std::path::Path;

use crate::config::Disk;
use crate::disks::numbers;

fn disk(folder: &Path, name: &str) -> Disk {
    let path = folder.join(name);
    fs::create_dir_all(&path).unwrap();
    Disk {
        path,
        capacity_bytes: None,
        draining: false,
    }
}

/// The registry was lost, and the settings name a new disk before the old ones. Two disks of one
/// number would hold each other's blocks.
#[test]
fn a_new_disk_takes_no_number_that_is_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let (old, older) = (disk(data, "old"), disk(data, "older"));
    assert_eq!(
        numbers(data, "n", &[older.clone(), old.clone()]),
        Ok(vec![0, 1])
    );
    fs::remove_file(data.join("disks.json")).unwrap();
    let disks = [disk(data, "new"), old, older];
    assert_eq!(numbers(data, "n", &disks), Ok(vec![2, 1, 0]));
    // So it is at the next start, with the new registry.
    assert_eq!(numbers(data, "n", &disks), Ok(vec![2, 1, 0]));
}

/// A disk was mounted elsewhere, and a new one where it was. The new one is the first in the
/// settings.
#[test]
fn a_new_disk_may_have_the_path_of_one_that_is_elsewhere_now() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let first = disk(data, "first");
    assert_eq!(
        numbers(data, "n", std::slice::from_ref(&first)),
        Ok(vec![0])
    );
    let moved = Disk {
        path: data.join("second"),
        ..first.clone()
    };
    fs::rename(&first.path, &moved.path).unwrap();
    let disks = [disk(data, "first"), moved];
    assert_eq!(numbers(data, "n", &disks), Ok(vec![1, 0]));
}
