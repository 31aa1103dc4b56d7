//! A machine: the state that survives a crash, and the node that runs on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use archipel_base::random::{Random, SeededRandom};
use archipel_base::stamp::StampClock;
use archipel_base::{BlockHash, Id, NodeId};
use archipel_cluster::membership::{Members, NodeInfo};
use archipel_cluster::{AntiEntropyOptions, Cluster, ClusterOptions, Faults, Network};
use archipel_model::{Model, ModelOptions};
use archipel_net::rpc::Rpc;
use archipel_net::simulated::SimulatedNetwork;
use archipel_storage::blocks::{BlockOptions, DiskConfig};
use archipel_storage::disk::Disk;
use archipel_storage::engine::Durability;
use archipel_storage::store::FreeSpace;
use archipel_storage::{Store, StoreOptions, Threads};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use media::Media;

use super::clock::MachineClock;
use super::disks::{Condition, Room};
use super::loose;
use super::power::{Power, PoweredDisk, PoweredEngine};
use super::style::Style;
use super::world::Options;
use crate::rng::Rng;

mod media;

pub use media::Backup;

/// A machine.
pub struct Machine {
    /// Its name on the network.
    pub id: NodeId,
    /// Its clock.
    pub clock: MachineClock,
    /// The names of all machines.
    pub all: Arc<[NodeId]>,
    /// The speed and the room of its disks.
    pub condition: Arc<Condition>,
    media: Mutex<Media>,
    network: Arc<SimulatedNetwork>,
    seed: u64,
    options: Options,
    style: Style,
    boots: AtomicU64,
    /// Held while it starts: only one process at a time uses its disks.
    starting: tokio::sync::Mutex<()>,
    running: Mutex<Option<Running>>,
}

/// A running node.
struct Running {
    model: Model,
    power: Power,
    /// Wakes all that wait for a crash.
    down: Arc<Notify>,
    tasks: Vec<JoinHandle<()>>,
}

/// The end of a client's call of a machine.
pub enum Called<T> {
    /// The machine answered.
    Answered(T),
    /// It was down: nothing happened.
    Down,
    /// It crashed meanwhile, or the client lost patience.
    Lost,
}

impl Machine {
    /// Returns a machine that is off.
    pub fn new(
        index: u8,
        all: Arc<[NodeId]>,
        network: Arc<SimulatedNetwork>,
        seed: u64,
        (options, style): (Options, Style),
        passed_millis: Arc<AtomicU64>,
    ) -> Machine {
        let random = SeededRandom::new(seed ^ u64::from(index) << 32);
        Machine {
            id: all[usize::from(index)],
            clock: MachineClock::new(passed_millis),
            all,
            condition: Condition::new(style.speed, Rng::new(seed ^ u64::from(index) << 40)),
            media: Mutex::default(),
            network,
            seed: random.next_u64(),
            options,
            style,
            boots: AtomicU64::new(0),
            starting: tokio::sync::Mutex::default(),
            running: Mutex::default(),
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock()
    }

    fn media(&self) -> MutexGuard<'_, Media> {
        self.media.lock()
    }

    /// Sets the room of its disks.
    pub fn set_room(&self, room: Room) {
        self.condition.set_room(room);
        let media = self.media();
        let taken = media.disk.allocated_total();
        let capacity = (room != Room::Free).then_some(taken);
        media.disk.set_capacity(capacity);
    }

    /// Loses the content of its disks. The machine must be off.
    pub fn lose_disks(&self) {
        *self.media() = Media::default();
    }

    /// Copies its stable storage. Returns `None` while it is off.
    pub fn back_up(&self) -> Option<Backup> {
        let cluster = self.model()?.cluster().clone();
        let media = self.media();
        Some(Backup {
            media: media.copy(),
            store: cluster.me(),
            mark: cluster.upkeep().progress_mark(),
        })
    }

    /// Replaces its disks, or only its metadata, by a copy. The machine must be off.
    pub fn roll_back(&self, backup: &Backup, blocks_too: bool) {
        let copy = backup.media.copy();
        let mut media = self.media();
        media.engine = copy.engine;
        if blocks_too {
            media.disk = copy.disk;
        }
    }

