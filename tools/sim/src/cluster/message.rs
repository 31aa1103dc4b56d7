//! Messages between machines in the simulation.

use std::collections::BTreeMap;
use std::rc::Rc;

use archipel_base::Stamp;
use archipel_cluster::register::epoch::Config;
use archipel_cluster::register::floor::{FloorAnswer, FloorRequest};
use archipel_cluster::register::windows::{Prints, WindowId};
use archipel_cluster::register::{Answer, Request, RowValue, Version};

/// A machine's disk. A replaced disk has another name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StoreName {
    /// The machine.
    pub machine: usize,
    /// The number of the disk in the machine's life.
    pub disk: u32,
}

/// The name of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// A row that clients write.
    Data(u8),
    /// The row in which the successor of an epoch is chosen.
    Successor(u64),
}

impl Key {
    /// Returns the bytes that digests are made of.
    pub fn bytes(self) -> [u8; 9] {
        let mut bytes = [0; 9];
        match self {
            Key::Data(key) => bytes[8] = key,
            Key::Successor(epoch) => {
                bytes[0] = 1;
                bytes[1..].copy_from_slice(&epoch.to_be_bytes());
            }
        }
        bytes
    }
}

/// The value of a row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Value {
    /// A value that a client wrote.
    Data(u32),
    /// An epoch.
    Config(Rc<Config<StoreName>>),
}

impl RowValue for Value {}

/// A message. Each carries its sender's epoch, so that a machine that lags behind learns it.
#[derive(Clone, Debug)]
pub struct Message {
    /// The sender.
    pub from: usize,
    /// The receiver.
    pub to: usize,
    /// The sender's incarnation, if it has one.
    pub sender: Option<usize>,
    /// The receiving incarnation; `None` for the coordinator.
    pub replica: Option<usize>,
    /// The newest layout that the sender knows.
    pub config: Rc<Config<StoreName>>,
    /// The content.
    pub payload: Body,
}

/// The content of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// A coordinator's request.
    Ask {
        /// The operation.
        operation: u64,
        /// Its round.
        round: u32,
        /// The row.
        key: Key,
        /// The request.
        request: Request<Value>,
    },
    /// A replica's answer.
    Answer {
        /// The operation.
        operation: u64,
        /// Its round.
        round: u32,
        /// The answer.
        answer: Answer<Value>,
    },
    /// Anti-entropy: the sender's digests of these windows (`None`: of the months).
    Compare(Option<Vec<WindowId>>, Prints),
    /// Anti-entropy: the sender's stamps in these hours.
    Stamps(Vec<WindowId>, BTreeMap<Key, Stamp>),
    /// Anti-entropy: rows that the sender lacks.
    Want(Vec<Key>),
    /// Anti-entropy: rows to hold, and whether a quorum is known to hold them.
    Rows(Vec<(Key, Version<Value>)>, bool),
    /// A floor round's request.
    Floor(u64, FloorRequest<BTreeMap<Key, Stamp>>),
    /// The answer to a floor round.
    FloorAnswer(u64, FloorAnswer<BTreeMap<Key, Stamp>>),
    /// Announces a newer layout. The message carries it, as all messages do.
    Announce,
    /// Asks for all keys, for the retirement of a layout version.
    List,
    /// All keys of the sender.
    Keys(Vec<Key>),
}
