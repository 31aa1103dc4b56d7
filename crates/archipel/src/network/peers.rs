//! A file with the addresses of other nodes, so that the remaining nodes find one another after a
//! start even if the nodes of `cluster.join` are down.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use archipel_cluster::membership::{MAX_TEXT_BYTES, Member, Members};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::identity;

const FILE: &str = "peers";
/// The first line, which names the format.
const FORMAT: &str = "archipel peers 1";
/// The limit of kept addresses.
const MAX_ADDRESSES: usize = 24;
/// The pause before a failed write is repeated, unless the members change sooner.
const REPEAT: Duration = Duration::from_secs(60);

/// Returns the addresses in the node's data folder. Returns none if they cannot be read, because
/// the node can run without them.
pub fn read(folder: &Path) -> Vec<String> {
    let path = folder.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            let path = path.display();
            tracing::warn!(%error, %path, "cannot read the addresses of other nodes");
            return Vec::new();
        }
    };
    let mut lines = text.lines();
    if lines.next() != Some(FORMAT) {
        let path = path.display();
        tracing::warn!(%path, "the addresses of other nodes are in another release's format");
        return Vec::new();
    }
    let bounded = lines.filter(|line| !line.is_empty() && line.len() <= MAX_TEXT_BYTES);
    bounded.take(MAX_ADDRESSES).map(String::from).collect()
}

/// Writes the addresses of the members whenever they change, until the future is dropped. Repeats a
/// write that fails. Earlier addresses stay behind the current ones, because a node that was silent
/// since the start may still be there.
pub async fn keep(members: Members, me: archipel_base::NodeId, folder: PathBuf) {
    let mut changes = members.changed();
    let mut kept = read(&folder);
    loop {
        let others = members.list().into_iter().filter(|other| other.id != me);
        let now = merge(others.collect(), &kept);
        // The order matters only if some addresses do not fit.
        let has_new = now.len() != kept.len() || now.iter().any(|one| !kept.contains(one));
        if has_new {
            let (path, text) = (folder.join(FILE), text_of(&now));
            let written = spawn_blocking(move || identity::replace(&path, text.as_bytes())).await;
            match written {
                Ok(Ok(())) => kept = now,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot write the addresses of other nodes");
                    let _ = timeout(REPEAT, changes.changed()).await;
                    continue;
                }
                Err(_) => return,
            }
        }
        changes.changed().await;
    }
}

/// Returns one address of each node: live nodes of the layout, others of the layout, and then the
/// earlier addresses. Nodes outside of the layout come last, so that they push out none of these. A
/// node without a layout keeps live nodes first.
fn merge(mut others: Vec<Member>, before: &[String]) -> Vec<String> {
    let has_layout = others.iter().any(|other| other.in_layout);
    let is_outside = |other: &Member| has_layout && !other.in_layout;
    others.sort_by_key(|other| (is_outside(other), other.suspected, other.id));
    let (outside, current): (Vec<_>, Vec<_>) = others.iter().partition(|one| is_outside(one));
    let address = |other: &'_ Member| other.info.addresses.first().cloned();
    let outside: Vec<String> = outside.into_iter().filter_map(address).collect();
    let current: Vec<String> = current.into_iter().filter_map(address).collect();
    let earlier = before.iter().filter(|one| !outside.contains(one));
    let mut all: Vec<String> = Vec::new();
    for address in current.iter().chain(earlier).chain(&outside) {
        if !all.contains(address) && all.len() < MAX_ADDRESSES {
            all.push(address.clone());
        }
    }
    all
}

