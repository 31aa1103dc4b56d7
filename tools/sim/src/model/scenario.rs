//! The scenarios that are checked.

use archipel_cluster::register::Rules;
use archipel_cluster::register::epoch::Config;

/// What a client does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Task {
    /// Reads.
    Read,
    /// Writes a value (`None` deletes).
    Write(Option<u32>),
    /// Writes the second if the first is there.
    Swap(Option<u32>, Option<u32>),
    /// Writes the value when it is first asked, and leaves the row alone if it is asked again.
    Fickle(u32),
    /// Reads the row under the last epoch but one, then retires the oldest layout version.
    Retire,
}

/// A client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClientScript {
    /// How far its clock is ahead.
    pub skew: u64,
    /// What it does, one after the other.
    pub tasks: Vec<Task>,
}

/// A small world to be explored.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scenario {
    /// What it is called.
    pub name: &'static str,
    /// The rules in force.
    pub rules: Rules,
    /// How many replicas there are in all epochs.
    pub nodes: usize,
    /// The epochs that may be, in order.
    pub epochs: Vec<Config<usize>>,
    /// Epochs up to this one may be chosen at any time.
    pub free_epochs: u64,
    /// The clients.
    pub clients: Vec<ClientScript>,
    /// How many rounds an operation may take before its client gives up.
    pub rounds: u32,
    /// How many times each client may stop waiting.
    pub timeouts: u8,
    /// How many restarts there may be.
    pub restarts: u8,
    /// How many repeated messages.
    pub repeats: u8,
    /// How many rows replicas may hand to one another.
    pub spreads: u8,
    /// How many floor rounds.
    pub floors: u8,
}

impl Scenario {
    /// Three replicas, one layout, these clients, no faults but loss, delay and reordering.
    pub fn plain(name: &'static str, clients: &[(u64, &[Task])]) -> Scenario {
        let script = |(skew, tasks): &(u64, &[Task])| ClientScript {
            skew: *skew,
            tasks: tasks.to_vec(),
        };
        Scenario {
            name,
            rules: Rules::CORRECT,
            nodes: 3,
            epochs: vec![Config::first(vec![0, 1, 2])],
            free_epochs: 1,
            clients: clients.iter().map(script).collect(),
            rounds: 5,
            timeouts: 0,
            restarts: 0,
            repeats: 0,
            spreads: 0,
            floors: 0,
        }
    }
}
