//! The requests of clients and their answers, in real-time order.

use std::collections::BTreeMap;

use crate::linear::{Call, Event, Reply};

/// One operation on a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Happened {
    /// The client.
    pub client: usize,
    /// The request.
    pub call: Call,
    /// The time of the call.
    pub called: u64,
    /// The time of the end; `None` if it never ended, or its end says nothing.
    pub ended: Option<u64>,
    /// The answer.
    pub reply: Option<Reply>,
    /// True if it certainly took no effect.
    pub void: bool,
}

impl Happened {
    /// Returns the event for the checker of linearizability, or `None` if there is nothing to
    /// check.
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

/// A page of a listing that a client got.
#[derive(Clone, Debug)]
pub struct Page {
    /// The times of its request and answer.
    pub between: (u64, u64),
    /// Only keys with this prefix.
    pub prefix: String,
    /// Keys with the delimiter after the prefix are rolled up.
    pub delimiter: Option<String>,
    /// Names at or below this were left out.
    pub after: Option<String>,
    /// True if there is more.
    pub truncated: bool,
    /// Keys with their objects' numbers, and prefixes.
    pub entries: Vec<(String, Option<u32>)>,
}

/// All answers to clients in a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    time: u64,
    /// The operations by key.
    pub keys: BTreeMap<String, Vec<Happened>>,
    /// The pages of listings.
    pub pages: Vec<Page>,
}

/// The end of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The client got this answer.
    Answered(Reply),
    /// The result is unknown.
    Unknown,
    /// It took no effect.
    Void,
}

impl History {
    /// Returns the next moment.
    pub fn tick(&mut self) -> u64 {
        self.time += 1;
        self.time
    }

    /// Returns the number of operations on a key.
    pub fn of(&self, key: &str) -> usize {
        self.keys.get(key).map_or(0, Vec::len)
    }

    /// Begins an operation. Returns its index among those of the key.
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

    /// Ends an operation.
    pub fn end(&mut self, key: &str, index: usize, end: End) {
        let now = self.tick();
        let all = self.keys.get_mut(key);
        let Some(happened) = all.and_then(|all| all.get_mut(index)) else {
            return;
        };
        match end {
            End::Answered(reply) => (happened.ended, happened.reply) = (Some(now), Some(reply)),
            End::Void => (happened.ended, happened.void) = (Some(now), true),
            End::Unknown => {}
        }
    }

    /// Forgets the answer to an operation: nobody knows whether it took effect.
    pub fn forget(&mut self, key: &str, index: usize) {
        let all = self.keys.get_mut(key);
        if let Some(happened) = all.and_then(|all| all.get_mut(index)) {
            (happened.ended, happened.reply) = (None, None);
        }
    }

    /// Returns the history of a key for the checker of linearizability.
    pub fn events(happened: &[Happened]) -> Vec<Event> {
        happened.iter().filter_map(Happened::event).collect()
    }
}
