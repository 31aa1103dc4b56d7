//! Bounds, other clusters, forgotten runs.

use archipel_base::clock::DAY_MS;

use super::super::belief::Naming;
use super::super::message::{MAX_INFO_BYTES, MAX_LINES, MAX_MESSAGE_BYTES};
use super::*;

fn random() -> SeededRandom {
    SeededRandom::new(3)
}

fn told(n: usize, generation: u64, age: u64) -> Told {
    Told {
        node: id(n),
        line: Line {
            node: Short::of(&id(n)),
            generation,
            revision: 1,
            heartbeat: 1,
            age,
        },
        info: info(n),
        leaving: false,
    }
}

fn gossip(infos: Vec<Told>) -> Gossip {
    Gossip {
        infos,
        ..Gossip::default()
    }
}

#[test]
fn nodes_of_another_cluster_are_ignored() {
    let (mut ours, mut theirs) = (alone(0), alone(1));
    ours.set_cluster(Id([1; 16]), 1);
    theirs.set_cluster(Id([2; 16]), 1);
    let greeting = theirs.greeting(1, &random());
    let refused = ours.hear(id(1), &greeting, 1).unwrap_err();
    assert!(refused.contains("another cluster"), "{refused}");
    assert_eq!(ours.members(1).len(), 1);
}

/// Otherwise it would carry the nodes of one cluster to the other.
#[test]
fn node_in_no_cluster_joins_the_first_that_it_hears_of() {
    let (mut ours, mut theirs, mut joining) = (alone(0), alone(1), alone(2));
    ours.set_cluster(Id([1; 16]), 1);
    theirs.set_cluster(Id([2; 16]), 1);
    acquaint(&mut joining, &mut ours, 1);
    assert_eq!(joining.cluster(), Some(Id([1; 16])));
    let greeting = joining.greeting(2, &random());
    assert!(theirs.hear(id(2), &greeting, 2).is_err());
    let greeting = theirs.greeting(2, &random());
    assert!(joining.hear(id(1), &greeting, 2).is_err());
    assert_eq!(theirs.members(2).len(), 1);
}

/// Its cluster is gone. Otherwise no layout could be formed until all nodes are started again.
#[test]
fn cluster_is_forgotten_once_the_node_that_told_it_is_in_none() {
    let (mut before, mut other) = (alone(0), alone(1));
    before.set_cluster(Id([1; 16]), 3);
    acquaint(&mut before, &mut other, 10_000);
    let heard = other.heard_of_cluster().unwrap();
    assert!(heard.contains(&id(0).short()), "{heard}");
    let mut wiped = Membership::new(id(0), 1, info(0), Vec::new(), 20_000);
    acquaint(&mut wiped, &mut other, 20_100);
    assert_eq!(other.cluster(), Some(Id([1; 16])));
    acquaint(&mut wiped, &mut other, 20_200);
    assert_eq!((other.cluster(), other.heard_of_cluster()), (None, None));
    assert_eq!(wiped.cluster(), None);
}

#[test]
fn epoch_of_another_node_tells_of_a_cluster() {
    let mut here = alone(0);
    let mut told = told(2, 1, 0);
    here.hear(id(5), &gossip(vec![told.clone()]), 0).unwrap();
    assert_eq!(here.heard_of_cluster(), None);
    told.info.epoch = 1;
    told.line.revision += 1;
    here.hear(id(5), &gossip(vec![told]), 0).unwrap();
    let heard = here.heard_of_cluster().unwrap();
    assert!(heard.contains("there is a cluster already"), "{heard}");
}

#[test]
fn node_that_the_layout_dropped_is_named_no_more() {
    let mut here = Membership::new(id(0), 1, info(0), vec![address(1)], 0);
    here.named(id(1), &address(1), Naming::Plan);
    here.named(id(2), &address(2), Naming::Command);
    here.named(id(3), &address(3), Naming::Plan);
    assert!(here.is_named(&id(1)) && !here.is_joined(&id(1)));
    assert!(here.is_named(&id(2)) && here.is_joined(&id(2)));
    assert!(!here.is_named(&id(3)));
    here.pin(BTreeSet::from([id(1), id(2)]), BTreeSet::new());
    here.pin(BTreeSet::from([id(2)]), BTreeSet::new());
    assert!(!here.is_named(&id(1)) && here.is_joined(&id(2)));
    here.pin(BTreeSet::from([id(3)]), BTreeSet::new());
    assert!(!here.is_named(&id(2)) && !here.is_joined(&id(2)));
}

