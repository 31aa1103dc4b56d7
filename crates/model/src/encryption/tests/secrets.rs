//! The secret of the keyring changes, node by node.

use std::time::Duration;

use archipel_cluster::World;

use super::*;
use crate::ModelOptions;

/// A cluster of three nodes that had the secret "old" at first, with an encrypted object and an
/// access key.
struct Three {
    world: World,
    nodes: Vec<Model>,
    key: String,
}

impl Three {
    async fn start() -> Three {
        let latency = Duration::from_millis(5);
        let world = World::new(3, 3, latency, 1, HOOKS).await.unwrap();
        let mut three = Three {
            world,
            nodes: Vec::new(),
            key: String::new(),
        };
        for node in 0..3 {
            let model = three.open(node, secrets(&["old"], &[])).await;
            three.nodes.push(model);
        }
        let first = &three.nodes[0];
        let bucket = first.create_bucket("bucket", None).await.unwrap();
        put(first, &bucket, &Encrypt::Server, b"content").await;
        let key = first.create_owner_key("k").await.unwrap();
        three.key = key.id.clone();
        three
    }

    async fn open(&self, node: usize, secrets: RingSecrets) -> Model {
        let options = ModelOptions {
            ring_secrets: secrets,
            ..ModelOptions::default()
        };
        let opened = Model::open_with(self.world.nodes[node].clone(), options);
        opened.await.unwrap()
    }

    /// Starts a node again with these secrets, as `archipel server` does.
    async fn restart(&mut self, node: usize, secrets: RingSecrets) -> Result<(), Error> {
        self.nodes[node] = self.open(node, secrets).await;
        self.nodes[node].rewrap_keyring().await
    }

    /// Reads the object through a node that must be able to.
    async fn reads(&self, node: usize) {
        let model = &self.nodes[node];
        model.refresh_all().await.unwrap();
        let bucket = model.bucket("bucket").unwrap().unwrap();
        let reader = model.open_object(&bucket, "key").await.unwrap();
        assert_eq!(read(&reader, 0..9).await.unwrap(), b"content");
    }

    /// Checks that all nodes know the access key's secret, and encrypt and read objects.
    async fn all_serve(&self) {
        for (node, model) in self.nodes.iter().enumerate() {
            self.reads(node).await;
            assert!(model.access_key(&self.key).unwrap().is_some());
            let bucket = model.bucket("bucket").unwrap().unwrap();
            model.seal(&bucket, "key", &Encrypt::Server).await.unwrap();
        }
    }

    async fn is_closed(&self, node: usize) -> bool {
        let model = &self.nodes[node];
        model.refresh_all().await.unwrap();
        let bucket = model.bucket("bucket").unwrap().unwrap();
        let refused = [
            model.open_object(&bucket, "key").await.map(|_| ()),
            model.access_key(&self.key).map(|_| ()),
        ];
        let is_refused = |result: &Result<(), Error>| matches!(result, Err(Error::NoMasterKey(_)));
        refused.iter().all(is_refused)
    }
}

/// From the cluster's secret to a file of its own: as the manual says it, in two rounds.
#[tokio::test(start_paused = true)]
async fn all_nodes_serve_while_the_secret_changes_in_two_rounds() {
    let mut three = Three::start().await;
    for node in 0..3 {
        let both = secrets(&["new", "old"], &["old", "own"]);
        three.restart(node, both).await.unwrap();
        three.all_serve().await;
        // One that still has the old settings starts again meanwhile.
        if node == 0 {
            let before = secrets(&["old"], &["own"]);
            three.restart(1, before).await.unwrap();
            three.all_serve().await;
        }
    }
    for node in 0..3 {
        let present = secrets(&["new"], &["old", "own"]);
        three.restart(node, present).await.unwrap();
        three.all_serve().await;
    }
    // The old secret opens nothing any more.
    let before = three.restart(1, secrets(&["old"], &["own"])).await;
    assert!(matches!(before, Err(Error::NoMasterKey(_))), "{before:?}");
    assert!(three.is_closed(1).await);
}

/// One node gets the new secret alone. Its first start leaves the others what they need.
#[tokio::test(start_paused = true)]
async fn first_start_with_a_new_secret_closes_no_other_node() {
    let mut three = Three::start().await;
    let moved = || secrets(&["new"], &["old", "own"]);
    three.restart(0, moved()).await.unwrap();
    three.all_serve().await;
    let before = secrets(&["old"], &["own"]);
    three.restart(1, before).await.unwrap();
    three.all_serve().await;
    for node in 0..3 {
        three.restart(node, moved()).await.unwrap();
        three.all_serve().await;
    }
    assert!(three.restart(1, secrets(&["old"], &[])).await.is_err());
    assert!(three.is_closed(1).await);
}

/// The first attempt of a start took effect, but its answer was lost. So the node tries again.
#[tokio::test(start_paused = true)]
async fn second_attempt_of_a_start_drops_no_wrapping() {
    let mut three = Three::start().await;
    let moved = || secrets(&["new"], &["old"]);
    three.restart(0, moved()).await.unwrap();
    three.nodes[0].rewrap_keyring().await.unwrap();
    three.restart(1, secrets(&["old"], &[])).await.unwrap();
    three.all_serve().await;
}

/// Two starts of one node come before the others know its secret.
#[tokio::test(start_paused = true)]
async fn node_that_runs_keeps_the_keys_that_it_knows() {
    let mut three = Three::start().await;
    for _ in 0..2 {
        let moved = secrets(&["new"], &["old"]);
        three.restart(0, moved).await.unwrap();
    }
    three.all_serve().await;
    let status = three.nodes[1].keyring_status().await.unwrap();
    assert!(status.trouble.unwrap().contains("no secret of this node"));
    assert!(status.keys[0].is_open);
    assert!(three.nodes[1].known_keyring().is_closed);
    assert!(!three.nodes[0].known_keyring().is_closed);
    // The others could not open a key that it adds.
    let refused = three.nodes[1].rotate_keyring().await;
    assert!(matches!(refused, Err(Error::NoMasterKey(_))), "{refused:?}");
    // It cannot open one that they add, and says so. It reads on by the earlier one.
    three.nodes[0].rotate_keyring().await.unwrap();
    three.reads(1).await;
    let bucket = three.nodes[1].bucket("bucket").unwrap().unwrap();
    let refused = three.nodes[1].seal(&bucket, "key", &Encrypt::Server).await;
    assert!(matches!(refused, Err(Error::NoMasterKey(_))));
    assert!(three.restart(1, secrets(&["old"], &[])).await.is_err());
    assert!(three.is_closed(1).await);
    for node in [1, 2] {
        let moved = secrets(&["new"], &[]);
        three.restart(node, moved).await.unwrap();
    }
    three.all_serve().await;
}
