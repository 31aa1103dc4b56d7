//! Opens the node's storage according to the settings.

use std::path::PathBuf;
use std::sync::Arc;

use archipel_base::clock::SystemClock;
use archipel_base::random::SystemRandom;
use archipel_storage::blocks::{BlockOptions, DiskConfig};
use archipel_storage::disk::{FileDisk, Scratch};
use archipel_storage::engine::{self, Engine, EngineOptions};
use archipel_storage::pool::{Pool, PoolOptions};
use archipel_storage::store::FreeSpace;
use archipel_storage::{Limits, Store, StoreOptions, Threads};

use crate::config::Settings;
use crate::disks;
use crate::identity::Identity;
use crate::unsafe_no_fsync::{self, NoSyncDisk, NoSyncEngine};

/// The threads for reads and disks. They outnumber the cores because they mostly wait.
const THREADS_PER_CORE: usize = 4;

/// The folder of content that waits for a client and does not fit into memory. Otherwise it is
/// empty.
const SCRATCH_FOLDER: &str = "scratch";

/// The node's storage, with the numbers of the disks in the settings and the warnings about them.
#[derive(Clone)]
pub struct Storage {
    /// The store.
    pub store: Store,
    /// The numbers of the disks in the settings, in their order.
    pub disk_numbers: Vec<u16>,
    /// Warnings about disks on one file system.
    pub shared_disks: Vec<String>,
}

/// Opens the storage. Takes as long as recovery takes.
///
/// # Errors
/// A text for the operator.
pub async fn open(settings: Arc<Settings>, identity: &Identity) -> Result<Storage, String> {
    let (node, data_dir) = (identity.node_id(), settings.data_dir.clone());
    let cannot = |error: &dyn std::fmt::Display| format!("cannot open storage: {error}");
    let open = move || {
        let options = store_options(&settings, &node)?;
        let disk_numbers: Vec<u16> = options.disks.iter().map(|disk| disk.id).collect();
        let absent = disks::absent(&settings.data_dir, &disk_numbers)?;
        let store = Store::open(options).map_err(|error| cannot(&error))?;
        let mut needed = None;
        for (number, path) in absent {
            let names = store.blocks().names_disk(number);
            if needed.is_none() && names.map_err(|error| cannot(&error))? {
                needed = Some(disks::still_needed(number, &path));
            }
        }
        let storage = Storage {
            store,
            disk_numbers,
            shared_disks: disks::on_one_file_system(&settings.disks),
        };
        Ok::<_, String>((storage, needed))
    };
    let opened = tokio::task::spawn_blocking(open).await;
    let (storage, needed) = opened.map_err(|error| cannot(&error))??;
    identity.keep(&data_dir)?;
    match needed {
        None => Ok(storage),
        // Most likely the operator forgot it. Without it, its objects would have a replica less, or
        // none.
        Some(why) => {
            let closed = storage.store.close().await;
            closed.map_err(|error| cannot(&error))?;
            Err(why)
        }
    }
}

/// Opens the engine and the disks that the settings name. Blocks the thread.
///
/// # Errors
/// A text for the operator.
pub fn store_options(settings: &Settings, node: &str) -> Result<StoreOptions, String> {
    let no_fsync = unsafe_no_fsync::wanted();
    let pool = open_pool(settings)?;
    let disks = open_disks(settings, node, no_fsync)?;
    let (reserve, usual) = (settings.limits.disk_reserve_bytes, Limits::default());
    Ok(StoreOptions {
        engine: open_engine(settings, no_fsync)?,
        disks,
        blocks: BlockOptions {
            reserve_bytes: reserve,
            ..BlockOptions::default()
        },
        pool,
        threads: Threads::Own,
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        identity: None,
        metadata_space: Some(free_space(settings.metadata_dir.clone())),
        limits: Limits {
            metadata_reserve_bytes: reserve.unwrap_or(usual.metadata_reserve_bytes),
            ..usual
        },
    })
}

fn open_pool(settings: &Settings) -> Result<Pool, String> {
    let folder = settings.data_dir.join(SCRATCH_FOLDER);
    let scratch = Scratch::open(&folder)
        .map_err(|error| format!("cannot use the folder {}: {error}", folder.display()))?;
    let pool = Pool::start(pool_options()).map_err(|error| error.to_string())?;
    Ok(pool.with_scratch(scratch))
}

fn pool_options() -> PoolOptions {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    PoolOptions {
        threads: (cores * THREADS_PER_CORE).clamp(4, 32),
        ..PoolOptions::default()
    }
}

fn open_engine(settings: &Settings, no_fsync: bool) -> Result<Arc<dyn Engine>, String> {
    let folder = &settings.metadata_dir;
    let engine = engine::open(settings.engine, folder, &engine_options(settings))
        .map_err(|error| format!("cannot open the metadata in {}: {error}", folder.display()))?;
    Ok(if no_fsync {
        Arc::new(NoSyncEngine(engine))
    } else {
        engine
    })
}

/// Returns the settings of the metadata engine.
pub fn engine_options(settings: &Settings) -> EngineOptions {
    EngineOptions {
        map_bytes: settings.metadata_map_bytes,
        ..EngineOptions::default()
    }
}

fn open_disks(settings: &Settings, node: &str, no_fsync: bool) -> Result<Vec<DiskConfig>, String> {
    let mut opened = Vec::with_capacity(settings.disks.len());
    for disk in &settings.disks {
        let file_disk = FileDisk::open(&disk.path)
            .map_err(|error| format!("cannot open the disk {}: {error}", disk.path.display()))?;
        opened.push(Arc::new(file_disk));
    }
    let numbers = disks::numbers(&settings.data_dir, node, &settings.disks)?;
    let parts = settings.disks.iter().zip(numbers).zip(opened);
    Ok(parts
        .map(|((disk, id), opened)| DiskConfig {
            id,
            disk: if no_fsync {
                Arc::new(NoSyncDisk(opened))
            } else {
                opened
            },
            draining: disk.draining,
            capacity_bytes: disk.capacity_bytes,
        })
        .collect())
}

/// Returns the bytes that the server may still write in `folder`.
fn free_space(folder: PathBuf) -> FreeSpace {
    Arc::new(move || {
        crate::process::free_bytes(&folder)
            .map_err(|error| archipel_storage::Error::from_io("free space of the metadata", &error))
    })
}

/// Returns the capacity of this node: the configured one, or that of its disks.
pub async fn capacity_bytes(settings: &Settings, store: &Store) -> u64 {
    let configured = settings.disks.iter().map(|disk| disk.capacity_bytes);
    if let Some(bytes) = configured.sum::<Option<u64>>() {
        return bytes.max(1);
    }
    let blocks = store.blocks().clone();
    let disks = store.blocks().pool().run(move || Ok(blocks.disks())).await;
    let total: u64 = disks
        .unwrap_or_default()
        .iter()
        .map(|disk| disk.total_bytes)
        .sum();
    total.max(1)
}
