//! Machines, network, and the record of a run.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use archipel_base::random::SeededRandom;
use archipel_base::{Id, NodeId};
use archipel_cluster::Hooks;
use archipel_cluster::layout::{Epoch, Layout, PARTITIONS, Redundancy};
use archipel_cluster::register::Rules;
use archipel_model::{Error, Model};
use archipel_net::simulated::{Link, SimulatedNetwork};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::buckets::Buckets;
use super::disks::Speed;
use super::history::History;
use super::judge::{self, Counts, Verdict};
use super::k2v::Items;
use super::loose::{LOOSE, Loose};
use super::machine::Machine;
use super::style::Style;
use super::uploads::Shared;
use super::versions::{self, Versions};
use super::{backups, client, disks, faults, k2v, operator};
use crate::rng::Rng;

/// The time in which machines must hear of one another.
const ACQUAINTANCE: Duration = Duration::from_secs(10);
/// The time at rest before the run is judged: longer than any call waits.
const REST: Duration = Duration::from_secs(120);
/// The bucket that clients use.
pub const BUCKET: &str = "bucket";
/// Another bucket, in which clients only upload.
pub const OTHER: &str = "other";
/// The number of replicas of a row.
pub const REPLICAS: u8 = 3;
/// The number of clients at once.
const CLIENTS: usize = 5;

/// The options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The duration of the faults in virtual seconds.
    pub seconds: u64,
    /// Prints what happens.
    pub trace: bool,
    /// Machines report commits as stable before they are: a planted defect that a checker must
    /// notice.
    pub answer_before_sync: bool,
    /// Stores trust that they were not rolled back: a planted defect that a checker must notice.
    pub trust_old_store: bool,
    /// Closed write fences keep no write out: a planted defect that a checker must notice.
    pub ignore_fences: bool,
    /// Acknowledged writes of a buffered bucket count as durable, so that a checker must notice
    /// what a power cut undoes.
    pub trust_buffered: bool,
    /// Full disks report commits as done: a planted defect that a checker must notice.
    pub swallow_full: bool,
    /// The rules of anti-entropy and floors. A broken one is a planted defect that a checker must
    /// notice.
    pub rules: Rules,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seconds: 70,
            trace: false,
            answer_before_sync: false,
            trust_old_store: false,
            ignore_fences: false,
            swallow_full: false,
            trust_buffered: false,
            rules: Rules::CORRECT,
        }
    }
}

impl Options {
    /// Returns the rules of the model.
    pub(super) fn hooks(&self) -> Hooks {
        let hooks = archipel_model::HOOKS;
        if !self.ignore_fences {
            return hooks;
        }
        Hooks {
            // Replicas still tell whether they have closed a fence.
            holds: |key, metadata, expects| {
                !expects.is_empty() || (archipel_model::HOOKS.holds)(key, metadata, expects)
            },
            ..hooks
        }
    }
}

/// A cluster with its clients, network and faults.
pub struct World {
    /// The settings of this run.
    pub style: Style,
    pub(super) options: Options,
    seed: u64,
    start: Instant,
    /// The time that passed while nothing happened. All clocks are ahead by it.
    passed_millis: Arc<AtomicU64>,
    /// The machines.
    pub machines: Vec<Machine>,
    /// The network that connects them.
    pub network: Arc<SimulatedNetwork>,
    record: Mutex<Record>,
}

/// The record of a run.
#[derive(Default)]
pub struct Record {
    /// The answers to clients.
    pub history: History,
    /// The answers about objects of the [`OTHER`] bucket.
    pub other: History,
    /// The history of the bucket whose commits are buffered.
    pub loose: Loose,
    /// The uploads that clients share.
    pub uploads: Vec<Shared>,
    /// The buckets that come and go.
    pub buckets: Buckets,
    /// K2V items.
    pub items: Items,
    /// Versions of objects.
    pub versions: Versions,
    /// The first violation seen.
    pub violation: Option<String>,
    /// Counts of what happened.
    pub counts: Counts,
    /// The last number given to an object.
    pub last_value: u32,
    hash: DefaultHasher,
}

