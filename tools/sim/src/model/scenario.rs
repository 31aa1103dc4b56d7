//! The scenarios to check.

use archipel_cluster::register::Rules;
use archipel_cluster::register::epoch::Config;

/// A client's task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Task {
    /// Reads.
    Read,
    /// Writes a value (`None` deletes).
    Write(Option<u32>),
    /// Writes the second value if the first is the current one.
    Swap(Option<u32>, Option<u32>),
    /// Writes the value if its condition is asked once, and leaves the row alone if it is asked
    /// again.
    Fickle(u32),
    /// Reads the row under the last epoch but one, then retires the oldest layout version.
    Retire,
}

/// A client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClientScript {
    /// The lead of its clock.
    pub skew: u64,
    /// Its tasks, in order.
    pub tasks: Vec<Task>,
}

/// A small world to explore.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The rules in force.
    pub rules: Rules,
    /// The number of replicas in all epochs.
    pub nodes: usize,
    /// The possible epochs, in order.
    pub epochs: Vec<Config<usize>>,
    /// Epochs up to this one may be chosen at any time.
    pub free_epochs: u64,
    /// The clients.
    pub clients: Vec<ClientScript>,
    /// The number of rounds after which an operation's client gives up.
    pub rounds: u32,
    /// The number of times that each client may stop waiting.
    pub timeouts: u8,
    /// The number of restarts.
    pub restarts: u8,
    /// The number of repeated messages.
    pub repeats: u8,
    /// The number of rows that replicas may send to one another.
    pub spreads: u8,
    /// The number of floor rounds.
    pub floors: u8,
}

impl Scenario {
    /// Returns a scenario with three replicas, one layout and these clients. Its only faults are
    /// loss, delay and reordering of messages.
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
