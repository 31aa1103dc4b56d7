//! A change of the bucket's settings: fences that move one by one, and nodes that hear of it.
//!
//! Only a write of a null version from before the change matters, so a fence has two states.

use archipel_cluster::register::rules::Mutant;

use super::check::{Call, Reply};
use super::{Action, Versions, World};

/// The change in progress.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Change {
    /// The client that makes it.
    pub(super) client: usize,
    /// True once the client has its answer.
    pub(super) is_answered: bool,
}

impl World {
    /// Returns true if a client waits for the answer to its change of the settings.
    pub(super) fn is_changing(&self, client: usize) -> bool {
        let change = self.change.as_ref();
        change.is_some_and(|change| change.client == client && !change.is_answered)
    }
}

impl Versions {
    pub(super) fn settings_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let Some(change) = &world.change else {
            return;
        };
        let unmoved = (0..self.nodes).filter(|n| !world.nodes[*n].has_moved);
        actions.extend(unmoved.map(Action::Move));
        let unaware = (0..world.clients.len()).filter(|c| !world.clients[*c].knows);
        actions.extend(unaware.map(Action::Hear));
        if !change.is_answered && self.may_answer(world) {
            actions.push(Action::Confirm);
        }
    }

    /// Returns true if a quorum's fences have moved, and no node begins a write by the old settings
    /// any more: it has heard of the change, or its lease is over.
    fn may_answer(&self, world: &World) -> bool {
        let moved = (0..self.nodes).filter(|n| world.nodes[*n].has_moved);
        let quorums = self.start(world.chosen).quorums;
        let all_know = world.clients.iter().all(|client| client.knows);
        quorums.is_quorum(moved.collect()) && (all_know || self.rules.breaks(Mutant::AnswerEarly))
    }

    pub(super) fn confirm(&self, world: &mut World) {
        world.now += 1;
        let now = world.now;
        let enabling = world.history.iter_mut();
        if let Some(event) = enabling.rev().find(|event| event.call == Call::Enable) {
            event.reply = Some((now, Reply::Done(None)));
        }
        if let Some(change) = &mut world.change {
            change.is_answered = true;
        }
    }
}
