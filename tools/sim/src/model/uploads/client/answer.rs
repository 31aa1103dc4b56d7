//! The ends of tasks.

use super::Doing;
use crate::model::scenario::Scenario;
use crate::model::uploads::check::Reply;
use crate::model::uploads::{Task, Uploads};
use crate::model::world::World;

impl Scenario<Uploads> {
    /// Ends a task whose result is unknown.
    pub(super) fn give_up(&self, world: &mut World<Uploads>, c: usize, doing: &Doing) {
        if matches!(doing.task, Task::Read | Task::Look | Task::Collect) {
            return self.void(world, c);
        }
        world.clients[c].end();
    }

    /// Ends a task that certainly did nothing.
    pub(super) fn void(&self, world: &mut World<Uploads>, c: usize) {
        world.forget_call(c);
        world.clients[c].end();
    }

    pub(super) fn answer_client(&self, world: &mut World<Uploads>, c: usize, reply: Reply) {
        self.reply(world, c, reply);
        world.clients[c].end();
    }

    /// Answers the client, unless it has its answer. The task goes on.
    pub(super) fn reply(&self, world: &mut World<Uploads>, c: usize, reply: Reply) {
        let Some(doing) = world.clients[c].doing.as_mut().filter(|d| !d.answered) else {
            return;
        };
        doing.answered = true;
        world.reply(c, reply);
    }
}
