use std::time::Duration;

use archipel_base::{Id, PartitionId};
use archipel_net::rpc::Rpc;
use archipel_net::{Class, Error, Peer};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};

use super::*;
use crate::Cluster;
use crate::data::options::WriteOptions;
use crate::layout::Epoch;
use crate::memory::World;
use crate::node::options::Hooks;
use crate::node::wire::{Address, RowCall, RowReply, UploadOpen, frame};
use crate::reconfigure::change::LayoutChange;
use crate::register::{Answer, Request};

const LATENCY: Duration = Duration::from_millis(5);
const LIMIT: Duration = Duration::from_secs(10);
const STRANGER: NodeId = NodeId([99; 32]);

fn row() -> RowKey {
    RowKey {
        partition: PartitionId(7),
        key: Bytes::from_static(b"secret"),
    }
}

fn durable() -> WriteOptions<'static> {
    WriteOptions::durable(Durability::Fsync)
}

async fn write(node: &Cluster, text: &'static str) -> Result<(), crate::Error> {
    let value = Value {
        metadata: Bytes::from_static(text.as_bytes()),
        ..Value::default()
    };
    node.write(&row(), Some(value), durable()).await.map(drop)
}

/// Opens three nodes in a layout, and others that are in none. A row is written.
async fn world(others: u8) -> World {
    let world = World::three_and(others, LATENCY, 1, Hooks::NONE).await;
    let world = world.unwrap();
    write(&world.nodes[0], "content").await.unwrap();
    world
}

/// Connects a stranger that has the secret.
fn stranger(world: &World) -> Rpc {
    Rpc::new(world.network.node(STRANGER))
}

async fn ask(
    rpc: &Rpc,
    node: &Cluster,
    method: &str,
    request: impl Into<Bytes>,
) -> Result<Bytes, Error> {
    let peer = Peer {
        id: node.me().node,
        addresses: Arc::new([]),
    };
    rpc.call(&peer, method, Class::Control, LIMIT, request.into())
        .await
}

fn peer_of(node: &Cluster) -> Peer {
    Peer {
        id: node.me().node,
        addresses: Arc::new([]),
    }
}

/// Returns the call that asks a node for the row as it holds it.
fn row_call(node: &Cluster) -> RowCall {
    let epoch = node.epoch().unwrap();
    let address = Address {
        epoch: epoch.number(),
        incarnation: epoch.incarnation_of(&node.me()).unwrap(),
        partition: row().partition,
    };
    RowCall::plain(address, row().key, Request::Read { with_value: true })
}

