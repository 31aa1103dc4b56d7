//! Decisions about versions that are behind many dead ones, or unknown.

use std::time::Duration;

use archipel_base::PartitionId;

use super::*;
use crate::cluster::Cluster;
use crate::data::options::Versioning;
use crate::memory::World;
use crate::memory::versioned::{FEW_DEAD, VERSIONED};

/// As many of them as a list may hold do not fit into a message.
const METADATA: usize = 20 << 10;

fn object() -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"o/k"),
    }
}

async fn put(node: &Cluster) -> VersionName {
    let how = WriteOptions {
        versioning: Versioning::New,
        ..WriteOptions::durable(Durability::Fsync)
    };
    let row = object();
    let value = Value {
        metadata: vec![7; METADATA].into(),
        ..Value::default()
    };
    let written = node.write(&row, Some(value), how);
    Some(written.await.unwrap())
}

async fn kill(node: &Cluster, name: VersionName) {
    let kill = |_: &VersionSeen<'_>| VersionDecision::<()>::Kill;
    let how = WriteOptions::durable(Durability::Fsync);
    let killed = node.decide_version(&object(), name, how, kill).await;
    killed.unwrap().unwrap();
}

/// The list of dead versions is longer than a replica tells, several times.
#[tokio::test(start_paused = true)]
async fn the_version_before_very_many_dead_ones_becomes_current() {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 1, VERSIONED).await.unwrap();
    let node = &world.nodes[0];
    let mut names = Vec::new();
    for _ in 0..4 * FEW_DEAD {
        names.push(put(node).await);
    }
    let last = names[names.len() - 1];
    let living = FEW_DEAD + 8;
    for dead in &names[living..names.len() - 1] {
        kill(node, *dead).await;
    }
    let current = async || {
        let read = node.read(&object()).await.unwrap();
        let read = read.filter(|value| value.kind() != VersionKind::Void);
        read.map(|value| value.version_name())
    };
    kill(node, last).await;
    for left in (0..living).rev() {
        assert_eq!(current().await, Some(names[left]));
        kill(node, names[left]).await;
    }
    assert_eq!(current().await, None);
}

/// A replica may hold a version that no other one knows. So its deletion writes something, and a refused
/// change of it does not.
#[tokio::test(start_paused = true)]
async fn a_refused_change_of_an_unknown_version_writes_nothing_and_its_deletion_does() {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 1, VERSIONED).await.unwrap();
    let node = &world.nodes[0];
    let name = Some(node.next_stamp(Stamp::ZERO));
    let how = || WriteOptions::durable(Durability::Fsync);
    let refuse = |_: &VersionSeen<'_>| VersionDecision::Abort("no such version");
    let refused = node.decide_version(&object(), name, how(), refuse).await;
    assert_eq!(refused.unwrap(), Err("no such version"));
    assert_eq!(node.read(&object()).await.unwrap(), None);
    let absent = |_: &VersionSeen<'_>| VersionDecision::Absent("no such version");
    let absent = node.decide_version(&object(), name, how(), absent).await;
    assert_eq!(absent.unwrap(), Err("no such version"));
    let written = node.read(&object()).await.unwrap();
    assert_eq!(written.map(|value| value.kind()), Some(VersionKind::Void));
}
