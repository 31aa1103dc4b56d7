//! A replica that lacks the upload's row reads it at a quorum, as `archipel_cluster::data` does, and then
//! handles what it has received once more.

use archipel_base::Stamp;
use archipel_cluster::register::{Operation, Outcome, Output, Version};

use super::client::next_stamp;
use super::{Asker, Packet, Row, Uploads, Value, World};

/// The number of rounds after which a replica gives up.
const ROUNDS: u32 = 12;

/// The read of a replica, in progress.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bringing {
    running: Option<(Operation<Value>, Packet)>,
    operations: u32,
    epoch: u64,
    last_stamp: u64,
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

impl Uploads {
    /// Begins to read the upload's row for a replica that must handle this packet afterwards. A replica
    /// that is reading already loses the packet.
    pub(super) fn bring(&self, world: &mut World, n: usize, packet: Packet) {
        let node = &mut world.nodes[n];
        if node.bringing.running.is_some() {
            return;
        }
        let (operation, outputs) = Operation::read(self.start(node.epoch));
        node.bringing.epoch = node.epoch;
        node.bringing.operations += 1;
        node.bringing.running = Some((operation, packet));
        self.carry_on(world, n, outputs);
    }

    /// Lets a replica's read make a step, and carries out its outputs.
    pub(super) fn drive_bringing(
        &self,
        world: &mut World,
        n: usize,
        step: impl FnOnce(&mut Operation<Value>, &mut dyn FnMut(Stamp) -> Stamp) -> Vec<Output<Value>>,
    ) {
        let writer = self.clients.len() + n;
        let bringing = &mut world.nodes[n].bringing;
        let Some((operation, _)) = bringing.running.as_mut() else {
            return;
        };
        let outputs = step(operation, &mut next_stamp(&mut bringing.last_stamp, writer));
        self.carry_on(world, n, outputs);
    }

    fn carry_on(&self, world: &mut World, n: usize, outputs: Vec<Output<Value>>) {
        for output in outputs {
            let bringing = &mut world.nodes[n].bringing;
            match output {
                Output::Send { to, round, request } if round <= ROUNDS => {
                    let packet = Packet::Ask {
                        by: Asker::Node(n),
                        operation: bringing.operations,
                        epoch: bringing.epoch,
                        to,
                        round,
                        row: Row::Upload,
                        intent: None,
                        request,
                    };
                    world.network.insert(packet);
                }
                Output::Pause { .. } => {
                    self.drive_bringing(world, n, |operation, next| operation.resume(next));
                }
                Output::Done(Outcome::Value(version)) => {
                    if let Some((_, packet)) = bringing.running.take() {
                        self.brought(world, n, version, packet);
                    }
                    return;
                }
                // The replica gives up: the sender sends the packet again.
                _ => return bringing.stop(),
            }
        }
    }

    fn brought(&self, world: &mut World, n: usize, version: Version<Value>, packet: Packet) {
        let is_over = version.value.is_none();
        let node = &mut world.nodes[n];
        let epoch = node.bringing.epoch;
        if !is_over {
            self.take(node, epoch, Row::Upload, version, (true, false));
        }
        // What it has brought is enough, or it loses the packet: it does not read twice.
        self.receive(world, packet, is_over);
        world.nodes[n].bringing.stop();
    }
}
