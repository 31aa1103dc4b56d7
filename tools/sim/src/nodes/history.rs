//! What clients asked and were told, in an order that is that of real time.

use std::collections::BTreeMap;

use crate::linear::{Call, Event, Reply};

/// One operation on a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Happened {
    /// Which client.
    pub client: usize,
    /// What it asked for.
    pub call: Call,
    /// When.
    pub called: u64,
    /// When it ended; `None` if it never did, or its end says nothing.
    pub ended: Option<u64>,
    /// What it was told.
    pub reply: Option<Reply>,
    /// It certainly took no effect.
    pub void: bool,
}

impl Happened {
    /// For the checker of linearizability; `None` if there is nothing to check.
    fn event(&self) -> Option<Event> {
        if self.void {
            return None;
        }
        Some(Event {
            client: self.client,
            call: self.call,
            called: self.called,
            reply: self.ended.zip(self.reply),
        })
    }
}

/// A page of a listing that a client was shown.
#[derive(Clone, Debug)]
pub struct Page {
    /// When it was asked for, and when it came.
    pub between: (u64, u64),
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys that hold it behind the prefix are rolled up.
    pub delimiter: Option<String>,
    /// What is at or below was left out.
    pub after: Option<String>,
    /// Whether there is more.
    pub truncated: bool,
    /// Keys with their objects' numbers, and prefixes.
    pub entries: Vec<(String, Option<u32>)>,
}

/// All that clients saw of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    time: u64,
    /// By key.
    pub keys: BTreeMap<String, Vec<Happened>>,
    /// Listings.
    pub pages: Vec<Page>,
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// So.
    Told(Reply),
    /// Nobody knows.
    Unknown,
    /// Without effect.
    Void,
}

impl History {
    /// The next moment.
    pub fn tick(&mut self) -> u64 {
        self.time += 1;
        self.time
    }

    /// How many operations there were on a key.
    pub fn of(&self, key: &str) -> usize {
        self.keys.get(key).map_or(0, Vec::len)
    }

    /// An operation begins; gives its place among those of the key.
    pub fn begin(&mut self, client: usize, key: &str, call: Call) -> usize {
        let called = self.tick();
        let all = self.keys.entry(key.to_owned()).or_default();
        all.push(Happened {
            client,
            call,
            called,
            ended: None,
            reply: None,
            void: false,
        });
        all.len() - 1
    }

    /// It ends.
    pub fn end(&mut self, key: &str, place: usize, end: End) {
        let now = self.tick();
        let all = self.keys.get_mut(key);
        let Some(happened) = all.and_then(|all| all.get_mut(place)) else {
            return;
        };
        match end {
            End::Told(reply) => (happened.ended, happened.reply) = (Some(now), Some(reply)),
            End::Void => (happened.ended, happened.void) = (Some(now), true),
            End::Unknown => {}
        }
    }

    /// The history of a key for the checker of linearizability.
    pub fn events(happened: &[Happened]) -> Vec<Event> {
        happened.iter().filter_map(Happened::event).collect()
    }
}
