//! Opens LMDB's environment and its trees.

use std::io::ErrorKind;
use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Env, EnvFlags, EnvOpenOptions, MdbError, WithoutTls};

use super::super::{EngineOptions, Result, Tree};
use super::{DATA_FILE, LmdbResult, Trees, from_lmdb, room};
use crate::error::Error;

/// The default size of the map. It is address space, not memory. A larger file gets twice its size, so
/// that it can grow.
const DEFAULT_MAP_BYTES: u64 = if cfg!(target_pointer_width = "64") {
    1 << 40
} else {
    1 << 30
};
/// The smallest size of the map that is tried where the address space is limited.
const LEAST_MAP_BYTES: u64 = 1 << 28;
/// The unit of the map's size. The size must be a multiple of the system's page size.
const MAP_UNIT_BYTES: u64 = 1 << 20;

/// Opens the environment. If no size was configured and the address space does not suffice (`ulimit
/// -v`, a container), tries smaller maps.
pub(super) fn open_env(folder: &Path, options: &EngineOptions) -> Result<Env<WithoutTls>> {
    let wanted = options
        .map_bytes
        .unwrap_or_else(|| default_map_bytes(file_bytes(folder), room::address_space_limit()));
    let mut map_bytes = wanted.next_multiple_of(MAP_UNIT_BYTES);
    loop {
        match open_env_with(folder, map_bytes, options) {
            Ok(env) => return Ok(env),
            Err(heed::Error::Io(error)) if error.kind() == ErrorKind::OutOfMemory => {
                if options.map_bytes.is_some() || map_bytes <= LEAST_MAP_BYTES {
                    return Err(too_large(folder, map_bytes));
                }
                map_bytes = (map_bytes / 2).next_multiple_of(MAP_UNIT_BYTES);
            }
            Err(error) => return Err(from_lmdb(&format!("opening {}", folder.display()), error)),
        }
    }
}

fn too_large(folder: &Path, map_bytes: u64) -> Error {
    Error::Refused(format!(
        "LMDB, opening {}: the address space has no room for a map of {map_bytes} bytes; fix: a smaller \
         metadata_map_size, or a higher limit (ulimit -v)",
        folder.display()
    ))
}

/// Returns the size of LMDB's file; 0 if there is none yet.
fn file_bytes(folder: &Path) -> u64 {
    std::fs::metadata(folder.join(DATA_FILE)).map_or(0, |file| file.len())
}

/// Returns the default size for a file of `file_bytes`, or at most a quarter of a limited address
/// space, because the rest of the process needs some too.
fn default_map_bytes(file_bytes: u64, address_space: Option<u64>) -> u64 {
    let wanted = DEFAULT_MAP_BYTES.max(file_bytes.saturating_mul(2));
    match address_space {
        Some(limit) => (limit / 4).clamp(LEAST_MAP_BYTES, wanted),
        None => wanted,
    }
}

fn open_env_with(
    folder: &Path,
    map_bytes: u64,
    asked: &EngineOptions,
) -> LmdbResult<Env<WithoutTls>> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options
        .map_size(usize::try_from(map_bytes).unwrap_or(usize::MAX))
        .max_readers(asked.max_readers)
        .max_dbs(Tree::ALL.len() as u32);
    // SAFETY: `NO_READ_AHEAD` is harmless: keys are looked up all over the file, so reading ahead
    // would only push other data out of the page cache. The map is safe as long as only LMDB
    // changes the file: the folder is ours and is locked against other processes.
    unsafe {
        options.flags(EnvFlags::NO_READ_AHEAD);
        options.open(folder)
    }
}

pub(super) fn open_trees(env: &Env<WithoutTls>) -> LmdbResult<Trees> {
    let txn = env.write_txn()?;
    let opened = env.create_databases_and_commit(txn, |opener, txn| {
        let trees = Tree::ALL
            .iter()
            .map(|tree| opener.create_database::<Bytes, Bytes>(txn, Some(tree.name())))
            .collect::<LmdbResult<Vec<_>>>()?;
        let trees: [_; Tree::ALL.len()] = trees
            .try_into()
            .map_err(|_| heed::Error::Mdb(MdbError::Problem))?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(trees))
    })?;
    opened.commit().ok_or(heed::Error::Mdb(MdbError::Problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_map_grows_with_the_file_within_the_address_space() {
        assert_eq!(default_map_bytes(0, None), DEFAULT_MAP_BYTES);
        assert_eq!(
            default_map_bytes(DEFAULT_MAP_BYTES, None),
            2 * DEFAULT_MAP_BYTES
        );
        assert_eq!(default_map_bytes(0, Some(8 << 30)), 2 << 30);
        assert_eq!(default_map_bytes(0, Some(1)), LEAST_MAP_BYTES);
    }
}