impl Record {
    /// Returns the answers about objects of a bucket.
    pub fn of(&mut self, bucket: &str) -> &mut History {
        match bucket {
            OTHER => &mut self.other,
            _ => &mut self.history,
        }
    }
}

/// Runs the cluster of a seed to its end.
pub fn simulate(seed: u64, options: Options) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(run(seed, options)),
        Err(error) => Verdict::failed(format!("no runtime: {error}")),
    }
}

async fn run(seed: u64, options: Options) -> Verdict {
    let world = Arc::new(World::new(seed, options));
    if let Err(why) = world.set_up().await {
        return Verdict::failed(why);
    }
    let mut tasks = vec![tokio::spawn(faults::go_wrong(world.clone(), world.rng(1)))];
    for number in 0..CLIENTS {
        let rng = world.rng(100 + number as u64);
        tasks.push(tokio::spawn(client::run(world.clone(), number, rng)));
    }
    if world.style.flips {
        tasks.push(tokio::spawn(faults::flip_bits(world.clone(), world.rng(3))));
    }
    if world.style.fills || world.style.speed == Speed::Slow {
        tasks.push(tokio::spawn(disks::wear(world.clone(), world.rng(4))));
    }
    if world.style.rolls_back {
        tasks.push(tokio::spawn(backups::run(world.clone(), world.rng(2))));
    }
    for number in 0..if world.style.operated { 2 } else { 0 } {
        let rng = world.rng(200 + number as u64);
        tasks.push(tokio::spawn(operator::run(world.clone(), number, rng)));
    }
    tasks.extend(k2v::start(&world));
    tasks.extend(versions::start(&world));
    for task in tasks {
        if let Err(panicked) = task.await {
            world.violation(format!("a task panicked: {panicked}"));
        }
    }
    faults::end_all(&world).await;
    tokio::time::sleep(REST).await;
    if world.style.admits {
        operator::admit_all(&world).await;
        tokio::time::sleep(REST).await;
    }
    judge::judge(&world).await
}

impl World {
    fn new(seed: u64, options: Options) -> World {
        let mut rng = Rng::new(seed);
        let network = SimulatedNetwork::new(Arc::new(SeededRandom::new(seed)));
        let machines = if rng.chance(50) { 3 } else { 5 };
        let ids: Arc<[NodeId]> = (1..=machines).map(|n| NodeId([n; 32])).collect();
        let passed_millis: Arc<AtomicU64> = Arc::default();
        let style = Style::new(&mut rng, &mut Rng::new(!seed), seed);
        if Rng::new(seed ^ 0x6b65_6570).chance(50) {
            network.keep_connections();
        }
        let machine = |index| {
            let (ids, network) = (ids.clone(), network.clone());
            Machine::new(
                index,
                ids,
                network,
                seed,
                (options, style),
                passed_millis.clone(),
            )
        };
        let machines: Vec<_> = (0..machines).map(machine).collect();
        World {
            style,
            options,
            seed,
            start: Instant::now(),
            passed_millis: passed_millis.clone(),
            machines,
            network,
            record: Mutex::default(),
        }
    }

    /// Returns a generator for one purpose.
    pub fn rng(&self, purpose: u64) -> Rng {
        Rng::new(self.seed.wrapping_mul(1_000_003).wrapping_add(purpose))
    }

    /// Returns the virtual time since the start in milliseconds.
    pub fn now_millis(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Returns true if acknowledged writes of a buffered bucket count as durable.
    pub fn trusts_buffered(&self) -> bool {
        self.options.trust_buffered
    }

    /// Returns the record.
    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock()
    }

    /// Returns true once the faults are over.
    pub fn is_calm(&self) -> bool {
        self.start.elapsed().as_secs() >= self.options.seconds
    }

    /// Notes what happens: always in the run's hash, and for the reader of a trace.
    pub fn note(&self, what: impl AsRef<str>) {
        let now = self.start.elapsed().as_micros() as u64;
        (now, what.as_ref()).hash(&mut self.record().hash);
        if self.options.trace {
            println!("{:>12.3} ms  {}", now as f64 / 1000.0, what.as_ref());
        }
    }

