//! The scenarios to check.

use archipel_cluster::register::epoch::Config;
use archipel_cluster::register::{Rules, Start};

use super::protocol::Protocol;

/// A client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClientScript<T> {
    /// The lead of its clock.
    pub lead: u64,
    /// Its tasks, in order.
    pub tasks: Vec<T>,
}

/// A small world to explore.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scenario<P: Protocol> {
    /// Its name.
    pub name: &'static str,
    /// The settings that only this protocol has.
    pub protocol: P,
    /// The rules in force.
    pub rules: Rules,
    /// The number of replicas in all epochs.
    pub nodes: usize,
    /// The possible epochs, in order.
    pub epochs: Vec<Config<usize>>,
    /// The clients.
    pub clients: Vec<ClientScript<P::Task>>,
    /// The number of rounds after which an operation's client gives up.
    pub rounds: u32,
    /// The number of times that each client may stop waiting.
    pub timeouts: u8,
    /// The number of coordinators that crash.
    pub crashes: u8,
    /// The number of restarts of replicas.
    pub restarts: u8,
    /// The number of repeated messages.
    pub repeats: u8,
    /// The number of rows that replicas may send to one another.
    pub spreads: u8,
    /// The number of floor rounds.
    pub floors: u8,
}

impl<P: Protocol> Scenario<P> {
    /// Returns a scenario with three replicas, one layout and these clients: the lead of the clock,
    /// and the tasks. Its only faults are loss, delay and reordering of messages.
    pub fn plain(name: &'static str, protocol: P, clients: &[(u64, &[P::Task])]) -> Scenario<P> {
        let script = |(lead, tasks): &(u64, &[P::Task])| ClientScript {
            lead: *lead,
            tasks: tasks.to_vec(),
        };
        Scenario {
            name,
            protocol,
            rules: Rules::CORRECT,
            nodes: 3,
            epochs: vec![Config::first(vec![0, 1, 2])],
            clients: clients.iter().map(script).collect(),
            rounds: 40,
            timeouts: 0,
            crashes: 0,
            restarts: 0,
            repeats: 0,
            spreads: 0,
            floors: 0,
        }
    }

    /// Returns the layouts of an epoch.
    pub(super) fn config(&self, epoch: u64) -> &Config<usize> {
        let index = (epoch as usize - 1).min(self.epochs.len() - 1);
        &self.epochs[index]
    }

    /// Returns the start parameters of operations in an epoch.
    pub(super) fn start(&self, epoch: u64) -> Start {
        Start {
            rules: self.rules,
            quorums: self.config(epoch).quorums(self.rules, |m| m.node),
        }
    }
}
