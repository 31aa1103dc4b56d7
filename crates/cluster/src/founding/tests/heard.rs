//! Nodes that hear of a cluster whose layout they have not learnt, and what nodes remember.

use archipel_storage::{Payload, Value};

use super::*;
use crate::data::options::WriteOptions;
use crate::reconfigure::change::successor_row;

/// Waits until a machine has heard of a cluster.
async fn wait_until_heard(site: &Site, n: usize) {
    let heard = async {
        while cluster(site, n).heard_of_cluster().is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, heard).await.unwrap();
}

/// Keeps a machine from learning layouts, although it hears of them.
fn keep_from_learning(site: &Site, n: usize) {
    site.machines[n].running.as_ref().unwrap().follows.abort();
}

fn let_learn(site: &mut Site, n: usize) {
    let process = site.machines[n].running.as_mut().unwrap();
    let (members, cluster) = (process.members.clone(), process.cluster.clone());
    process.follows = tokio::spawn(async move { members.follow(&cluster).await });
}

fn cluster(site: &Site, n: usize) -> &Cluster {
    &site.machines[n].running.as_ref().unwrap().cluster
}

/// Returns a first layout of machine 0 and two others.
async fn proposal(site: &Site) -> Epoch {
    let nodes = [0, 2, 3].map(|n| {
        let mut node = member(n, 3);
        (node.info.capacity_bytes, node.info.level) = (1 << 40, LEVEL);
        if let Some(process) = &site.machines[n].running {
            node.info.store = process.cluster.me().store;
        }
        node
    });
    let first = site.first(0);
    let planned = planned(cluster(site, 0), &nodes, &first);
    planned.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_heard_of_a_cluster_promises_and_commits_nothing() {
    let mut site = Site::new(4, 3, 2);
    site.told = 1;
    site.start(0).await;
    keep_from_learning(&site, 0);
    let (own, other) = (proposal(&site).await, proposal(&site).await);
    let here = cluster(&site, 0).clone();
    here.epochs.propose(&own).await.unwrap();

    site.start(1).await;
    cluster(&site, 1).found("old", 1 << 40).await.unwrap();
    wait_until_heard(&site, 0).await;

    let fate = FateCall {
        cluster: own.cluster,
        store: here.me().store,
    };
    let heard = || here.heard_of_cluster();
    let refused = here.epochs.commit(here.store(), own, heard).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("there is a cluster already"), "{refused}");
    assert_eq!(here.epochs.fate(&fate).await.unwrap(), FateReply::Dropped);

    let refused = here.promise_first(id(2), other).await.unwrap_err();
    assert!(refused.contains("there is a cluster already"), "{refused}");
    assert!(refused.contains(&id(1).short()), "{refused}");
    assert_eq!(here.epochs.promised(), None);
    assert!(here.epoch().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_only_node_was_wiped_blocks_nobody() {
    let mut site = Site::new(3, 3, 4);
    site.told = 2;
    site.start(2).await;
    cluster(&site, 2).found("old", 1 << 40).await.unwrap();
    for n in 0..2 {
        site.start(n).await;
        keep_from_learning(&site, n);
        wait_until_heard(&site, n).await;
    }
    assert_eq!(site.clusters().len(), 1);
    site.wipe(2);
    (0..2).for_each(|n| let_learn(&mut site, n));
    site.start(2).await;
    site.wait_for_all(&mut BTreeSet::new()).await;
}

/// A node that answers before it tells its cluster would be taken for a new one.
#[tokio::test(start_paused = true)]
async fn a_node_tells_its_cluster_from_its_first_answer_on() {
    let mut site = Site::new(1, 1, 6);
    site.start(0).await;
    cluster(&site, 0).found("old", 1 << 40).await.unwrap();
    site.crash(0);
    site.start(0).await;
    // No task of the new process has run yet.
    let members = &site.machines[0].running.as_ref().unwrap().members;
    assert_eq!(members.cluster(), site.cluster_of(0));
    assert_eq!(members.list()[0].info.epoch, 1);
}

#[tokio::test(start_paused = true)]
async fn only_the_node_that_founds_remembers_so_until_it_is_done() {
    let mut site = Site::new(3, 3, 11);
    site.start_all().await;
    site.wait_for_all(&mut BTreeSet::new()).await;
    site.crash(0);
    site.start(0).await;
    let mut founding = Vec::new();
    for machine in &site.machines {
        let cluster = &machine.running.as_ref().unwrap().cluster;
        founding.push(cluster.is_founding().await.unwrap());
        cluster.end_founding().await.unwrap();
        assert!(!cluster.is_founding().await.unwrap());
    }
    assert_eq!(founding, [true, false, false]);
}

/// A machine that was removed may still answer at an address of the settings.
#[tokio::test(start_paused = true)]
async fn with_a_layout_only_its_nodes_and_those_of_a_command_are_believed() {
    let mut site = Site::new(3, 4, 8);
    site.start(0).await;
    cluster(&site, 0).found("old", 1 << 40).await.unwrap();
    site.start_all().await;
    site.wait_for_all(&mut BTreeSet::new()).await;
    let here = site.machines[1].running.as_ref().unwrap();
    let named = async {
        while !here.members.is_named(&id(2)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, named).await.unwrap();
    assert!(here.cluster.trusts(&id(0)));
    assert!(!here.cluster.trusts(&id(2)));
    // Messages get lost.
    while here.members.join(&[id(2).to_string()]).await.is_err() {}
    assert!(here.cluster.trusts(&id(2)));
}

/// The founder may be gone for good after the layout came into force at another node.
#[tokio::test(start_paused = true)]
async fn the_nodes_of_a_promised_layout_are_believed() {
    let mut site = Site::new(4, 3, 9);
    site.told = 1;
    site.start(0).await;
    site.start(2).await;
    let here = cluster(&site, 2).clone();
    let proposal = proposal(&site).await;
    assert!(!here.trusts(&id(3)));
    here.epochs.wait_for_first(3, None);
    here.promise_first(id(0), proposal).await.unwrap();
    assert!(here.trusts(&id(3)) && !here.trusts(&id(1)));
}

/// The nodes of the known layout have a newer one in the row that decides, and do not know it.
#[tokio::test(start_paused = true)]
async fn a_layout_that_only_a_stranger_tells_is_learnt_from_the_row_that_decides() {
    let mut site = Site::new(4, 3, 10);
    site.told = 3;
    for n in 0..3 {
        site.start(n).await;
    }
    let formed = async {
        while site.clusters().len() < 3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, formed).await.unwrap();
    site.start(3).await;
    site.wait_for_all(&mut BTreeSet::new()).await;

    let (here, stranger) = (cluster(&site, 0), cluster(&site, 3));
    let epoch = here.epoch().unwrap();
    let next = epoch.admitting(id(3)).unwrap();
    let value = Value {
        payload: Payload::Inline(next.encode().into()),
        ..Value::default()
    };
    let (row, how) = (
        successor_row(epoch.number()),
        WriteOptions::durable(Durability::Fsync),
    );
    here.write(&row, Some(value), how).await.unwrap();
    stranger.learn(next.clone()).await.unwrap();
    let all = async {
        while (0..4).any(|n| cluster(&site, n).epoch().as_deref() != Some(&next)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, all).await.unwrap();
}
