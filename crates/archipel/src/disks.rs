//! The numbers of disks. Each disk has a number that never changes, written on the disk itself.
//!
//! The metadata refers to disks by number, so that a number is never given to another disk. If a
//! folder should carry a number but is empty, the disk is not mounted or was lost: the node reports
//! that and does not start, because it must not treat the folder as a new disk.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::Disk;
use crate::identity::replace;

/// The file in the data folder that lists all disks that this node ever had.
const REGISTRY: &str = "disks.json";

/// The file on a disk with its number and its node.
const MARK: &str = "archipel-disk.json";

/// All disks that the node ever had.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Registry {
    disks: Vec<RegisteredDisk>,
    /// The number of the next new disk. An operator may remove the entry of a disk that is lost,
    /// and the metadata may still refer to its number.
    #[serde(default)]
    next: u16,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegisteredDisk {
    number: u16,
    /// The last known path.
    path: PathBuf,
    /// True until the mark is on the disk. The disk never held blocks then, because storage opens
    /// only marked disks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unmarked: bool,
}

/// The content of the mark on a disk.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    node: String,
    number: u16,
}

/// Returns the numbers of `disks`, in their order. New disks get new numbers.
///
/// # Errors
/// A text for the operator: a disk belongs to another node, or is missing.
pub fn numbers(data_dir: &Path, node: &str, disks: &[Disk]) -> Result<Vec<u16>, String> {
    let registry_path = data_dir.join(REGISTRY);
    let mut written: Registry = read(&registry_path)?.unwrap_or_default();
    let mut registry = written.clone();
    let marks = disks.iter().map(|disk| read::<Mark>(&disk.path.join(MARK)));
    let marks = marks.collect::<Result<Vec<_>, String>>()?;
    // The marks come first, because they say which numbers and paths are taken.
    for (disk, mark) in disks.iter().zip(&marks) {
        if let Some(mark) = mark {
            enter(&mut registry, node, disk, mark)?;
        }
    }
    let mut numbers = Vec::with_capacity(disks.len());
    for (disk, mark) in disks.iter().zip(&marks) {
        numbers.push(match mark {
            Some(mark) => mark.number,
            None => next_number(&mut registry, disk)?,
        });
    }
    // The registry is written first, so that every number on a disk is in the registry.
    save(&registry_path, &registry, &mut written)?;
    for ((disk, mark), number) in disks.iter().zip(&marks).zip(&numbers) {
        if mark.is_none() {
            let (node, number) = (node.to_owned(), *number);
            write(&disk.path.join(MARK), &Mark { node, number })?;
        }
    }
    // From now on these disks may hold blocks.
    for known in &mut registry.disks {
        known.unmarked &= !numbers.contains(&known.number);
    }
    save(&registry_path, &registry, &mut written)?;
    Ok(numbers)
}

/// Writes the registry if it differs from what is written: a node whose disk is full can start.
fn save(path: &Path, registry: &Registry, written: &mut Registry) -> Result<(), String> {
    if registry != written {
        write(path, registry)?;
        written.clone_from(registry);
    }
    Ok(())
}

/// Returns the disks of the registry that are not among `numbers` and may hold blocks: their
/// numbers and last known paths.
///
/// # Errors
/// A text for the operator.
pub fn absent(data_dir: &Path, numbers: &[u16]) -> Result<Vec<(u16, PathBuf)>, String> {
    let registry: Registry = read(&data_dir.join(REGISTRY))?.unwrap_or_default();
    let absent = registry.disks.into_iter();
    let absent = absent.filter(|known| !known.unmarked && !numbers.contains(&known.number));
    Ok(absent.map(|known| (known.number, known.path)).collect())
}

/// Returns a warning for each disk whose file system has another disk before it: a folder that
/// waits for its disk to be mounted is on the file system of its parent.
pub fn on_one_file_system(disks: &[Disk]) -> Vec<String> {
    let mut seen: BTreeMap<u64, &Path> = BTreeMap::new();
    let mut warnings = Vec::new();
    for disk in disks {
        // Its own state tells that it cannot be read.
        let Ok(folder) = fs::metadata(&disk.path) else {
            continue;
        };
        match seen.entry(folder.dev()) {
            Entry::Vacant(first) => _ = first.insert(&disk.path),
            Entry::Occupied(first) => warnings.push(format!(
                "the disks {} and {} are on one file system, which holds their blocks once and is lost as a \
                 whole; fix: mount both before the first start, or name one of them",
                first.get().display(),
                disk.path.display()
            )),
        }
    }
    warnings
}

/// Says that a disk which is not in the settings still holds blocks.
pub fn still_needed(number: u16, path: &Path) -> String {
    let path = path.display();
    format!(
        "the disk {path} (disk number {number}) holds blocks and is not in the settings; \
         fix: add [[disks]] path = \"{path}\", with draining = true if it is to be removed. \
         If its data is lost for good, remove its entry from {REGISTRY} in the data folder"
    )
}

/// Says that a rebuild of the index of blocks needs a disk which is not in the settings. The old
/// index cannot tell if the disk holds blocks, because a rebuild is for an index that is wrong.
pub fn rebuild_needs(number: u16, path: &Path) -> String {
    let path = path.display();
    format!(
        "the disk {path} (disk number {number}) is not in the settings, and the new index would lack its blocks; \
         fix: add [[disks]] path = \"{path}\". \
         If the disk is empty or its data is lost for good, remove its entry from {REGISTRY} in the data folder"
    )
}

/// Enters a disk under the number on it.
fn enter(registry: &mut Registry, node: &str, disk: &Disk, mark: &Mark) -> Result<(), String> {
    let path = disk.path.display();
    if mark.node != node {
        return Err(format!(
            "the disk {path} belongs to another node ({}); fix: name a disk of this node in the configuration",
            mark.node
        ));
    }
    match registry
        .disks
        .iter_mut()
        .find(|known| known.number == mark.number)
    {
        Some(known) => {
            known.path.clone_from(&disk.path);
            known.unmarked = false;
        }
        None => registry.disks.push(RegisteredDisk {
            number: mark.number,
            path: disk.path.clone(),
            unmarked: false,
        }),
    }
    Ok(())
}

/// Returns the number of a disk without a mark.
fn next_number(registry: &mut Registry, disk: &Disk) -> Result<u16, String> {
    let path = disk.path.display();
    let all = registry.disks.iter();
    let mut here = all.filter(|known| known.path == disk.path);
    if let Some(known) = here.clone().find(|known| !known.unmarked) {
        return Err(format!(
            "the disk {path} should hold blocks (disk number {}) but is empty; fix: mount it. \
             If its data is lost for good, remove its entry from {REGISTRY} in the data folder",
            known.number
        ));
    }
    // An earlier start ended before it wrote the mark.
    if let Some(known) = here.next() {
        return Ok(known.number);
    }
    let after = |known: &RegisteredDisk| known.number.saturating_add(1);
    let number = registry
        .disks
        .iter()
        .map(after)
        .fold(registry.next, u16::max);
    if number == u16::MAX {
        return Err("this node has had too many disks".into());
    }
    registry.next = number + 1;
    registry.disks.push(RegisteredDisk {
        number,
        path: disk.path.clone(),
        unmarked: true,
    });
    Ok(number)
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>, String> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| {
        format!(
            "{} is damaged: {error}; fix: restore it from a backup",
            path.display()
        )
    })
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_vec_pretty(value).map_err(|error| error.to_string())?;
    replace(path, &text).map_err(|error| format!("{}: {error}", path.display()))
}