/// Names often tell IPv6 addresses of machines on which nobody listens for IPv6.
#[test]
fn address_is_not_missed_if_its_node_is_found_at_one_of_the_other_family() {
    let text = |all: &[&str]| -> Vec<String> { all.iter().map(|one| (*one).into()).collect() };
    let mut here = alone(0);
    let mut other = alone(1);
    acquaint(&mut here, &mut other, 1);
    let both = text(&[
        "192.0.2.1:1",
        "192.0.2.2:1",
        "[2001:db8::1]:1",
        "[2001:db8::2]:1",
    ]);
    here.looked_up(std::slice::from_ref(&both));
    here.greeted("192.0.2.1:1", Some(id(1)), 2);
    assert_eq!(
        here.not_found().next().map(String::as_str),
        Some("192.0.2.2:1")
    );
    here.greeted("192.0.2.2:1", Some(id(0)), 2);
    assert_eq!(here.not_found().next(), None);
    // Another source tells of another machine.
    here.looked_up(&[both[..2].to_vec(), both[2..].to_vec()]);
    assert_eq!(
        here.not_found().next().map(String::as_str),
        Some("[2001:db8::1]:1")
    );
    // A third machine has only an IPv6 address.
    here.looked_up(&[[both, text(&["[2001:db8::3]:1"])].concat()]);
    assert!(here.not_found().next().is_some());
}

#[test]
fn node_that_tells_an_old_epoch_for_a_minute_lags() {
    let (mut here, mut other) = (alone(0), alone(1));
    here.set_cluster(Id([1; 16]), 5);
    other.set_cluster(Id([1; 16]), 4);
    acquaint(&mut here, &mut other, 1);
    here.tick(1_000, &random());
    here.tick(60_000, &random());
    assert!(!here.is_lagging(&id(1), 60_000));
    assert!(here.is_lagging(&id(1), 61_000));
    other.set_cluster(Id([1; 16]), 5);
    acquaint(&mut here, &mut other, 62_000);
    here.tick(62_100, &random());
    assert!(!here.is_lagging(&id(1), 200_000));
    assert!(!here.members(200_000).iter().any(|member| member.lagging));
}

#[test]
fn node_that_learns_epochs_late_or_was_away_does_not_lag() {
    let (mut here, mut other) = (alone(0), alone(1));
    for second in 1..=90 {
        here.set_cluster(Id([1; 16]), second + 1);
        other.set_cluster(Id([1; 16]), second);
        acquaint(&mut here, &mut other, second * 1_000);
        here.tick(second * 1_000 + 300, &random());
        assert!(!here.is_lagging(&id(1), second * 1_000 + 300));
    }
    let silent = (91..=400).map(|second| second * 1_000);
    for now in silent {
        here.tick(now, &random());
    }
    assert!(here.is_suspected(&id(1)));
    acquaint(&mut here, &mut other, 400_100);
    here.tick(400_400, &random());
    assert!(!here.is_suspected(&id(1)) && !here.is_lagging(&id(1), 400_400));
}

#[test]
fn forgotten_node_is_not_learnt_again_from_nodes_that_forget_later() {
    let (mut here, mut other) = (alone(0), alone(1));
    other.hear(id(5), &gossip(vec![told(2, 1, 0)]), 0).unwrap();
    here.hear(id(5), &gossip(vec![told(2, 1, 0)]), 0).unwrap();
    acquaint(&mut here, &mut other, DAY_MS - 10);
    assert_eq!(here.members(DAY_MS - 10).len(), 3);
    here.tick(DAY_MS + 100, &random());
    assert_eq!(here.members(DAY_MS + 100).len(), 2);
    acquaint(&mut other, &mut here, DAY_MS + 100);
    acquaint(&mut here, &mut other, DAY_MS + 100);
    assert_eq!(here.members(DAY_MS + 100).len(), 2);
}

#[test]
fn pinned_node_is_not_forgotten() {
    let mut here = alone(0);
    here.hear(id(5), &gossip(vec![told(2, 1, 0)]), 0).unwrap();
    here.pin(BTreeSet::from([id(2)]), BTreeSet::new());
    here.tick(100 * DAY_MS, &random());
    assert_eq!(here.members(1).len(), 2);
    assert!(here.is_suspected(&id(2)));
}

#[test]
fn node_that_first_hears_of_a_dead_node_suspects_it() {
    let mut here = alone(0);
    let told = gossip(vec![told(2, 1, 3600 * 10)]);
    here.hear(id(5), &told, 1_000).unwrap();
    let all = here.members(2_000);
    let dead = all.iter().find(|member| member.id == id(2)).unwrap();
    assert!(dead.suspected);
    assert_eq!(dead.heard_ms_ago, 3_601_000);
}