    /// Flips a bit of a block, or of the header before it. Returns the segment and the offset.
    pub fn flip(&self, block: &BlockHash, rng: &mut Rng) -> Option<(u32, u64)> {
        let media = self.media();
        for segment in media.disk.segments().ok()? {
            let mut bytes = vec![0; media.disk.length(segment).ok()? as usize];
            media.disk.read_at(segment, 0, &mut bytes).ok()?;
            let mut names = bytes.windows(block.as_bytes().len());
            let Some(named) = names.position(|bytes| bytes == block.as_bytes()) else {
                continue;
            };
            // docs/internals/blocks.md: the length of the content precedes the name, and the
            // content follows the rest of the header.
            let stored = bytes.get(named.checked_sub(4)?..named)?;
            let stored = u32::from_be_bytes(stored.try_into().ok()?);
            let at = named as u64 - 16 + rng.below(64 + u64::from(stored));
            media.disk.flip(segment, at, 1 << rng.below(8));
            return Some((segment, at));
        }
        None
    }

    /// Returns true if it is on.
    pub fn is_up(&self) -> bool {
        self.running().is_some()
    }

    /// Returns true if it is neither on nor about to be.
    pub fn is_off(&self) -> bool {
        !self.is_up() && self.starting.try_lock().is_ok()
    }

    /// Returns the running model, or `None` while it is off.
    pub fn model(&self) -> Option<Model> {
        self.running().as_ref().map(|running| running.model.clone())
    }

    /// Returns the model, and the signal of its crash.
    fn to_call(&self) -> Option<(Model, Arc<Notify>)> {
        let running = self.running();
        let running = running.as_ref()?;
        Some((running.model.clone(), running.down.clone()))
    }

    /// Starts it, unless another task has started it. If that fails, it is off.
    pub async fn start(&self) -> Result<(), String> {
        let _alone = self.starting.lock().await;
        if self.is_up() {
            return Ok(());
        }
        let power = Power::default();
        let started = self.start_with(&power).await;
        if started.is_err() {
            power.cut();
            self.network.crash(self.id);
        }
        started
    }

    async fn start_with(&self, power: &Power) -> Result<(), String> {
        let boot = self.boots.fetch_add(1, Ordering::SeqCst);
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(self.seed.wrapping_add(boot)));
        let store = self.store(power, random.clone());
        let store = store.map_err(|error| format!("the store does not open: {error}"))?;
        let rpc = Rpc::new(self.network.node(self.id));
        let members = self.members(&rpc, &store, random.clone());
        let options = ClusterOptions {
            stamps: StampClock::new(store.writer()),
            store,
            node: self.id,
            level: archipel_cluster::layout::LEVEL,
            wall: members.clock(),
            random,
            durability: Durability::Fsync,
            sizes: self.style.sizes,
            times: self.style.times,
            hooks: self.options.hooks(),
            network: Some(Network {
                rpc: rpc.clone(),
                directory: Arc::new(members.clone()),
                listener: Arc::new(members.clone()),
            }),
        };
        let cluster = Cluster::open(options).await;
        let cluster = cluster.map_err(|error| format!("the node does not start: {error}"))?;
        let mut tasks = on_the_network(&cluster, rpc, members);
        let options = ModelOptions {
            extent_blocks: self.style.extent_blocks,
            day: self.style.day(),
            ..ModelOptions::default()
        };
        let model = Model::open_with(cluster, options).await;
        let model = model.map_err(|error| format!("the model does not open: {error}"))?;
        tasks.extend(background(&model, self.options, self.style));
        if self.style.expires() {
            let model = model.clone();
            tasks.push(tokio::spawn(async move { model.run_expiry().await }));
        }
        *self.running() = Some(Running {
            model,
            power: power.clone(),
            down: Arc::default(),
            tasks,
        });
        Ok(())
    }

    /// Returns members that know all others by their addresses.
    fn members(&self, rpc: &Rpc, store: &Store, random: Arc<dyn Random>) -> Members {
        let facts = NodeInfo {
            addresses: vec![self.id.to_string()],
            store: store.identity(),
            ..NodeInfo::default()
        };
        let others = self.all.iter().filter(|id| **id != self.id);
        let seeds = others.map(|id| id.to_string()).collect();
        let clock = Arc::new(self.clock.clone());
        Members::new(rpc.clone(), random, store.boot(), facts, seeds, clock)
    }

    fn store(
        &self,
        power: &Power,
        random: Arc<dyn Random>,
    ) -> Result<Store, archipel_storage::Error> {
        let media = self.media();
        let engine = PoweredEngine {
            engine: media.engine.clone(),
            power: power.clone(),
            condition: self.condition.clone(),
            lies: self.options.answer_before_sync,
            swallows: self.options.swallow_full,
        };
        let disk = PoweredDisk {
            disk: media.disk.clone(),
            power: power.clone(),
        };
        Store::open(StoreOptions {
            engine: Arc::new(engine),
            disks: vec![DiskConfig::new(0, Arc::new(disk))],
            blocks: BlockOptions {
                owner: Id::default(),
                segment_bytes: 8 << 20,
                preallocate_bytes: 1 << 20,
                zero_bytes: 256 << 10,
                reserve_bytes: Some(0),
                compression_level: None,
            },
            pool: self.condition.pool(),
            threads: Threads::Inline,
            clock: Arc::new(self.clock.clone()),
            random,
            identity: None,
            metadata_space: Some(free_space(&self.condition)),
            limits: self.style.limits,
        })
    }

    /// Cuts its power. Unsynced data is lost, or a random part of it.
    pub fn crash(&self, random: &dyn Random) {
        let Some(running) = self.running().take() else {
            return;
        };
        running.power.cut();
        self.network.crash(self.id);
        let media = self.media();
        media.engine.crash_keeping(random);
        media.disk.crash(Some(random));
        running.down.notify_waiters();
        running.tasks.iter().for_each(JoinHandle::abort);
    }

    /// Makes a client's call, which ends with the machine's crash or the client's patience.
    pub async fn call<T, F>(&self, patience: Duration, call: impl FnOnce(Model) -> F) -> Called<T>
    where
        F: Future<Output = T>,
    {
        let Some((model, down)) = self.to_call() else {
            return Called::Down;
        };
        let crashed = down.notified();
        tokio::select! {
            biased;
            () = crashed => Called::Lost,
            answer = call(model) => Called::Answered(answer),
            () = tokio::time::sleep(patience) => Called::Lost,
        }
    }
}

