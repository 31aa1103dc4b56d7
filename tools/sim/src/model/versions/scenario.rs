//! Clients, their tasks and the faults of a world.

use archipel_cluster::register::Rules;
use archipel_cluster::register::epoch::Config;

/// A client's task. Tasks on one version name it by its place among all attempts that were sent,
/// the latest first; attempts without an answer are among them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Task {
    /// Puts a version.
    Put,
    /// Puts a version if there is no object.
    Create,
    /// Puts the null version.
    PutNull,
    /// Reads the object.
    Get,
    /// Reads a version.
    Look(usize),
    /// Reads the null version.
    LookNull,
    /// Deletes a version.
    Kill(usize),
    /// Deletes the null version.
    KillNull,
    /// Changes a version's metadata.
    Change(usize),
    /// Changes the null version's metadata.
    ChangeNull,
    /// Lists the versions.
    List,
    /// Enables versions. Until then a node that has not heard of them writes null versions only. A
    /// world with this task has fences.
    Enable,
    /// Protects the null version, and changes its metadata.
    HoldNull,
    /// Makes a tombstone of the object's row, once a floor was agreed above it and it holds no version.
    Retire,
    /// Moves all versions to the newest layout version, so that the oldest one may be dropped.
    Move,
}

/// A small world to explore.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Versions {
    /// Its name.
    pub name: &'static str,
    /// The rules in force.
    pub rules: Rules,
    /// The clients: the lead of the clock, and the tasks.
    pub clients: Vec<(u64, Vec<Task>)>,
    /// The number of rounds after which an operation's client gives up.
    pub rounds: u32,
    /// The number of times that each client may stop waiting.
    pub timeouts: u8,
    /// The number of coordinators that crash.
    pub crashes: u8,
    /// The number of restarts of replicas.
    pub restarts: u8,
    /// The number of repeated messages.
    pub repeats: u8,
    /// The number of rows that replicas may send to one another.
    pub spreads: u8,
    /// The number of floor rounds.
    pub floors: u8,
    /// The possible epochs, in order.
    pub epochs: Vec<Config<usize>>,
    /// The number of replicas in all epochs.
    pub nodes: usize,
}

impl Versions {
    /// Returns a world with three replicas and these clients. Its only faults are loss, delay and
    /// reordering of messages.
    pub fn plain(name: &'static str, clients: &[(u64, &[Task])]) -> Versions {
        let script = |(lead, tasks): &(u64, &[Task])| (*lead, tasks.to_vec());
        Versions {
            name,
            rules: Rules::CORRECT,
            clients: clients.iter().map(script).collect(),
            rounds: 40,
            timeouts: 0,
            crashes: 0,
            restarts: 0,
            repeats: 0,
            spreads: 0,
            floors: 0,
            epochs: vec![Config::first(vec![0, 1, 2])],
            nodes: 3,
        }
    }

    /// Returns true if the bucket's settings change, so that replicas have write fences.
    pub(super) fn has_fences(&self) -> bool {
        let mut tasks = self.clients.iter().flat_map(|(_, tasks)| tasks);
        tasks.any(|task| *task == Task::Enable)
    }
}
