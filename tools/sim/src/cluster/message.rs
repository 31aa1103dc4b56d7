//! What machines send to one another in the simulation.

use std::collections::BTreeMap;
use std::rc::Rc;

use archipel_base::Stamp;
use archipel_cluster::register::epoch::Config;
use archipel_cluster::register::floor::{FloorAnswer, FloorRequest};
use archipel_cluster::register::windows::{Prints, WindowId};
use archipel_cluster::register::{Answer, Request, Version};

/// A machine's disk: it gets another name when it is lost and replaced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StoreName {
    /// Which machine.
    pub machine: usize,
    /// Which disk of its life.
    pub disk: u32,
}

/// The name of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// One that clients write.
    Data(u8),
    /// The row in which the successor of an epoch is chosen.
    Successor(u64),
}

impl Key {
    /// The bytes that fingerprints are made of.
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

/// What a row holds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Value {
    /// What a client wrote.
    Data(u32),
    /// An epoch.
    Config(Rc<Config<StoreName>>),
}

/// A message. Each carries its sender's epoch, so that whoever is behind learns it.
#[derive(Clone, Debug)]
pub struct Message {
    /// Which machine sent it.
    pub from: usize,
    /// To which machine.
    pub to: usize,
    /// The incarnation of the sender, if it is one.
    pub sender: Option<usize>,
    /// To which incarnation; `None` to the coordinator there.
    pub replica: Option<usize>,
    /// What the sender knows of the layout.
    pub config: Rc<Config<StoreName>>,
    /// What.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// A coordinator asks.
    Ask {
        /// The operation.
        operation: u64,
        /// Its round.
        round: u32,
        /// The row.
        key: Key,
        /// What.
        request: Request<Value>,
    },
    /// A replica answers.
    Tell {
        /// The operation.
        operation: u64,
        /// Its round.
        round: u32,
        /// What.
        answer: Answer<Value>,
    },
    /// Anti-entropy: these are my fingerprints in these windows (`None`: of the months).
    Compare(Option<Vec<WindowId>>, Prints),
    /// Anti-entropy: these are my stamps in these hours.
    Stamps(Vec<WindowId>, BTreeMap<Key, Stamp>),
    /// Anti-entropy: I lack these.
    Want(Vec<Key>),
    /// Anti-entropy: hold these; a quorum is known to hold them.
    Rows(Vec<(Key, Version<Value>)>, bool),
    /// A floor round asks.
    Floor(u64, FloorRequest),
    /// The answer.
    Floored(u64, FloorAnswer<BTreeMap<Key, Stamp>>),
    /// There is a newer layout: the message carries it, as all do.
    Announce,
    /// List your keys, for the retirement of a layout version.
    List,
    /// The keys.
    Keys(Vec<Key>),
}
