//! The tasks of clients.

use archipel_cluster::register::epoch::Retirement;
use archipel_cluster::register::{Decision, Operation, Outcome};

use super::{Register, Task};
use crate::linear::{Call, Reply};
use crate::model::client::Client;
use crate::model::scenario::Scenario;
use crate::model::world::World;

impl Client<Register> {
    pub(super) fn decide(&mut self, value: Option<u32>) -> Decision<u32> {
        let asked = std::mem::replace(&mut self.memory.asked, true);
        match self.doing {
            Some(Task::Swap(expected, new)) if expected == value => Decision::Write(new),
            Some(Task::Fickle(new)) if !asked => Decision::Write(Some(new)),
            _ => Decision::Keep,
        }
    }
}

impl Scenario<Register> {
    pub(super) fn begin_task(&self, world: &mut World<Register>, c: usize, task: Task) {
        let client = &mut world.clients[c];
        client.memory.asked = false;
        let call = match task {
            Task::Read => Some(Call::Read),
            Task::Fickle(value) => Some(Call::Write(Some(value))),
            Task::Retire => {
                client.epoch = self.retiring();
                if self.retirement().is_complete(self.rules) {
                    world.chosen = self.retiring() + 1;
                    return;
                }
                None
            }
            Task::Write(value) => Some(Call::Write(value)),
            Task::Swap(expected, value) => Some(Call::Swap(expected, value)),
        };
        client.doing = Some(task);
        if let Some(call) = call {
            world.call(c, call);
        }
        self.start_operation(world, c, |start, id, next| match task {
            Task::Read | Task::Retire => Operation::read(start),
            Task::Write(value) => Operation::write(start, id, value, false, next),
            Task::Swap(..) | Task::Fickle(_) => Operation::update(start, id, false, next),
        });
    }

    pub(super) fn finish(&self, world: &mut World<Register>, c: usize, outcome: &Outcome<u32>) {
        let Some(task) = world.clients[c].doing.take() else {
            return;
        };
        if task == Task::Retire {
            if matches!(outcome, Outcome::Value(_)) {
                self.retire(world);
            }
            return;
        }
        let reply = match outcome {
            Outcome::Value(version) | Outcome::Kept(version) => Reply::Saw(version.value),
            Outcome::Written { .. } => Reply::Done,
            Outcome::Unknown | Outcome::Seen(_) | Outcome::Open(_) => return,
            Outcome::Unavailable | Outcome::Overtaken | Outcome::Held | Outcome::Guarded => {
                return world.forget_call(c);
            }
        };
        if let (Task::Fickle(_), Reply::Saw(_)) = (task, reply)
            && let Some(event) = world.last_call(c)
        {
            // It left the row alone, so it only read.
            event.call = Call::Read;
        }
        world.reply(c, reply);
    }

    /// Returns the epoch in which the first layout version retires: the last but one.
    pub(super) fn retiring(&self) -> u64 {
        self.epochs.len() as u64 - 1
    }

    fn retirement(&self) -> Retirement<()> {
        let config = self.config(self.retiring());
        Retirement::of(config.oldest(self.rules, |m| m.node))
    }

    /// Retires the first version, because all rows (there is one) were read under both.
    fn retire(&self, world: &mut World<Register>) {
        let mut retirement = self.retirement();
        // The read's quorum has a majority of the oldest version. All of its replicas know the
        // epoch.
        let config = self.config(self.retiring());
        let oldest = config.oldest(self.rules, |m| m.node);
        for replica in oldest.iter().flat_map(|set| set.iter()) {
            retirement.on_listed(replica, [()]);
        }
        retirement.on_read(());
        if retirement.is_complete(self.rules) {
            world.chosen = self.retiring() + 1;
        }
    }
}
