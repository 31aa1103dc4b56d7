//! A checker of linearizability for the history of one key.
//!
//! It looks for an order of the operations that agrees with real time and gives each result (Wing
//! and Gong 1993), and remembers the orders that it tried (Lowe 2017). An operation with an unknown
//! result may stand anywhere after its call, or be left out.

use std::collections::HashSet;

/// A client's request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Call {
    /// Reads.
    Read,
    /// Writes a value (`None` deletes).
    Write(Option<u32>),
    /// Writes the second value if the first is the current one.
    Swap(Option<u32>, Option<u32>),
}

/// A client's answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reply {
    /// A read returned this value, or a swap failed on it.
    Saw(Option<u32>),
    /// The write took effect.
    Done,
}

/// One operation in a history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Event<C = Call, R = Reply> {
    /// The client.
    pub client: usize,
    /// The request.
    pub call: C,
    /// The time of the call, in any unit.
    pub called: u64,
    /// The time and content of the answer. `None` if there was no answer or the result is unknown.
    pub reply: Option<(u64, R)>,
}

/// The largest number of operations in a history.
pub const MAX_EVENTS: usize = 128;

/// Returns true if the history of one key (absent at first) is linearizable. Refuses histories
/// longer than [`MAX_EVENTS`].
pub fn is_linearizable(history: &[Event]) -> bool {
    let history: Vec<Event> = history
        .iter()
        .copied()
        .filter(|e| matters(e, history))
        .collect();
    assert!(
        history.len() <= MAX_EVENTS,
        "the history is too long to check"
    );
    let mut tried = HashSet::new();
    search(&history, 0, None, &mut tried)
}

/// Returns false for operations that make no difference: those without a known result that only
/// read, or that write a value which no client ever saw.
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
    mut placed: u128,
    value: Option<u32>,
    tried: &mut HashSet<(u128, Option<u32>)>,
) -> bool {
    let available = loop {
        let Some(available) = available(history, placed) else {
            return true;
        };
        // An operation that never changes anything, and whose answer is right here, is placed at
        // once: that only takes limits from the rest. A deletion of what is absent may be needed
        // later.
        let is_plain = |i: &&usize| {
            let reply = history[**i].reply.map(|(_, reply)| reply);
            matches!(reply, Some(Reply::Saw(_)))
                && apply(history[**i].call, reply, value) == Some(value)
        };
        match available.iter().find(is_plain) {
            Some(i) => placed |= 1 << i,
            None => break available,
        }
    };
    if !tried.insert((placed, value)) {
        return false;
    }
    let is_new = |n: usize| {
        let event = &history[available[n]];
        let same = |other: &usize| {
            let other = &history[*other];
            other.reply.is_none() && other.call == event.call
        };
        // Operations without a known result and with the same request are interchangeable: one is
        // tried for all.
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

/// Returns the operations that may come next; `None` if all answered ones are placed.
fn available(history: &[Event], placed: u128) -> Option<Vec<usize>> {
    let open = (0..history.len()).filter(|i| placed & 1 << i == 0);
    let ends = open.clone().filter_map(|i| history[i].reply);
    let first = ends.map(|(at, _)| at).min()?;
    Some(open.filter(|i| history[*i].called < first).collect())
}

/// Returns the value after an operation, if its result is right on `value`.
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
        // A swap with an unknown result and without an effect need not be placed at all.
        _ => None,
    }
}

#[cfg(test)]
mod tests;