fn text_of(addresses: &[String]) -> String {
    let lines = [FORMAT]
        .into_iter()
        .chain(addresses.iter().map(String::as_str));
    lines.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use archipel_base::NodeId;
    use archipel_base::clock::ManualClock;
    use archipel_base::random::SeededRandom;
    use archipel_cluster::Listener;
    use archipel_cluster::membership::NodeInfo;
    use archipel_net::Stream;
    use archipel_net::rpc::{Rpc, Service};
    use archipel_net::simulated::SimulatedNetwork;
    use async_trait::async_trait;
    use bytes::Bytes;

    use super::*;

    fn member(n: u8, suspected: bool) -> Member {
        Member {
            id: NodeId([n; 32]),
            info: NodeInfo {
                addresses: vec![format!("node{n}:1"), format!("other{n}:1")],
                ..NodeInfo::default()
            },
            generation: 1,
            suspected,
            leaving: false,
            since_ms_ago: 0,
            heard_ms_ago: 0,
            lagging: false,
            in_layout: false,
        }
    }

    #[test]
    fn live_nodes_come_first_and_earlier_addresses_stay() {
        let before = ["node1:1".to_owned(), "old:1".to_owned()];
        let all = merge(vec![member(1, true), member(2, false)], &before);
        assert_eq!(all, ["node2:1", "node1:1", "old:1"]);
        let many = (0..200).map(|n| member(n, false)).collect();
        assert_eq!(merge(many, &before).len(), MAX_ADDRESSES);
    }

    /// A stranger with the secret may make up any number of them.
    #[test]
    fn nodes_outside_of_the_layout_push_out_no_member() {
        let members = (200..203).map(|n| Member {
            in_layout: true,
            ..member(n, n == 202)
        });
        let strangers = (0..100).map(|n| member(n, false));
        let before = ["old:1".to_owned(), "node3:1".to_owned()];
        let all = merge(strangers.chain(members).collect(), &before);
        assert_eq!(all.len(), MAX_ADDRESSES);
        let first = ["node200:1", "node201:1", "node202:1", "old:1", "node0:1"];
        assert_eq!(all[..5], first);
    }

    #[test]
    fn written_addresses_are_read_back_and_unknown_formats_ignored() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).is_empty());
        let addresses = vec!["a:1".to_owned(), "b:1".to_owned()];
        let path = folder.path().join(FILE);
        identity::replace(&path, text_of(&addresses).as_bytes()).unwrap();
        assert_eq!(read(folder.path()), addresses);
        std::fs::write(&path, "archipel peers 2\na:1\n").unwrap();
        assert!(read(folder.path()).is_empty());
    }

    /// Answers gossip alone.
    struct Gossiper(Members);

    #[async_trait]
    impl Service for Gossiper {
        fn knows(&self, _: &NodeId) -> bool {
            true
        }

        async fn call(&self, from: NodeId, _: &str, request: Bytes) -> Result<Bytes, String> {
            self.0.gossip(from, request).await
        }

        async fn stream(&self, _: NodeId, _: &str, _: Stream) -> Result<(), String> {
            Err("no streams here".into())
        }
    }

    /// The disk may be full for a moment, and the members may never change again.
    #[tokio::test(start_paused = true)]
    async fn failed_write_is_repeated_although_no_member_changes() {
        let random = Arc::new(SeededRandom::new(1));
        let network = SimulatedNetwork::new(random.clone());
        let start = |n: u8, seeds: Vec<String>| {
            let rpc = Rpc::new(network.node(NodeId([n; 32])));
            let info = member(n, false).info;
            let clock = Arc::new(ManualClock::at(1));
            let members = Members::new(rpc.clone(), random.clone(), 1, info, seeds, clock);
            (rpc, members)
        };
        let (_, members) = start(1, vec![NodeId([2; 32]).to_string()]);
        let (rpc, other) = start(2, Vec::new());
        tokio::spawn(async move { rpc.serve(Arc::new(Gossiper(other))).await });
        let gossiping = members.clone();
        tokio::spawn(async move { gossiping.run().await });
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let (keeping, me, path) = (members.clone(), NodeId([1; 32]), missing.clone());
        tokio::spawn(async move { keep(keeping, me, path).await });
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(members.list().len(), 2);
        std::fs::create_dir(&missing).unwrap();
        tokio::time::sleep(2 * REPEAT).await;
        assert_eq!(read(&missing), ["node2:1"]);
    }
}
