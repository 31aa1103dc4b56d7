//! The order in which nodes are asked: three a second at most, each reachable node in turn.
//!
//! Nodes of the layout hear of each other only from nodes of the layout, and strangers may be many.
//! So strangers have a turn of their own, and the ones that nobody else needs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use archipel_base::NodeId;
use archipel_base::random::Random;

use super::failure_detector::Standing;
use super::state::Known;

/// One of this many ticks is for suspected nodes, and every second of these for strangers.
const SLOTS: u64 = 3;
/// The shortest time before a node is asked again.
const AGAIN_MS: i64 = 900;
const AGAIN_AWAY_MS: i64 = 2_000;
/// The shortest time before a seed is asked again.
const SEED_AGAIN_MS: i64 = 1_000;
/// The number of seeds that are asked at a time while no other node is reachable.
const SEEDS_ALONE: usize = 3;
/// The time between two seeds otherwise.
const SEED_MS: i64 = 10_000;
/// The longest time that a call to a seed takes.
const SEED_BUSY_MS: i64 = 30_000;
/// The most seeds of the settings that are asked, and the most that were looked up. The others are
/// left out.
const MAX_SEEDS: usize = 32;

/// The target of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A known node.
    Node(NodeId),
    /// The node that answers at an address. Call [`greeted`](super::Membership::greeted)
    /// afterwards.
    Address(String),
}

/// An address of a node that may not be known.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seed {
    address: String,
    /// The node that answered there.
    node: Option<NodeId>,
    next_ms: i64,
    origin: Origin,
    /// The source that told it at the last lookup, if one did.
    source: Option<usize>,
}

/// The origin of the address of a seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// The settings.
    Settings,
    /// The last lookup.
    LookedUp,
    /// An earlier run of this node. There may be no node any more.
    Remembered,
}

impl Seed {
    fn new(address: String, origin: Origin) -> Seed {
        Seed {
            address,
            node: None,
            next_ms: i64::MIN,
            origin,
            source: None,
        }
    }

    /// Returns whether it is an IPv6 address; `None` for a name.
    fn is_v6(&self) -> Option<bool> {
        let address = self.address.rsplit("://").next()?;
        let parsed = address.parse::<SocketAddr>().ok()?;
        Some(parsed.is_ipv6())
    }

    /// Returns true if the operator named this address.
    fn is_named(&self) -> bool {
        self.origin != Origin::Remembered
    }

    /// Returns true if the operator named this address, and nobody has answered there yet. Others
    /// may say that a node is there. But the one that the operator named is the one that answers
    /// there.
    fn is_to_be_named(&self) -> bool {
        self.is_named() && self.node.is_none()
    }

    /// Returns true if the node at this address is known and reachable.
    fn is_found(&self, me: NodeId, others: &BTreeMap<NodeId, Known>) -> bool {
        let here = |node: &NodeId| *node == me || others.get(node).is_some_and(is_here);
        let mut reached = others.values().filter(|known| is_here(known));
        self.node.as_ref().is_some_and(here)
            || reached.any(|known| known.info.addresses.contains(&self.address))
    }
}

/// The plan of requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    turn: u64,
    /// The nodes to ask before any node is asked again.
    round: Vec<NodeId>,
    seeds: Vec<Seed>,
    /// When a seed is asked next, if another node is reachable.
    next_seed_ms: i64,
}

impl Plan {
    pub fn new(seeds: Vec<String>) -> Plan {
        let seed = |address| Seed::new(address, Origin::Settings);
        Plan {
            turn: 0,
            round: Vec::new(),
            seeds: seeds.into_iter().take(MAX_SEEDS).map(seed).collect(),
            next_seed_ms: i64::MIN,
        }
    }

    /// Returns the seed addresses at which a node was found.
    pub fn addresses_of(&self, node: &NodeId) -> impl Iterator<Item = String> {
        let seeds = self.seeds.iter();
        let found = seeds.filter(move |seed| seed.node == Some(*node));
        found.map(|seed| seed.address.clone())
    }

    /// Replaces the seeds that were looked up. Those that stay keep what is known of them.
    pub fn looked_up(&mut self, sources: &[Vec<String>]) {
        let wanted: Vec<String> = sources.iter().flatten().take(MAX_SEEDS).cloned().collect();
        self.seeds
            .retain(|seed| seed.origin != Origin::LookedUp || wanted.contains(&seed.address));
        self.add(&wanted, Origin::LookedUp);
        for seed in &mut self.seeds {
            seed.source = sources.iter().position(|all| all.contains(&seed.address));
        }
    }

    /// Adds the seeds that an earlier run of this node knew.
    pub fn remember(&mut self, addresses: &[String]) {
        self.add(addresses, Origin::Remembered);
    }

    fn add(&mut self, addresses: &[String], origin: Origin) {
        for address in addresses {
            let mut seeds = self.seeds.iter_mut();
            match seeds.find(|seed| seed.address == *address) {
                Some(seed) if seed.origin == Origin::Remembered => {
                    *seed = Seed::new(address.clone(), origin);
                }
                Some(_) => {}
                None => self.seeds.push(Seed::new(address.clone(), origin)),
            }
        }
    }

