//! Many clients that write one key at once.

use std::sync::Arc;

use archipel_net::simulated::Link;
use tokio::task::JoinHandle;

use super::*;

/// Ends a task when it is dropped.
struct Aborts(JoinHandle<()>);

impl Drop for Aborts {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Lets the nodes' clocks run with the paused time.
async fn let_clocks_run(world: Arc<World>) {
    let begun = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        for node in 0..world.nodes.len() {
            world.set_clock_ahead(node, begun.elapsed());
        }
    }
}

/// One in ten used to get 503 although every node answered: a coordinator took its own burial for
/// another operation's decision, or could not tell what became of an attempt that others had written on.
#[tokio::test(start_paused = true)]
async fn contention_alone_fails_no_put() {
    for seed in 0..4 {
        let world = Arc::new(world(seed).await);
        let _clocks = Aborts(tokio::spawn(let_clocks_run(world.clone())));
        world.network.set_default_link(Link {
            latency: Duration::from_millis(2),
            jitter: Duration::from_millis(4),
            ..Link::default()
        });
        let clients = (0..8).map(|client| {
            let node = world.nodes[client % 3].clone();
            tokio::spawn(async move {
                let mut ends = Vec::new();
                for n in 0..40 {
                    let row = key("o/k");
                    let put = node.write(&row, Some(value(&format!("{client}/{n}"))), new());
                    ends.push(put.await);
                }
                ends
            })
        });
        let clients: Vec<_> = clients.collect();
        let mut ends = Vec::new();
        for client in clients {
            ends.extend(client.await.unwrap());
        }
        let names: Vec<Stamp> = ends.into_iter().map(Result::unwrap).collect();
        settle().await;
        for name in &names {
            assert!(look(&world.nodes[0], Some(*name)).await.is_some());
        }
        let kept = kept(&world.nodes[1]).await;
        assert_eq!(kept.len(), names.len() - 1, "each PUT is one version");
    }
}