/// Asks a node for the row as it holds it.
async fn read_at(rpc: &Rpc, node: &Cluster) -> Result<Option<Bytes>, String> {
    let answer = ask(rpc, node, method::ROW, codec::encode(&row_call(node))).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let reply: RowReply = codec::decode(&answer).unwrap();
    match reply.0 {
        Ok(Answer::Found { version, .. }) => Ok(version.value.map(|value| value.metadata)),
        other => Err(format!("{other:?}")),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stranger_with_the_secret_reads_nothing() {
    let world = world(0).await;
    let rpc = stranger(&world);
    for node in &world.nodes {
        let read = read_at(&rpc, node).await;
        let why = read.expect_err("a stranger reads a row");
        assert!(why.contains("archipel node admit"), "{why}");
        assert!(node.knows(&world.nodes[1].me().node) && !node.knows(&STRANGER));
        for method in [method::LIST, method::COUNTERS, method::FEED, method::NOTICE] {
            let answer = ask(&rpc, node, method, Bytes::new()).await;
            let why = answer.unwrap_err().to_string();
            assert!(why.contains("is in no layout"), "{method}: {why}");
        }
        // It can become a member.
        ask(&rpc, node, method::EPOCH, Bytes::new()).await.unwrap();
    }
    let peer = peer_of(&world.nodes[0]);
    let stream = rpc.stream(&peer, method::FETCH, Class::Small, LIMIT).await;
    let mut stream = stream.unwrap();
    assert!(stream.receive.receive().await.is_err());
}

/// So many strangers may be known that one of the layout is not. The model waits for it.
#[tokio::test(start_paused = true)]
async fn notice_is_not_confirmed_by_a_node_that_was_never_heard_of() {
    let world = world(1).await;
    let node = &world.nodes[0];
    let epoch = node.epoch().unwrap();
    let mut layout = epoch.newest().clone();
    layout.version = 2;
    let mut unknown = World::role(node, "d");
    unknown.store.node = STRANGER;
    layout.roles.push(unknown);
    node.learn(epoch.with_next(layout)).await.unwrap();
    let silent = node.notify(Bytes::new()).await;
    assert!(silent.contains(&STRANGER));
    let outside = &world.nodes[3].me().node;
    assert!(!silent.contains(outside), "it is told nothing");
}

/// Tells an epoch to everybody who asks.
struct Liar(Epoch);

#[async_trait]
impl Service for Liar {
    fn knows(&self, _: &NodeId) -> bool {
        true
    }

    async fn call(&self, _: NodeId, _: &str, _: Bytes) -> Result<Bytes, String> {
        Ok(self.0.encode().into())
    }

    async fn stream(&self, _: NodeId, _: &str, _: Stream) -> Result<(), String> {
        Err("none".into())
    }
}

/// An epoch that a stranger makes up would fence off all others for ever.
#[tokio::test(start_paused = true)]
async fn an_epoch_that_only_a_stranger_tells_is_not_learnt() {
    let world = world(1).await;
    let rpc = stranger(&world);
    let mut absurd = (*world.nodes[0].epoch().unwrap()).clone();
    absurd.config.epoch = u64::MAX / 2;
    let liar: Arc<dyn Service> = Arc::new(Liar(absurd.clone()));
    let serving = rpc.clone();
    tokio::spawn(async move { serving.serve(liar).await });
    for node in &world.nodes {
        let number = absurd.number().to_be_bytes().to_vec();
        ask(&rpc, node, method::EPOCH, number).await.unwrap();
    }
    tokio::time::sleep(LIMIT).await;
    for node in &world.nodes {
        assert_eq!(node.epoch().unwrap().number(), 1);
    }
    write(&world.nodes[2], "more").await.unwrap();
}

/// A stream that was opened in time is no way in afterwards.
#[tokio::test(start_paused = true)]
async fn an_open_stream_of_a_dismissed_node_is_refused() {
    let world = world(0).await;
    let (a, rpc) = (&world.nodes[0], stranger(&world));
    a.layouts().admit(STRANGER).await.unwrap();
    let peer = peer_of(a);
    let stream = rpc.stream(&peer, method::UPLOAD, Class::Small, LIMIT);
    let mut stream = stream.await.unwrap();
    let open = UploadOpen {
        address: row_call(a).address,
    };
    stream.send.send(codec::encode(&open).into()).await.unwrap();
    let call = || {
        let frame = [vec![frame::CALL], codec::encode(&row_call(a))].concat();
        Bytes::from(frame)
    };
    stream.send.send(call()).await.unwrap();
    let reply = stream.receive.receive().await.unwrap().unwrap();
    let reply: RowReply = codec::decode(&reply).unwrap();
    assert!(matches!(reply.0, Ok(Answer::Found { .. })), "{reply:?}");
    a.layouts().dismiss(STRANGER).await.unwrap();
    stream.send.send(call()).await.unwrap();
    assert!(stream.receive.receive().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_admitted_node_is_answered_until_it_is_dismissed() {
    let world = world(1).await;
    let [a, .., outside] = &world.nodes[..] else {
        panic!()
    };
    assert!(!outside.is_in_layout());
    assert!(outside.read(&row()).await.is_err());
    a.layouts().admit(outside.me().node).await.unwrap();
    // A second time is no change.
    let epoch = a.layouts().admit(outside.me().node).await.unwrap();
    assert_eq!(epoch.number(), 2);
    tokio::time::sleep(LIMIT).await;
    assert!(outside.is_in_layout());
    let read = outside.metadata(&row()).await.unwrap();
    assert_eq!(read, Some(Bytes::from_static(b"content")));
    a.layouts().dismiss(outside.me().node).await.unwrap();
    tokio::time::sleep(LIMIT).await;
    assert!(outside.read(&row()).await.is_err());
    let refused = a.layouts().dismiss(a.me().node).await.unwrap_err();
    assert!(refused.to_string().contains("layout remove"), "{refused}");
}

/// Nobody told node c of the new layout before the new node asks it.
#[tokio::test(start_paused = true)]
async fn a_node_that_a_newer_layout_takes_in_is_heard_at_once() {
    let world = world(1).await;
    let [a, _, c, new] = &world.nodes[..] else {
        panic!()
    };
    let (a_id, c_id) = (a.me().node, c.me().node);
    world.network.cut(a_id, c_id);
    let assign = LayoutChange::Assign(World::role(new, "a"));
    a.layouts().stage(vec![assign]).await.unwrap();
    a.layouts().apply(2, None).await.unwrap();
    assert_eq!(new.epoch().unwrap().number(), 2);
    assert_eq!(c.epoch().unwrap().number(), 1);
    world.network.end_all_cuts();
    c.0.layouts.check_admitted(&new.me().node).await.unwrap();
    assert_eq!(c.epoch().unwrap().number(), 2);
}

/// Node c has not heard of version 2. It put its own changes, for version 2, in the place of those
/// for version 3.
#[tokio::test(start_paused = true)]
async fn a_node_that_knows_an_older_layout_replaces_no_staged_changes() {
    let world = world(1).await;
    let [a, b, c, new] = &world.nodes[..] else {
        panic!()
    };
    world.network.cut(a.me().node, c.me().node);
    let assign = LayoutChange::Assign(World::role(new, "a"));
    a.layouts().stage(vec![assign]).await.unwrap();
    a.layouts().apply(2, None).await.unwrap();
    let remove = |node: &Cluster| vec![LayoutChange::Remove(node.me().node)];
    let staged = a.layouts().stage(remove(new)).await.unwrap();
    assert_eq!(c.epoch().unwrap().number(), 1);
    world.network.end_all_cuts();
    let refused = c.layouts().stage(remove(b)).await.unwrap_err();
    assert!(refused.to_string().contains("newer layout"), "{refused}");
    assert_eq!(a.layouts().staged().await.unwrap(), staged);
}

/// A zone stands in tables and on command lines.
#[tokio::test(start_paused = true)]
async fn a_zone_has_a_plain_name_and_what_is_discarded_is_not_applied() {
    let world = world(1).await;
    let [a, _, _, new] = &world.nodes[..] else {
        panic!()
    };
    for zone in ["pa ris", "a\n\x1b[31m", "", &"a".repeat(65)] {
        let assign = LayoutChange::Assign(World::role(new, zone));
        let refused = a.layouts().stage(vec![assign]).await.unwrap_err();
        assert!(refused.to_string().contains("not a zone name"), "{refused}");
    }
    let assign = LayoutChange::Assign(World::role(new, "site-1_a.b"));
    let staged = a.layouts().stage(vec![assign]).await.unwrap();
    a.layouts().stage(vec![LayoutChange::Revert]).await.unwrap();
    let seen = Some(staged.revision);
    let refused = a.layouts().apply(staged.version, seen).await.unwrap_err();
    let told = "nothing is staged";
    assert!(refused.to_string().contains(told), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_an_earlier_release_took_stays() {
    let world = World::unfounded(2, LATENCY, 1, Hooks::NONE).await.unwrap();
    let [old, new] = &world.nodes[..] else {
        panic!()
    };
    old.found("pa ris", 1 << 40).await.unwrap();
    let assign = |zone| vec![LayoutChange::Assign(World::role(new, zone))];
    let refused = old.layouts().stage(assign("os lo")).await.unwrap_err();
    assert!(refused.to_string().contains("not a zone name"), "{refused}");
    old.layouts().stage(assign("pa ris")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_learns_no_layouts_is_not_taken_in_and_drives_no_change() {
    let world = world(1).await;
    let [a, b, _, new] = &world.nodes[..] else {
        panic!()
    };
    world.seems_to_lag(new.me().node);
    let assign = LayoutChange::Assign(World::role(new, "a"));
    a.layouts().stage(vec![assign]).await.unwrap();
    let refused = a.layouts().apply(2, None).await.unwrap_err();
    assert!(refused.to_string().contains("node join"), "{refused}");
    let epoch = a.epoch().unwrap();
    assert_eq!(b.layouts().driver(&epoch), Some(a.me().node));
    world.seems_to_lag(a.me().node);
    assert_eq!(b.layouts().driver(&epoch), Some(b.me().node));
}

/// The disk of a member was lost, so it knows no layout.
#[tokio::test(start_paused = true)]
async fn a_member_with_a_new_store_that_learns_no_layouts_is_not_taken_in() {
    let world = world(0).await;
    let [a, _, c] = &world.nodes[..] else {
        panic!()
    };
    let mut changed = World::role(c, "c");
    changed.store.store = Id([77; 16]);
    a.layouts()
        .stage(vec![LayoutChange::Assign(changed)])
        .await
        .unwrap();
    world.seems_to_lag(c.me().node);
    let refused = a.layouts().apply(2, None).await.unwrap_err();
    assert!(refused.to_string().contains("node join"), "{refused}");
    assert_eq!(a.epoch().unwrap().number(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_removed_node_is_shut_out() {
    let world = world(1).await;
    for node in &world.nodes {
        let node = node.clone();
        tokio::spawn(async move { node.layouts().run_rebalance().await });
    }
    let [a, _, c, new] = &world.nodes[..] else {
        panic!()
    };
    let changes = vec![
        LayoutChange::Assign(World::role(new, "c")),
        LayoutChange::Remove(c.me().node),
    ];
    a.layouts().stage(changes).await.unwrap();
    a.layouts().apply(2, None).await.unwrap();
    // While data moves it is answered.
    a.0.layouts.check_admitted(&c.me().node).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(!a.epoch().unwrap().is_changing());
    assert!(a.0.layouts.check_admitted(&c.me().node).await.is_err());
    assert!(!c.is_in_layout());
    assert!(c.read(&row()).await.is_err());
    let read = new.metadata(&row()).await.unwrap();
    assert_eq!(read, Some(Bytes::from_static(b"content")));
}
