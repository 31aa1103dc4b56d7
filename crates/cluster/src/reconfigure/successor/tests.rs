use archipel_base::NodeId;

use super::*;
use crate::cluster::Cluster;
use crate::layout::Role;
use crate::memory::World;
use crate::node::options::Hooks;
use crate::reconfigure::change::LayoutChange;

const LATENCY: Duration = Duration::from_millis(5);
const STRANGER: NodeId = NodeId([99; 32]);

/// Opens three nodes, each with all partitions.
async fn world() -> World {
    World::new(3, 3, LATENCY, 1, Hooks::NONE).await.unwrap()
}

/// Returns the epoch with one more layout version, and the value of the row that decides.
fn applied(node: &Cluster) -> (Epoch, Value) {
    let epoch = node.epoch().unwrap();
    let mut layout = epoch.newest().clone();
    layout.version += 1;
    let next = epoch.with_next(layout);
    (next.clone(), value_of(&next))
}

fn value_of(epoch: &Epoch) -> Value {
    Value {
        payload: Payload::Inline(epoch.encode().into()),
        ..Value::default()
    }
}

/// Chooses a successor as a node does that stops before it learns it and tells the others.
async fn choose(node: &Cluster, number: u64, value: Value) {
    let row = successor_row(number);
    let how = WriteOptions::durable(Durability::Fsync);
    let chosen = node.update(&row, how, |_| Decision::<()>::Write(Some(value.clone())));
    chosen.await.unwrap().unwrap();
}

fn run(world: &World) {
    for node in &world.nodes {
        let node = node.clone();
        tokio::spawn(async move { node.layouts().run_rebalance().await });
    }
}

/// The operator believes that the layout can still be discarded, because no node knows it.
#[tokio::test(start_paused = true)]
async fn a_layout_that_was_chosen_is_not_discarded_but_told() {
    let world = world().await;
    let [a, b, c] = &world.nodes[..] else {
        panic!("three nodes")
    };
    let (next, value) = applied(a);
    choose(a, 1, value).await;
    world.kill(0);
    assert_eq!(b.epoch().unwrap().number(), 1);
    let reverted = b.layouts().stage(vec![LayoutChange::Revert]).await;
    let refused = reverted.unwrap_err().to_string();
    assert!(refused.contains("newer layout"), "{refused}");
    tokio::time::sleep(Duration::from_secs(5)).await;
    for node in [b, c] {
        assert_eq!(node.epoch().as_deref(), Some(&next));
    }
    // Now the operator knows it.
    b.layouts().stage(vec![LayoutChange::Revert]).await.unwrap();
}

/// The node that applied the layout is cut off when its write goes out, so that only its own
/// replica accepts it.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_a_minority_holds_does_not_take_effect_after_it_was_discarded() {
    let world = world().await;
    let [a, b, c] = &world.nodes[..] else {
        panic!("three nodes")
    };
    let (_, value) = applied(a);
    let (row, how) = (successor_row(1), WriteOptions::durable(Durability::Fsync));
    let attempt = a.update(&row, how, |_| {
        world.isolate(0);
        Decision::<()>::Write(Some(value.clone()))
    });
    attempt.await.unwrap_err();
    b.layouts().stage(vec![LayoutChange::Revert]).await.unwrap();
    world.network.end_all_cuts();
    world.isolate(1);
    // The quorum has the replica with the attempt.
    c.layouts().admit(STRANGER).await.unwrap();
    let epoch = c.epoch().unwrap();
    assert_eq!((epoch.number(), epoch.newest().version), (2, 1));
    assert!(epoch.admits(&STRANGER));
}

#[tokio::test(start_paused = true)]
async fn the_driver_learns_and_tells_a_layout_that_nobody_told() {
    let world = world().await;
    run(&world);
    let (_, value) = applied(&world.nodes[0]);
    choose(&world.nodes[0], 1, value).await;
    world.kill(0);
    tokio::time::sleep(Duration::from_secs(120)).await;
    for node in &world.nodes[1..] {
        let epoch = node.epoch().unwrap();
        assert_eq!((epoch.newest().version, epoch.is_changing()), (2, false));
    }
}

/// The driver stopped after it chose the retirement. The next one does not move all rows once more.
#[tokio::test(start_paused = true)]
async fn a_retirement_that_was_chosen_is_not_prepared_again() {
    let world = world().await;
    let (next, _) = applied(&world.nodes[0]);
    for node in &world.nodes {
        node.learn(next.clone()).await.unwrap();
    }
    let last = next.without_oldest().unwrap();
    choose(&world.nodes[0], 2, value_of(&last)).await;
    run(&world);
    tokio::time::sleep(Duration::from_secs(30)).await;
    for node in &world.nodes {
        assert_eq!(node.epoch().as_deref(), Some(&last));
        let begun = node.layouts().rebalance.note(|work| work.epoch);
        assert_eq!(begun, 0, "data was moved again");
    }
}

/// The time at which one node discards the staged changes, in tests in which another applies them.
const DISCARDED_AT: Duration = Duration::from_millis(100);

/// Lets one node apply changes at a time, and another one discard them. Returns true if they came
/// into force. If `is_cut`, the first node reaches no other while the second one discards.
async fn apply_and_discard(applied_at: Duration, is_cut: bool) -> bool {
    let world = world().await;
    let (a, b) = (&world.nodes[0], &world.nodes[1]);
    let change = LayoutChange::Assign(Role {
        store: world.nodes[2].me(),
        zone: "zone2".into(),
        capacity_bytes: 1 << 39,
    });
    let staged = a.layouts().stage(vec![change]).await.unwrap();
    let apply = async {
        tokio::time::sleep(applied_at).await;
        a.layouts()
            .apply(staged.version, Some(staged.revision))
            .await
    };
    let discard = async {
        tokio::time::sleep(DISCARDED_AT).await;
        if is_cut {
            world.isolate(0);
        }
        let known = b.epoch().unwrap().newest().version;
        let discarded = b.layouts().stage(vec![LayoutChange::Revert]).await;
        world.network.end_all_cuts();
        discarded.is_ok() && known == 1
    };
    let (applied, is_discarded) = tokio::join!(apply, discard);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let chosen = b.read(&successor_row(1)).await.unwrap().is_some();
    if is_discarded {
        assert!(applied.is_err(), "{applied_at:?} {is_cut}");
        assert!(
            !chosen,
            "a discarded layout is in force: {applied_at:?} {is_cut}"
        );
    }
    chosen
}

/// The other operator is told that the changes are discarded, while the first one's command runs or
/// goes on.
#[tokio::test(start_paused = true)]
async fn changes_that_were_discarded_are_not_applied_by_a_command_that_still_runs() {
    for is_cut in [false, true] {
        let mut chosen = 0;
        let times = (0..=150).step_by(5).map(Duration::from_millis);
        for applied_at in times.clone() {
            chosen += usize::from(apply_and_discard(applied_at, is_cut).await);
        }
        assert!((1..times.count()).contains(&chosen), "{chosen}");
    }
}

/// A look for a successor does not end, because the node learns one for minutes.
#[tokio::test(start_paused = true)]
async fn a_stranger_is_answered_while_the_layout_that_may_have_it_is_learnt() {
    let world = world().await;
    let changes = world.nodes[0].layouts();
    let _looks = changes.looked.lock().await;
    let answer = timeout(Duration::from_secs(10), changes.check_admitted(&STRANGER));
    let refused = answer.await.expect("in time").unwrap_err();
    assert!(refused.contains("still learns"), "{refused}");
}
