//! A checker of linearizability for the history of one key.
//!
//! It looks for an order of the operations that agrees with real time and in which each result is
//! right (Wing and Gong 1993), and remembers what it tried (Lowe 2017). Operations whose result is not
//! known may be put anywhere after their call, or left out.

use std::collections::HashSet;

/// What a client asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Call {
    /// Read.
    Read,
    /// Write a value (`None` deletes).
    Write(Option<u32>),
    /// Write the second if the first is there.
    Swap(Option<u32>, Option<u32>),
}

/// What a client was told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reply {
    /// To a read: the value. To a swap: it failed on this value.
    Saw(Option<u32>),
    /// The write took effect.
    Done,
}

/// One operation in a history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Event {
    /// Which client.
    pub client: usize,
    /// What it asked for.
    pub call: Call,
    /// When, in any unit.
    pub called: u64,
    /// When it was answered and what; `None` if it never was, or was told that it is not known.
    pub reply: Option<(u64, Reply)>,
}

/// How many operations a history may have.
pub const MAX_EVENTS: usize = 128;

/// Whether the history of one key (absent at first) is linearizable. Longer histories than
/// [`MAX_EVENTS`] are refused.
pub fn is_linearizable(history: &[Event]) -> bool {
    let history: Vec<Event> = history
        .iter()
        .copied()
        .filter(|e| matters(e, history))
        .collect();
    assert!(
        history.len() <= MAX_EVENTS,
        "a history of this length is not checked"
    );
    let mut tried = HashSet::new();
    search(&history, 0, None, &mut tried)
}

/// Leaves out what cannot make a difference: operations without a known result that only read, or
/// that write a value which nobody ever saw.
fn matters(event: &Event, history: &[Event]) -> bool {
    if event.reply.is_some() {
        return true;
    }
    match event.call {
        Call::Read => false,
        Call::Write(None) | Call::Swap(_, None) => true,
        Call::Write(value) | Call::Swap(_, value) => {
            history.iter().any(|e| match (e.call, e.reply) {
                (_, Some((_, Reply::Saw(saw)))) => saw == value,
                (Call::Swap(expected, _), _) => expected == value,
                _ => false,
            })
        }
    }
}

fn search(
    history: &[Event],
    placed: u128,
    value: Option<u32>,
    tried: &mut HashSet<(u128, Option<u32>)>,
) -> bool {
    let open = |i: &usize| placed & 1 << i == 0;
    let unplaced = (0..history.len()).filter(open);
    let first_return = unplaced
        .clone()
        .filter_map(|i| history[i].reply.map(|(at, _)| at))
        .min();
    let Some(first_return) = first_return else {
        return true;
    };
    if !tried.insert((placed, value)) {
        return false;
    }
    let available: Vec<usize> = unplaced
        .filter(|i| history[*i].called < first_return)
        .collect();
    let is_new = |n: usize| {
        let event = &history[available[n]];
        let same = |other: &usize| {
            let other = &history[*other];
            other.reply.is_none() && other.call == event.call
        };
        // Of those without a known result that ask for the same, each may stand here or anywhere later: one is tried for all.
        event.reply.is_some() || !available[..n].iter().any(same)
    };
    let mut wanted = (0..available.len()).filter(|n| is_new(*n));
    wanted.any(|n| {
        let event = &history[available[n]];
        let reply = event.reply.map(|(_, reply)| reply);
        match apply(event.call, reply, value) {
            // Without a known result and without an effect it need not be placed at all.
            Some(next) if reply.is_none() && next == value => false,
            Some(next) => search(history, placed | 1 << available[n], next, tried),
            None => false,
        }
    })
}

/// The value after an operation, if its result is right on `value`.
fn apply(call: Call, reply: Option<Reply>, value: Option<u32>) -> Option<Option<u32>> {
    let takes_effect = match (call, reply) {
        (Call::Read, Some(Reply::Saw(saw))) => return (saw == value).then_some(value),
        (Call::Swap(expected, _), Some(Reply::Saw(saw))) => {
            return (saw == value && saw != expected).then_some(value);
        }
        (Call::Read, _) => return Some(value),
        (Call::Swap(expected, _), _) => expected == value,
        (Call::Write(_), _) => true,
    };
    match call {
        Call::Write(new) | Call::Swap(_, new) if takes_effect => Some(new),
        // Without an effect a swap with an unknown result need not be placed at all.
        _ => None,
    }
}

#[cfg(test)]
mod tests;
