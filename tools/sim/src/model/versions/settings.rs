//! A change of the bucket's settings: fences that move one by one, and nodes that hear of it.
//!
//! Only a write of a null version from before the change matters, so a fence has two states.

use archipel_cluster::register::rules::Mutant;

use super::check::{Call, Reply};
use super::{Step, Versions};
use crate::model::scenario::Scenario;
use crate::model::world::World;

/// The change in progress.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Change {
    /// The client that makes it.
    pub(super) client: usize,
    /// True once the client has its answer.
    pub(super) is_answered: bool,
}

impl World<Versions> {
    /// Returns true if a client waits for the answer to its change of the settings.
    pub(super) fn is_changing(&self, client: usize) -> bool {
        let change = self.extra.change.as_ref();
        change.is_some_and(|change| change.client == client && !change.is_answered)
    }

    /// Answers the change.
    pub(super) fn confirm(&mut self) {
        self.now += 1;
        let now = self.now;
        let enabling = self.history.iter_mut();
        if let Some(event) = enabling.rev().find(|event| event.call == Call::Enable) {
            event.reply = Some((now, Reply::Done(None)));
        }
        if let Some(change) = &mut self.extra.change {
            change.is_answered = true;
        }
    }
}

impl Scenario<Versions> {
    /// Returns the possible steps of the change.
    pub(super) fn settings_steps(&self, world: &World<Versions>) -> Vec<Step> {
        let Some(change) = &world.extra.change else {
            return Vec::new();
        };
        let unmoved = (0..self.nodes).filter(|n| !world.nodes[*n].rows.has_moved());
        let unaware = (0..world.clients.len()).filter(|c| !world.clients[*c].memory.knows);
        let mut steps: Vec<Step> = unmoved.map(Step::Move).collect();
        steps.extend(unaware.map(Step::Hear));
        if !change.is_answered && self.may_answer(world) {
            steps.push(Step::Confirm);
        }
        steps
    }

    /// Returns true if a quorum's fences have moved, and no node begins a write by the old settings
    /// any more: it has heard of the change, or its lease is over.
    fn may_answer(&self, world: &World<Versions>) -> bool {
        let moved = (0..self.nodes).filter(|n| world.nodes[*n].rows.has_moved());
        let quorums = self.start(world.chosen).quorums;
        let all_know = world.clients.iter().all(|client| client.memory.knows);
        quorums.is_quorum(moved.collect()) && (all_know || self.rules.breaks(Mutant::AnswerEarly))
    }
}
