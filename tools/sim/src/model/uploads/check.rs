//! A checker of linearizability for the history of an object and its upload.

use std::collections::HashSet;

use crate::linear;

/// A client's request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Call {
    /// Puts this object; if there is none, where it says so.
    Put(u32, bool),
    /// Reads the object.
    Read,
    /// Asks whether the upload is in progress.
    Look,
    /// Completes the upload as this object; if there is none, where it says so.
    Complete(u32, bool),
    /// Aborts the upload.
    Abort,
    /// Drops the upload's parts.
    Collect,
}

/// A client's answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reply {
    /// It is done.
    Done,
    /// The condition failed. Nothing was done.
    Failed,
    /// There is no such upload.
    Gone,
    /// The upload is in progress.
    Live,
    /// The upload became the current object before.
    Again,
    /// The object.
    Saw(Option<u32>),
}

/// One operation in a history.
pub type Event = linear::Event<Call, Reply>;

/// The object, and true while the upload is in progress.
type State = (Option<u32>, bool);

/// Returns true if the history is linearizable, with one relaxation: a completion without an
/// answer may end the upload and have no other effect.
pub fn is_linearizable(history: &[Event]) -> bool {
    let completions: HashSet<u32> = history
        .iter()
        .filter_map(|event| match event.call {
            Call::Complete(number, _) => Some(number),
            _ => None,
        })
        .collect();
    search(history, &completions, 0, (None, true), &mut HashSet::new())
}

fn search(
    history: &[Event],
    completions: &HashSet<u32>,
    placed: u64,
    state: State,
    tried: &mut HashSet<(u64, State)>,
) -> bool {
    let unplaced = (0..history.len()).filter(|i| placed & 1 << i == 0);
    let replies = unplaced.clone().filter_map(|i| history[i].reply);
    let Some(first) = replies.map(|(at, _)| at).min() else {
        return true;
    };
    if !tried.insert((placed, state)) {
        return false;
    }
    let mut open = unplaced.filter(|i| history[*i].called < first);
    open.any(|i| {
        let event = &history[i];
        let next = after(event.call, event.reply.map(|r| r.1), state, completions);
        let mut next = next.into_iter().flatten();
        next.any(|state| search(history, completions, placed | 1 << i, state, tried))
    })
}

/// Returns the states after an operation, if its answer is right.
fn after(
    call: Call,
    reply: Option<Reply>,
    (object, live): State,
    completions: &HashSet<u32>,
) -> [Option<State>; 2] {
    let same = (object, live);
    let completed = object.is_some_and(|number| completions.contains(&number));
    let when = |condition: bool, state: State| [condition.then_some(state), None];
    match (call, reply) {
        (Call::Put(new, if_none), None | Some(Reply::Done)) => {
            when(!if_none || object.is_none(), (Some(new), live))
        }
        (Call::Put(_, if_none), Some(Reply::Failed)) => when(if_none && object.is_some(), same),
        (Call::Read, Some(Reply::Saw(saw))) => when(saw == object, same),
        (Call::Look, Some(Reply::Live)) => when(live, same),
        (Call::Look | Call::Complete(..) | Call::Abort, Some(Reply::Gone)) => when(!live, same),
        (Call::Complete(new, if_none), Some(Reply::Done)) => {
            when(live && (!if_none || object.is_none()), (Some(new), false))
        }
        (Call::Complete(_, if_none), Some(Reply::Failed)) => {
            when(live && if_none && object.is_some(), same)
        }
        (Call::Complete(..), Some(Reply::Again)) => when(!live && completed, same),
        (Call::Complete(new, if_none), None) => {
            let effect = live && (!if_none || object.is_none());
            [
                effect.then_some((Some(new), false)),
                live.then_some((object, false)),
            ]
        }
        (Call::Abort, None | Some(Reply::Done)) => when(live, (object, false)),
        (Call::Collect, Some(Reply::Done)) => when(!live && !completed, same),
        _ => [None, None],
    }
}
