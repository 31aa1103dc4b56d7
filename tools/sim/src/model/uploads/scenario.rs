//! Clients, their tasks and the faults of a world.

use archipel_cluster::register::epoch::Config;
use archipel_cluster::register::{Intent, RowValue, Rules};

/// A client's task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Task {
    /// Puts the object.
    Put,
    /// Puts the object if there is none.
    Create,
    /// Reads the object.
    Read,
    /// Asks whether the upload is in progress.
    Look,
    /// Completes the upload.
    Complete,
    /// Completes the upload if there is no object.
    CompleteIfNone,
    /// Aborts the upload.
    Abort,
    /// Drops the upload's parts if nobody needs them.
    Collect,
}

/// A row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Row {
    /// The object's, which decides.
    Object,
    /// The upload's, which points.
    Upload,
}

/// The value of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Value {
    /// The number of the object's content; 0 for the upload.
    pub number: u32,
    /// Of an object: the completion that it is. Of an upload: the write that it points to.
    pub intent: Option<Intent>,
}

impl RowValue for Value {}

/// A small world to explore.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Uploads {
    /// Its name.
    pub name: &'static str,
    /// The rules in force.
    pub rules: Rules,
    /// The clients: the lead of the clock, and the tasks.
    pub clients: Vec<(u64, Vec<Task>)>,
    /// The lead of the clock that began the upload.
    pub upload_ahead: u64,
    /// True if the last replica of the first layout missed the beginning of the upload.
    pub is_missed: bool,
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

impl Uploads {
    /// Returns a world with three replicas and these clients. Its only faults are loss, delay and
    /// reordering of messages.
    pub fn plain(name: &'static str, clients: &[(u64, &[Task])]) -> Uploads {
        let script = |(lead, tasks): &(u64, &[Task])| (*lead, tasks.to_vec());
        Uploads {
            name,
            rules: Rules::CORRECT,
            clients: clients.iter().map(script).collect(),
            upload_ahead: 0,
            is_missed: false,
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
}
