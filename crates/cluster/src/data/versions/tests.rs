//! Decisions about versions behind many dead ones.

use std::time::Duration;

use archipel_base::PartitionId;

use super::*;
use crate::cluster::Cluster;
use crate::data::options::Versioning;
use crate::memory::World;
use crate::memory::versioned::VERSIONED;
use crate::register::versions::MOST_DEAD;

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
    let written = node.write(&row, Some(Value::default()), how);
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
    for _ in 0..4 * MOST_DEAD {
        names.push(put(node).await);
    }
    let (first, second, last) = (names[0], names[1], names[names.len() - 1]);
    for dead in &names[2..names.len() - 1] {
        kill(node, *dead).await;
    }
    let current = async || {
        let read = node.read(&object()).await.unwrap();
        let read = read.filter(|value| value.kind() != VersionKind::Void);
        read.map(|value| value.version_name())
    };
    for (gone, left) in [(last, Some(second)), (second, Some(first)), (first, None)] {
        kill(node, gone).await;
        assert_eq!(current().await, left);
    }
}
