//! A replica that lacks the upload's row reads it at a quorum, as `archipel_cluster::data` does,
//! and then handles what it has received once more.

use archipel_cluster::register::{NextStamp, Operation, Outcome, Output, Version};

use super::{Row, Uploads, Value};
use crate::model::client::next_stamp;
use crate::model::network::{Asker, Packet};
use crate::model::scenario::Scenario;
use crate::model::world::World;

/// The number of rounds after which a replica gives up.
const ROUNDS: u32 = 12;

/// The read of a replica, in progress.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bringing {
    /// The read, and the packet that the replica handles afterwards.
    running: Option<(Operation<Value>, Packet<Uploads>)>,
    operations: u32,
    epoch: u64,
    last_stamp: u64,
    /// True while the replica handles that packet, if a quorum has told it that the upload is over.
    pub(super) is_over: bool,
}

impl Bringing {
    pub(super) fn stop(&mut self) {
        self.running = None;
    }

    pub(super) fn waits_for(&self, operation: u32, round: u32) -> bool {
        let running = self.running.as_ref();
        self.operations == operation && running.is_some_and(|(read, _)| read.round() == round)
    }
}

impl Scenario<Uploads> {
    /// Begins to read the upload's row for a replica that must handle this packet afterwards. A
    /// replica that is reading already loses the packet.
    pub(super) fn begin_bringing(
        &self,
        world: &mut World<Uploads>,
        n: usize,
        packet: Packet<Uploads>,
    ) {
        let node = &mut world.nodes[n];
        let bringing = &mut node.rows.bringing;
        if bringing.running.is_some() {
            return;
        }
        let (operation, outputs) = Operation::read(self.start(node.epoch));
        bringing.epoch = node.epoch;
        bringing.operations += 1;
        bringing.running = Some((operation, packet));
        self.carry_on(world, n, outputs);
    }

    /// Lets a replica's read make a step, and carries out its outputs.
    pub(super) fn drive_bringing(
        &self,
        world: &mut World<Uploads>,
        n: usize,
        step: impl FnOnce(&mut Operation<Value>, &mut NextStamp<'_>) -> Vec<Output<Value>>,
    ) {
        let coordinator = self.clients.len() + n;
        let bringing = &mut world.nodes[n].rows.bringing;
        let Some((operation, _)) = bringing.running.as_mut() else {
            return;
        };
        let last_stamp = &mut bringing.last_stamp;
        let outputs = step(operation, &mut next_stamp(last_stamp, coordinator));
        self.carry_on(world, n, outputs);
    }

    fn carry_on(&self, world: &mut World<Uploads>, n: usize, outputs: Vec<Output<Value>>) {
        for output in outputs {
            let bringing = &mut world.nodes[n].rows.bringing;
            match output {
                Output::Send { to, round, request } if round <= ROUNDS => {
                    let packet = Packet::Ask {
                        by: Asker::Node(n),
                        operation: bringing.operations,
                        epoch: bringing.epoch,
                        to,
                        round,
                        about: (Row::Upload, None),
                        request,
                    };
                    world.network.insert(packet);
                }
                Output::Pause { .. } => {
                    self.drive_bringing(world, n, |operation, next| operation.resume(next));
                }
                Output::Done(Outcome::Value(version)) => {
                    if let Some((_, packet)) = bringing.running.take() {
                        self.handle_again(world, n, version, packet);
                    }
                    return;
                }
                // The replica gives up: the sender sends the packet again.
                _ => return bringing.stop(),
            }
        }
    }

    /// Lets a replica handle a packet once more, after it has read the upload's row.
    fn handle_again(
        &self,
        world: &mut World<Uploads>,
        n: usize,
        version: Version<Value>,
        packet: Packet<Uploads>,
    ) {
        let is_over = version.value.is_none();
        let node = &mut world.nodes[n];
        let epoch = node.rows.bringing.epoch;
        if !is_over {
            self.take(node, epoch, Row::Upload, version, true);
        }
        node.rows.bringing.is_over = is_over;
        self.receive(world, packet);
        let bringing = &mut world.nodes[n].rows.bringing;
        bringing.is_over = false;
        // The read is enough, or the replica loses the packet: it does not read twice.
        bringing.stop();
    }
}
