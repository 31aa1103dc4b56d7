use std::collections::BTreeSet;

use archipel_base::random::SeededRandom;
use archipel_base::{Id, NodeId};

use super::message::{Gossip, Line, Short, Told};
use super::*;

mod driven;
mod edges;
mod failures;
mod spreading;
mod strangers;
mod world;

use world::World;

fn id(n: usize) -> NodeId {
    let mut id = NodeId::default();
    id.0[..8].copy_from_slice(&(n as u64 + 1).to_be_bytes());
    id
}

fn info(n: usize) -> NodeInfo {
    NodeInfo {
        addresses: vec![address(n)],
        version: "1.2.3".into(),
        ..NodeInfo::default()
    }
}

fn address(n: usize) -> String {
    format!("node{n}.example.net:3901")
}

/// Creates a node without seeds at time 0.
fn alone(n: usize) -> Membership {
    Membership::new(id(n), 1, info(n), Vec::new(), 0)
}

/// Makes each of the two nodes know the other.
fn acquaint(asker: &mut Membership, answerer: &mut Membership, now: u64) {
    let random = SeededRandom::new(1);
    let greeting = asker.greeting(now, &random);
    answerer.hear(asker.me, &greeting, now).unwrap();
    let answer = answerer.answer(&greeting, now, &random);
    asker.hear(answerer.me, &answer, now).unwrap();
}
