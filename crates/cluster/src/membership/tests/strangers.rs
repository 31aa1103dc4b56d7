//! A node that knows the secret, and that no layout has, does no harm to those that one has.

use super::*;

fn random() -> SeededRandom {
    SeededRandom::new(3)
}

const CLUSTER: Id = Id([1; 16]);

/// Creates a node of a layout with the first `members` nodes.
fn seated(n: usize, members: usize) -> Membership {
    let mut node = alone(n);
    seat(&mut node, members);
    node
}

fn seat(node: &mut Membership, members: usize) {
    node.set_cluster(CLUSTER, 1);
    node.pin((0..members).map(id).collect(), BTreeSet::new());
}

/// Returns what a liar tells of a node: a run of which no later one comes, and which leaves.
fn lie(of: usize) -> Told {
    Told {
        node: id(of),
        line: Line {
            node: Short::of(&id(of)),
            generation: u64::MAX,
            revision: u64::MAX,
            heartbeat: u64::MAX,
            age: 0,
        },
        info: NodeInfo {
            addresses: vec!["liar.example.net:1".into()],
            ..NodeInfo::default()
        },
        leaving: true,
    }
}

fn lies(of: &[usize]) -> Gossip {
    Gossip {
        lines: of.iter().map(|n| lie(*n).line).collect(),
        infos: of.iter().map(|n| lie(*n)).collect(),
        ..Gossip::default()
    }
}

/// Returns the node info of a member.
fn info_in_layout(n: usize) -> NodeInfo {
    NodeInfo {
        epoch: 1,
        ..info(n)
    }
}

fn seen(here: &Membership, n: usize, now: u64) -> Option<Member> {
    let all = here.members(now);
    all.into_iter().find(|member| member.id == id(n))
}

#[test]
fn stranger_tells_nothing_of_members() {
    let (mut here, mut other) = (seated(0, 3), seated(1, 3));
    acquaint(&mut here, &mut other, 1_000);
    here.hear(id(9), &lies(&[0, 1, 2, 9]), 1_100).unwrap();
    let member = seen(&here, 1, 1_200).unwrap();
    assert_eq!((member.generation, &member.info), (1, &info_in_layout(1)));
    assert!(!member.leaving && !member.suspected);
    assert!(seen(&here, 2, 1_200).is_none());
    assert_eq!(here.edition.generation, 1);
    // Its own node info counts: an operator may assign it.
    assert_eq!(seen(&here, 9, 1_200).unwrap().info, lie(9).info);
    // Its signs of life are older than the ones that the member gives.
    other.change(|info| info.epoch = 2);
    acquaint(&mut here, &mut other, 20_000);
    assert_eq!(seen(&here, 1, 20_000).unwrap().info.epoch, 2);
}

#[test]
fn members_tell_of_members_that_cannot_be_reached() {
    let (mut here, mut between, mut beyond) = (seated(0, 3), seated(1, 3), seated(2, 3));
    acquaint(&mut between, &mut beyond, 1_000);
    acquaint(&mut here, &mut between, 1_100);
    assert_eq!(seen(&here, 2, 1_200).unwrap().info, info_in_layout(2));
    assert_eq!(seen(&here, 2, 1_200).unwrap().heard_ms_ago, 200);
}

/// It heard everybody before it had a layout.
#[test]
fn lies_that_a_node_heard_before_it_had_a_layout_end_there() {
    let (mut joining, mut member, mut third) = (alone(2), seated(0, 3), seated(1, 3));
    acquaint(&mut member, &mut third, 900);
    joining.hear(id(9), &lies(&[0, 1, 2]), 1_000).unwrap();
    assert!(
        joining.edition.generation < 1 << 49,
        "its own can be outbid"
    );
    // A member that learnt the new layout earlier hears it.
    let greeting = joining.greeting(1_100, &random());
    member.hear(id(2), &greeting, 1_100).unwrap();
    let answer = member.answer(&greeting, 1_100, &random());
    joining.hear(id(0), &answer, 1_100).unwrap();
    let rest = joining.rest(&answer, 1_100).unwrap_or_default();
    member.hear(id(2), &rest, 1_100).unwrap();
    let every = Gossip {
        outside: true,
        ..lies(&[0, 1])
    };
    member.hear(id(2), &every, 1_100).unwrap();
    assert_eq!(seen(&member, 1, 1_200).unwrap().generation, 1);
    assert_eq!(member.edition.generation, 1);
    // Once it has the layout it believes what members tell, whatever it heard before.
    seat(&mut joining, 3);
    acquaint(&mut joining, &mut member, 1_300);
    acquaint(&mut member, &mut joining, 1_400);
    for n in [0, 1] {
        let known = seen(&joining, n, 1_500).unwrap();
        assert_eq!(
            (known.generation, known.info),
            (1, info_in_layout(n)),
            "{n}"
        );
    }
    assert!(seen(&member, 1, 1_500).unwrap().generation == 1);
}