    /// Lets hours pass in which nothing happens.
    pub fn pass_hours(&self, hours: u64) {
        self.note(format!("{hours} hours pass"));
        self.passed_millis
            .fetch_add(hours * 3_600_000, Ordering::SeqCst);
    }

    /// Reports a violation. The first one counts.
    pub fn violation(&self, what: String) {
        self.note(format!("VIOLATION: {what}"));
        self.record().violation.get_or_insert(what);
    }

    /// Returns the hash of everything that happened, including the network's part.
    pub fn hash(&self) -> u64 {
        let mut hasher = self.record().hash.clone();
        let frames = self.network.frames();
        frames
            .iter()
            .for_each(|((from, to), n)| (from, to, n).hash(&mut hasher));
        hasher.finish()
    }

    /// Returns the machines that run and are not shut out: the layout has them, or an operator
    /// admitted them.
    pub fn serving(&self) -> Vec<usize> {
        let serves = |machine: &Machine| {
            let model = machine.model();
            model.is_some_and(|model| model.cluster().is_in_layout())
        };
        let machines = self.machines.iter().enumerate();
        let serving = machines.filter(|(_, machine)| serves(machine));
        serving.map(|(number, _)| number).collect()
    }

    /// Returns a fresh number for an object.
    pub fn next_value(&self) -> u32 {
        let mut record = self.record();
        record.last_value += 1;
        record.last_value
    }

    async fn set_up(&self) -> Result<(), String> {
        let mut rng = self.rng(0);
        self.network.set_default_link(faults::link(&mut rng));
        for machine in &self.machines {
            machine.start().await?;
        }
        let epoch = Epoch::first(Id([1; 16]), self.layout());
        for machine in &self.machines {
            let model = machine.model().ok_or("a machine is off")?;
            let learnt = model.cluster().learn(epoch.clone()).await;
            learnt.map_err(|error| format!("the layout is refused: {error}"))?;
        }
        tokio::time::sleep(ACQUAINTANCE).await;
        let model = self.machines[0].model().ok_or("a machine is off")?;
        for name in [BUCKET, OTHER, LOOSE] {
            let made = make(&model, name).await;
            made.map_err(|error| format!("the bucket cannot be made: {error}"))?;
        }
        let set = surely(|| model.set_buffered(LOOSE, Some(true))).await;
        set.map_err(|error| format!("the bucket cannot be changed: {error}"))?;
        let made = versions::set_up(self, &model).await;
        made.map_err(|error| format!("the bucket with versions cannot be made: {error}"))
    }

    /// Returns a layout with one zone a machine. Partitions go round.
    fn layout(&self) -> Layout {
        let machines = self.machines.len() as u16;
        let holders =
            |partition: u16| (0..u16::from(REPLICAS)).map(move |n| (partition + n) % machines);
        Layout {
            version: 1,
            redundancy: Redundancy {
                replicas: REPLICAS,
                zones: None,
            },
            roles: self.machines.iter().filter_map(operator::role).collect(),
            control: (0..machines).collect(),
            assignment: (0..PARTITIONS).flat_map(holders).collect(),
        }
    }
}

/// The number of tries of a request before the faults begin.
const TRIES: u32 = 20;

/// Sends a request again until it succeeds: links may be far and lossy, and requests given up
/// early.
pub async fn surely<T, F>(ask: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    for _ in 1..TRIES {
        if let Ok(done) = ask().await {
            return Ok(done);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    ask().await
}

/// Creates a bucket before the faults begin.
pub async fn make(model: &Model, name: &str) -> Result<(), Error> {
    let made = surely(async || match model.create_bucket(name, None).await {
        Ok(_) | Err(Error::BucketExists) => Ok(()),
        Err(error) => Err(error),
    });
    made.await
}

/// Returns the link between machines that are near.
pub fn near() -> Link {
    Link {
        latency: Duration::from_millis(1),
        ..Link::default()
    }
}
