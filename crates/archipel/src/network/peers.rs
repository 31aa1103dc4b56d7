//! Where other nodes were: kept in a file, so that those who are left find one another after a start, also
//! when those of `cluster.join` are away.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use archipel_cluster::members::{MAX_TEXT_BYTES, Member, Members};
use tokio::task::spawn_blocking;

use crate::identity;

const FILE: &str = "peers";
/// The first line: the format.
const FORMAT: &str = "archipel peers 1";
/// How many addresses are kept at most.
const MOST: usize = 24;

/// The addresses that are kept in the node's data folder; none if they cannot be read, as the node
/// can do without.
pub fn read(folder: &Path) -> Vec<String> {
    let path = folder.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            let path = path.display();
            tracing::warn!(%error, %path, "where other nodes were cannot be read");
            return Vec::new();
        }
    };
    let mut lines = text.lines();
    if lines.next() != Some(FORMAT) {
        let path = path.display();
        tracing::warn!(%path, "where other nodes were is kept in a format of another release");
        return Vec::new();
    }
    let bounded = lines.filter(|line| !line.is_empty() && line.len() <= MAX_TEXT_BYTES);
    bounded.take(MOST).map(String::from).collect()
}

/// Keeps addresses of the members as they change, until it is dropped. Those of before stay behind those
/// that are known now: of whom nothing was heard since the start may still be there.
pub async fn keep(members: Members, me: archipel_base::NodeId, folder: PathBuf) {
    let mut news = members.changed();
    let mut kept = read(&folder);
    loop {
        let others = members.list().into_iter().filter(|other| other.id != me);
        let now = merge(others.collect(), &kept);
        // What comes first matters only while not all have room.
        let is_new = now.len() != kept.len() || now.iter().any(|one| !kept.contains(one));
        if is_new {
            let (path, text) = (folder.join(FILE), text_of(&now));
            let written = spawn_blocking(move || identity::replace(&path, text.as_bytes())).await;
            match written {
                Ok(Ok(())) => kept = now,
                Ok(Err(error)) => tracing::warn!(%error, "where other nodes are cannot be kept"),
                Err(_) => return,
            }
        }
        news.changed().await;
    }
}

/// One address of each node, of those first that are there; then those of before.
fn merge(mut others: Vec<Member>, before: &[String]) -> Vec<String> {
    others.sort_by_key(|other| (other.suspected, other.id));
    let told = others
        .iter()
        .filter_map(|other| other.facts.addresses.first());
    let mut all: Vec<String> = Vec::new();
    for address in told.chain(before) {
        if !all.contains(address) && all.len() < MOST {
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
    use archipel_cluster::members::Facts;

    use super::*;

    fn member(n: u8, suspected: bool) -> Member {
        Member {
            id: archipel_base::NodeId([n; 32]),
            facts: Facts {
                addresses: vec![format!("node{n}:1"), format!("other{n}:1")],
                ..Facts::default()
            },
            generation: 1,
            suspected,
            leaving: false,
            since_ms_ago: 0,
            heard_ms_ago: 0,
        }
    }

    #[test]
    fn who_is_there_comes_first_and_who_was_is_not_lost() {
        let before = ["node1:1".to_owned(), "old:1".to_owned()];
        let all = merge(vec![member(1, true), member(2, false)], &before);
        assert_eq!(all, ["node2:1", "node1:1", "old:1"]);
        let many = (0..200).map(|n| member(n, false)).collect();
        assert_eq!(merge(many, &before).len(), MOST);
    }

    #[test]
    fn what_is_kept_is_read_again_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).is_empty());
        let addresses = vec!["a:1".to_owned(), "b:1".to_owned()];
        let path = folder.path().join(FILE);
        identity::replace(&path, text_of(&addresses).as_bytes()).unwrap();
        assert_eq!(read(folder.path()), addresses);
        std::fs::write(&path, "archipel peers 2\na:1\n").unwrap();
        assert!(read(folder.path()).is_empty());
    }
}