/// However high a run of it was told before it had a layout, each later one of it counts.
#[test]
fn member_outbids_what_was_told_of_it_before_it_had_a_layout() {
    let mut member = seated(0, 3);
    let mut joining = alone(2);
    let mut high = lie(2).line;
    high.generation = (1 << 48) - 1;
    let heard = Gossip {
        lines: vec![high],
        ..Gossip::default()
    };
    joining.hear(id(9), &heard, 1_000).unwrap();
    seat(&mut joining, 3);
    acquaint(&mut joining, &mut member, 2_000);
    for run in 2..5 {
        let mut again = Membership::new(id(2), run, info(2), Vec::new(), run * 10_000);
        seat(&mut again, 3);
        acquaint(&mut again, &mut member, run * 10_000 + 100);
        again.change(|info| info.epoch = run);
        acquaint(&mut again, &mut member, run * 10_000 + 200);
        let known = seen(&member, 2, run * 10_000 + 300).unwrap();
        assert_eq!(known.info.epoch, run);
        assert_eq!(known.generation, again.edition.generation);
    }
}

/// It lost its disks, and hears everybody until it knows the layout again.
#[test]
fn node_outside_is_not_believed_although_the_layout_has_it() {
    let (mut here, mut other) = (seated(0, 3), seated(1, 3));
    acquaint(&mut here, &mut other, 1_000);
    let mut wiped = alone(2);
    wiped.hear(id(9), &lies(&[1]), 1_000).unwrap();
    let greeting = wiped.greeting(1_100, &random());
    here.hear(id(2), &greeting, 1_100).unwrap();
    let answer = here.answer(&greeting, 1_100, &random());
    wiped.hear(id(0), &answer, 1_100).unwrap();
    let rest = wiped.rest(&answer, 1_100).unwrap();
    assert!(rest.infos.iter().any(|told| told.node == id(1)));
    here.hear(id(2), &rest, 1_100).unwrap();
    assert_eq!(seen(&here, 1, 1_200).unwrap().generation, 1);
    assert!(seen(&here, 2, 1_200).is_some());
}

#[test]
fn members_and_admitted_nodes_fit_however_many_strangers_there_are() {
    let mut here = alone(0);
    here.set_cluster(CLUSTER, 1);
    here.pin((0..3).map(id).collect(), BTreeSet::from([id(5_000)]));
    for n in 1_000..4_000 {
        here.hear(id(n), &lies(&[n]), 1_000).unwrap();
    }
    let known = here.members(1_000).len();
    assert!(known <= 129, "{known}");
    for n in [1, 2, 5_000] {
        let mut joining = alone(n);
        acquaint(&mut joining, &mut here, 1_100);
        assert!(seen(&here, n, 1_200).is_some(), "{n}");
    }
    // One that is there takes the room of one that is not.
    let mut honest = alone(7_000);
    here.tick(20_000, &random());
    acquaint(&mut honest, &mut here, 20_000);
    assert!(seen(&here, 7_000, 20_000).is_some());
    assert!(here.members(20_000).len() <= 132);
}

#[test]
fn node_that_gets_a_layout_forgets_the_strangers_that_are_too_many() {
    let mut here = alone(0);
    for n in 1_000..3_000 {
        here.hear(id(9), &lies(&[n]), 1_000).unwrap();
    }
    let mut member = seated(1, 2);
    seat(&mut here, 2);
    acquaint(&mut here, &mut member, 1_100);
    acquaint(&mut member, &mut here, 1_100);
    here.tick(1_200, &random());
    assert!(seen(&here, 1, 1_200).is_some());
    assert!(here.members(1_200).len() <= 130);
}

/// Strangers tell nothing of members, so members must meet one another as often as before.
#[test]
fn many_strangers_make_no_member_suspected() {
    let mut world = World::new(63, 5);
    for n in 0..3 {
        seat(world.members(n), 3);
    }
    world.run(20_000);
    for second in 0..120 {
        world.run(1_000);
        for n in 0..3 {
            let wrong = world.who_suspects(n).into_iter().filter(|who| *who < 3);
            assert_eq!(wrong.count(), 0, "node {n}, {second} s");
        }
    }
    // The strangers are known as well, and are seen to live.
    let now = world.now;
    for n in 0..3 {
        let all = world.members(n).members(now);
        let away = all.iter().filter(|member| member.suspected);
        assert_eq!((all.len(), away.count()), (63, 0));
    }
    world.kill(1);
    world.run(5_000);
    assert!(world.who_suspects(1).contains(&0) && world.who_suspects(1).contains(&2));
}
