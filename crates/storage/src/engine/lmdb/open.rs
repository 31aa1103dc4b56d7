//! Opens LMDB's environment and its trees.

use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Env, EnvFlags, EnvOpenOptions, MdbError, WithoutTls};

use super::super::{EngineOptions, Result, Tree};
use super::{LmdbResult, Trees, from_lmdb, room};

/// The default size of the map. It is address space, not memory.
const DEFAULT_MAP_BYTES: u64 = if cfg!(target_pointer_width = "64") {
    1 << 40
} else {
    1 << 30
};
/// The smallest size of the map that is tried where the address space is limited.
const LEAST_MAP_BYTES: u64 = 1 << 28;

/// Opens the environment. If no size was configured and the address space does not suffice (`ulimit
/// -v`, a container), tries smaller maps.
pub(super) fn open_env(folder: &Path, options: &EngineOptions) -> Result<Env<WithoutTls>> {
    let mut map_bytes = options.map_bytes.unwrap_or_else(default_map_bytes);
    loop {
        match open_env_with(folder, map_bytes, options) {
            Ok(env) => return Ok(env),
            Err(heed::Error::Io(error))
                if error.kind() == std::io::ErrorKind::OutOfMemory
                    && options.map_bytes.is_none()
                    && map_bytes > LEAST_MAP_BYTES =>
            {
                map_bytes /= 2;
            }
            Err(error) => return Err(from_lmdb(&format!("opening {}", folder.display()), error)),
        }
    }
}

/// Returns the default size, or at most a quarter of a limited address space, because the rest of
/// the process needs some too.
fn default_map_bytes() -> u64 {
    match room::address_space_limit() {
        Some(limit) => (limit / 4)
            .next_multiple_of(1 << 20)
            .clamp(LEAST_MAP_BYTES, DEFAULT_MAP_BYTES),
        None => DEFAULT_MAP_BYTES,
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
    // changes the file: the folder is ours and is locked against other processes. The documentation
    // of the module rules out `NO_SYNC`; only a test that wants to see the damage asks for it.
    unsafe {
        options.flags(EnvFlags::NO_READ_AHEAD);
        if asked.unsafe_no_fsync {
            tracing::warn!("metadata is not synced: a power cut will lose and damage it");
            options.flags(EnvFlags::NO_SYNC);
        }
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