    /// Returns the seeds of the settings and of the last lookup at which no reachable node was
    /// found.
    pub fn not_found<'a>(
        &'a self,
        me: NodeId,
        others: &'a BTreeMap<NodeId, Known>,
    ) -> impl Iterator<Item = &'a String> {
        let seeds = self.seeds.iter();
        let named = seeds.filter(|seed| seed.is_named());
        let lost = named.filter(move |seed| {
            !seed.is_found(me, others) && !self.is_found_otherwise(seed, me, others)
        });
        lost.map(|seed| &seed.address)
    }

    /// Returns true if the node at this address has been found at an address of the other family.
    /// Names often tell IPv6 addresses of machines on which nobody listens for IPv6. One source
    /// does not say which addresses are of one node. So all of the other family must be found, and
    /// be as many.
    fn is_found_otherwise(
        &self,
        seed: &Seed,
        me: NodeId,
        others: &BTreeMap<NodeId, Known>,
    ) -> bool {
        let Some((source, is_v6)) = seed.source.zip(seed.is_v6()) else {
            return false;
        };
        let of_family = |v6: bool| {
            let told = self.seeds.iter();
            let told = told.filter(move |one| one.source == Some(source));
            told.filter(move |one| one.is_v6() == Some(v6))
        };
        of_family(!is_v6).count() >= of_family(is_v6).count()
            && of_family(!is_v6).all(|one| one.is_found(me, others))
    }

    /// Returns true if the operator named this address.
    pub fn is_named(&self, address: &str) -> bool {
        let mut seeds = self.seeds.iter();
        seeds.any(|seed| seed.address == address && seed.is_named())
    }

    pub fn greeted(&mut self, address: &str, who: Option<NodeId>, now: i64) {
        let seeds = self.seeds.iter_mut();
        for seed in seeds.filter(|seed| seed.address == address) {
            seed.node = who.or(seed.node);
            seed.next_ms = now + SEED_AGAIN_MS;
        }
    }

    /// Returns the targets to ask now. Nodes that are none of the `members` of the layout are
    /// strangers, if there is one. In a `hurry` it asks seeds as if no node was reachable.
    pub fn choose(
        &mut self,
        me: NodeId,
        others: &mut BTreeMap<NodeId, Known>,
        members: &BTreeSet<NodeId>,
        hurry: bool,
        now: i64,
        random: &dyn Random,
    ) -> Vec<Target> {
        let slot = self.turn % (2 * SLOTS);
        self.turn += 1;
        let alone = !others.values().any(is_here);
        let is_member = |node: &NodeId| members.is_empty() || members.contains(node);
        let stranger = || {
            longest_unasked(others, now, |node, _| {
                !members.is_empty() && !is_member(node)
            })
        };
        let away = || {
            longest_unasked(others, now, |node, known| {
                is_member(node) && !is_here(known)
            })
        };
        let node = match slot {
            _ if slot == 2 * SLOTS - 1 => stranger().or_else(away),
            _ if slot == SLOTS - 1 || alone => away(),
            _ => None,
        };
        let node = node
            .or_else(|| self.next_of_round(others, &is_member, now, random))
            .or_else(stranger);
        if let Some(known) = node.and_then(|node| others.get_mut(&node)) {
            known.next_ms = now
                + if is_here(known) {
                    AGAIN_MS
                } else {
                    AGAIN_AWAY_MS
                };
        }
        let seeds = self.due(me, others, alone || hurry, now);
        node.map(Target::Node).into_iter().chain(seeds).collect()
    }

    fn next_of_round(
        &mut self,
        others: &BTreeMap<NodeId, Known>,
        is_member: &dyn Fn(&NodeId) -> bool,
        now: i64,
        random: &dyn Random,
    ) -> Option<NodeId> {
        let may = |node: &NodeId| {
            let known = others.get(node);
            known.is_some_and(|known| is_here(known) && known.next_ms <= now)
        };
        self.round
            .retain(|node| others.contains_key(node) && is_member(node));
        let mut next = take_last(&mut self.round, may);
        if next.is_none() {
            let here = others
                .iter()
                .filter(|(node, known)| is_here(known) && is_member(node));
            self.round = here.map(|(node, _)| *node).collect();
            shuffle(&mut self.round, random);
            next = take_last(&mut self.round, may);
        }
        next
    }

    fn due(
        &mut self,
        me: NodeId,
        others: &BTreeMap<NodeId, Known>,
        hurry: bool,
        now: i64,
    ) -> Vec<Target> {
        let most = if hurry {
            SEEDS_ALONE
        } else if now >= self.next_seed_ms {
            1
        } else {
            return Vec::new();
        };
        let seeds = self.seeds.iter_mut();
        let mut due: Vec<_> = seeds
            .filter(|seed| seed.next_ms <= now)
            .filter(|seed| seed.is_to_be_named() || !seed.is_found(me, others))
            .collect();
        due.sort_by_key(|seed| seed.next_ms);
        due.truncate(most);
        for seed in &mut due {
            seed.next_ms = now + SEED_BUSY_MS;
            self.next_seed_ms = now + SEED_MS;
        }
        let address = |seed: &mut Seed| Target::Address(seed.address.clone());
        due.into_iter().map(address).collect()
    }
}

pub(super) fn is_here(known: &Known) -> bool {
    known.detector.standing() == Standing::Alive
}

/// Returns the node among some that may be asked again and has waited the longest.
fn longest_unasked(
    others: &BTreeMap<NodeId, Known>,
    now: i64,
    among: impl Fn(&NodeId, &Known) -> bool,
) -> Option<NodeId> {
    let some = others.iter().filter(|(node, known)| among(node, known));
    let due = some.filter(|(_, known)| known.next_ms <= now);
    due.min_by_key(|(_, known)| known.next_ms)
        .map(|(node, _)| *node)
}

fn take_last(round: &mut Vec<NodeId>, may: impl Fn(&NodeId) -> bool) -> Option<NodeId> {
    let index = round.iter().rposition(may)?;
    Some(round.remove(index))
}

/// Shuffles in the manner of Fisher and Yates.
pub(super) fn shuffle<T>(items: &mut [T], random: &dyn Random) {
    for last in (1..items.len()).rev() {
        let other = random.next_u64() % (last as u64 + 1);
        items.swap(last, other as usize);
    }
}