/// Returns the free space of the metadata disk: none, or plenty.
fn free_space(condition: &Arc<Condition>) -> FreeSpace {
    let condition = condition.clone();
    Arc::new(move || Ok(if condition.is_short() { 0 } else { 1 << 40 }))
}

/// Starts the tasks that the daemon runs for other nodes.
fn on_the_network(cluster: &Cluster, rpc: Rpc, members: Members) -> Vec<JoinHandle<()>> {
    members.tell_layout_of(cluster);
    let (service, gossip, cluster) = (cluster.service(), members.clone(), cluster.clone());
    vec![
        tokio::spawn(async move { rpc.serve(service).await }),
        tokio::spawn(async move { gossip.run().await }),
        tokio::spawn(async move { members.follow(&cluster).await }),
    ]
}

/// Starts the tasks that the daemon runs besides requests.
fn background(model: &Model, options: Options, style: Style) -> Vec<JoinHandle<()>> {
    let anti_entropy = AntiEntropyOptions {
        interval: Duration::from_secs(style.anti_entropy_seconds),
        floor_age: Duration::ZERO,
        floor_look: Duration::from_secs(10),
        mark_interval: Duration::from_secs(10),
        faults: Faults {
            apply_delay: Duration::from_secs(style.apply_delay_seconds),
            trust_old_store: options.trust_old_store,
            rules: options.rules,
            purge_rows: style.purge_rows,
            purge_pause: Duration::from_secs(style.purge_pause_seconds),
        },
    };
    let (refresher, collector, rebalancer) = (model.clone(), model.clone(), model.clone());
    let (comparer, repairer) = (model.clone(), model.clone());
    let faults = anti_entropy.faults;
    vec![
        tokio::spawn(loose::sync_forever(model.cluster().store().clone())),
        tokio::spawn(async move { refresher.refresh_forever().await }),
        tokio::spawn(async move { collector.run_gc().await }),
        tokio::spawn(async move {
            rebalancer
                .cluster()
                .layouts()
                .run_rebalance_with(faults)
                .await
        }),
        tokio::spawn(async move { repairer.cluster().upkeep().run_repair().await }),
        tokio::spawn(async move {
            comparer
                .cluster()
                .upkeep()
                .run_anti_entropy(anti_entropy)
                .await
        }),
    ]
}
