//! The ends of tasks.

use super::Doing;
use crate::model::uploads::check::{self, Event, Reply};
use crate::model::uploads::{Task, Uploads, World};

impl Uploads {
    /// Ends a task whose result is unknown.
    pub(super) fn give_up(&self, world: &mut World, c: usize, doing: &Doing) {
        if matches!(doing.task, Task::Read | Task::Look | Task::Collect) {
            return self.void(world, c);
        }
        world.clients[c].crash();
    }

    /// Ends a task that certainly did nothing.
    pub(super) fn void(&self, world: &mut World, c: usize) {
        if let Some(doing) = &world.clients[c].doing {
            let own = |e: &Event| e.client == c && e.called == doing.called && e.reply.is_none();
            world.history.retain(|event| !own(event));
        }
        world.clients[c].crash();
    }

    pub(super) fn answer_client(&self, world: &mut World, c: usize, reply: Reply) {
        self.reply(world, c, reply);
        world.clients[c].crash();
    }

    pub(super) fn reply(&self, world: &mut World, c: usize, reply: Reply) {
        let Some(doing) = world.clients[c].doing.as_mut().filter(|d| !d.answered) else {
            return;
        };
        doing.answered = true;
        world.now += 1;
        let now = world.now;
        let open = |e: &&mut Event| e.client == c;
        if let Some(event) = world.history.iter_mut().rev().find(open) {
            event.reply = Some((now, reply));
        }
        world.violated |= !check::is_linearizable(&world.history);
    }
}