#[test]
fn run_moves_past_a_later_run_that_others_remember() {
    let (mut before, mut other) = (alone(0), alone(1));
    before.edition.generation = 7;
    acquaint(&mut before, &mut other, 50_000);
    let mut restored = Membership::new(id(0), 3, info(0), Vec::new(), 50_000);
    acquaint(&mut restored, &mut other, 50_100);
    assert_eq!(restored.edition.generation, 8);
    restored.change(|info| info.epoch = 4);
    acquaint(&mut restored, &mut other, 50_200);
    let all = other.members(50_200);
    let seen = all.iter().find(|member| member.id == id(0)).unwrap();
    assert_eq!((seen.generation, seen.info.epoch), (8, 4));
}

#[test]
fn node_info_out_of_bounds_is_ignored() {
    let mut here = alone(0);
    let mut long = told(1, 1, 0);
    long.info.addresses = vec!["x".repeat(MAX_TEXT_BYTES + 1)];
    let mut many = told(2, 1, 0);
    many.info.addresses = vec![address(2); MAX_ADDRESSES + 1];
    let nothing = told(3, 0, 0);
    let heard = gossip(vec![long, many, nothing]);
    here.hear(id(5), &heard, 1).unwrap();
    assert_eq!(here.members(1).len(), 1);
}

#[test]
fn extreme_numbers_do_no_harm() {
    let mut here = alone(0);
    let mut odd = told(1, u64::MAX, u64::MAX);
    odd.line.heartbeat = u64::MAX;
    odd.line.revision = u64::MAX;
    here.pin(BTreeSet::from([id(1)]), BTreeSet::new());
    here.hear(id(1), &gossip(vec![odd.clone()]), 1).unwrap();
    odd.line.node = Short::of(&id(0));
    let mut heard = gossip(Vec::new());
    heard.lines = vec![odd.line; 3];
    here.hear(id(1), &heard, 1).unwrap();
    here.tick(1 << 50, &random());
    assert!(here.is_suspected(&id(1)));
    assert_eq!(here.edition.generation, u64::MAX);
}

#[test]
fn messages_are_bounded_whatever_is_known() {
    let (mut here, mut other) = (alone(0), alone(1));
    for n in 2..2_500 {
        let mut told = told(n, u64::MAX / 3, 0);
        told.info.version = "v".repeat(MAX_TEXT_BYTES);
        told.line.heartbeat = u64::MAX / 3;
        here.hear(id(n), &gossip(vec![told]), 1).unwrap();
    }
    assert!(here.members(1).len() <= 2_001);
    let greeting = other.greeting(1, &random());
    let mut known = 0;
    for _ in 0..20 {
        here.hear(id(1), &greeting, 1).unwrap();
        let answer = here.answer(&greeting, 1, &random());
        assert!(answer.lines.len() <= MAX_LINES);
        let length = answer.encode().len();
        assert!(length <= MAX_INFO_BYTES + (32 << 10), "{length}");
        assert!(Gossip::decode(&answer.encode()).is_ok());
        other.hear(id(0), &answer, 1).unwrap();
        // Each message has other nodes than the one before: those that were told longest ago come
        // first.
        assert!(other.members(1).len() > known || known > 2_000);
        known = other.members(1).len();
    }
    assert!(known > 1_500, "{known}");
    assert!(here.request(1, &random()).encode().len() <= 32 << 10);
}

#[test]
fn noise_is_an_error() {
    assert!(Gossip::decode(&[]).is_err());
    assert!(Gossip::decode(&[1, 2, 3]).is_err());
    let long = vec![1; MAX_MESSAGE_BYTES + 1];
    assert!(Gossip::decode(&long).unwrap_err().contains("bytes"));
}

/// After years there may be many seeds at which no node answers. They cost no more than a few.
#[test]
fn seeds_are_asked_a_few_at_a_time() {
    let seeds = (0..100).map(|n| format!("gone{n}:1")).collect();
    let mut here = Membership::new(id(0), 1, info(0), seeds, 0);
    let mut other = alone(1);
    let seeds_of_a_minute = |here: &mut Membership, from: u64| {
        let mut asked = Vec::new();
        for tick in 0..180 {
            let now = from + tick * TICK_MS;
            for target in here.tick(now, &random()) {
                if let Target::Address(address) = target {
                    here.greeted(&address, None, now);
                    asked.push(address);
                }
            }
            // A node that is alive stays so.
            here.report(&id(1), true, now);
        }
        asked
    };
    let asked = seeds_of_a_minute(&mut here, 0);
    assert_eq!(asked.len(), 3 * 180);
    let different: BTreeSet<_> = asked.iter().collect();
    assert_eq!(different.len(), 32, "each has its turn");
    acquaint(&mut here, &mut other, 60_000);
    let asked = seeds_of_a_minute(&mut here, 60_000);
    assert!((5..=7).contains(&asked.len()), "{}", asked.len());
}
