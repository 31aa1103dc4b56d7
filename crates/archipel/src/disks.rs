//! The numbers of disks. Each disk has a number that never changes, written on the disk itself.
//!
//! The metadata refers to disks by number, so that a number is never given to another disk. If a
//! folder should carry a number but is empty, the disk is not mounted or was lost: the node reports
//! that and does not start, because it must not treat the folder as a new disk.

use std::fs;
use std::io;
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
    /// The number of the next new disk. An operator may remove the entry of a disk that is lost, and
    /// the metadata may still refer to its number.
    #[serde(default)]
    next: u16,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegisteredDisk {
    number: u16,
    /// The last known path.
    path: PathBuf,
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
    let written: Registry = read(&registry_path)?.unwrap_or_default();
    let mut registry = written.clone();
    let mut numbers = Vec::with_capacity(disks.len());
    for disk in disks {
        let number = match read::<Mark>(&disk.path.join(MARK))? {
            Some(mark) => number_on_disk(&mut registry, node, disk, &mark)?,
            None => next_number(&mut registry, disk)?,
        };
        numbers.push(number);
    }
    // The registry is written first, so that every number on a disk is in the registry. It is
    // written only if it differs, so that a node whose disk is full can start.
    if registry != written {
        write(&registry_path, &registry)?;
    }
    for (disk, number) in disks.iter().zip(&numbers) {
        let path = disk.path.join(MARK);
        if !path.exists() {
            let node = node.to_owned();
            write(
                &path,
                &Mark {
                    node,
                    number: *number,
                },
            )?;
        }
    }
    Ok(numbers)
}

/// Returns the disks of the registry that are not among `numbers`: their numbers and last known paths.
///
/// # Errors
/// A text for the operator.
pub fn absent(data_dir: &Path, numbers: &[u16]) -> Result<Vec<(u16, PathBuf)>, String> {
    let registry: Registry = read(&data_dir.join(REGISTRY))?.unwrap_or_default();
    let absent = registry.disks.into_iter();
    let absent = absent.filter(|known| !numbers.contains(&known.number));
    Ok(absent.map(|known| (known.number, known.path)).collect())
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

fn number_on_disk(
    registry: &mut Registry,
    node: &str,
    disk: &Disk,
    mark: &Mark,
) -> Result<u16, String> {
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
        Some(known) => known.path = disk.path.clone(),
        None => registry.disks.push(RegisteredDisk {
            number: mark.number,
            path: disk.path.clone(),
        }),
    }
    Ok(mark.number)
}

fn next_number(registry: &mut Registry, disk: &Disk) -> Result<u16, String> {
    let path = disk.path.display();
    if let Some(known) = registry.disks.iter().find(|known| known.path == disk.path) {
        return Err(format!(
            "the disk {path} should hold blocks (disk number {}) but is empty; fix: mount it. \
             If its data is lost for good, remove its entry from {REGISTRY} in the data folder",
            known.number
        ));
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
