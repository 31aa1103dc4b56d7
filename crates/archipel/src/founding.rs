//! Checks that a node that would found a cluster alone is a new one.

use crate::config::Settings;
use crate::identity::Identity;
use crate::network;

/// Refuses to found a cluster on a node that was in one: its store is lost, and the other nodes go
/// on without it. `boot` is how often its store was opened.
///
/// # Errors
/// A text for the operator.
pub fn check(settings: &Settings, boot: u64, identity: &Identity) -> Result<(), String> {
    let folder = &settings.data_dir;
    let why = if settings.cluster.network.is_none() {
        return Ok(());
    } else if !network::known_addresses(folder).is_empty() {
        "it knew other nodes before"
    } else if boot == 1 && !identity.is_new {
        "its key is older than its store"
    } else {
        return Ok(());
    };
    Err(format!(
        "this node is in no layout and would found a cluster of its own, but {why}; fix: restore its store; or, \
         if its cluster goes on, name other nodes of it in cluster.join; or, if all is to begin again, remove \
         node.key and peers from {}",
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config;

    fn settings(folder: &Path, cluster: &str) -> Settings {
        let secret = folder.join("secret");
        private_file(&secret, "a-secret-of-at-least-32-characters");
        let text = match cluster {
            "" => String::new(),
            cluster => format!("[cluster]\n{cluster}secret_file = {secret:?}\n"),
        };
        let text = format!("data_dir = {folder:?}\n{text}");
        let path = folder.join("test.toml");
        std::fs::write(&path, text).unwrap();
        let read = config::load(&path, std::iter::empty());
        read.unwrap().settings
    }

    fn private_file(path: &Path, text: &str) {
        crate::identity::replace(path, text.as_bytes()).unwrap();
    }

    #[test]
    fn only_a_node_without_a_past_founds_a_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let clustered = settings(folder, "listen = \"127.0.0.1:3901\"\n");
        let new = Identity::load(folder).unwrap();
        assert_eq!(check(&clustered, 1, &new), Ok(()));
        // The power failed before the node had a store.
        let new = Identity::load(folder).unwrap();
        assert_eq!(check(&clustered, 1, &new), Ok(()));
        new.keep(folder).unwrap();
        let again = Identity::load(folder).unwrap();
        // An earlier start crashed before it founded the cluster.
        assert_eq!(check(&clustered, 2, &again), Ok(()));
        let why = check(&clustered, 1, &again).unwrap_err();
        assert!(
            why.contains("its key is older") && why.contains("cluster.join"),
            "{why}"
        );
        assert_eq!(check(&settings(folder, ""), 1, &again), Ok(()));
        private_file(&folder.join("peers"), "archipel peers 1\nb:3901\n");
        let why = check(&clustered, 2, &again).unwrap_err();
        assert!(why.contains("it knew other nodes before"), "{why}");
    }

    #[test]
    fn a_key_is_new_until_the_node_has_a_store() {
        let folder = tempfile::tempdir().unwrap();
        let load = || Identity::load(folder.path()).unwrap();
        let (first, again) = (load(), load());
        assert!(first.is_new && again.is_new);
        // Disks may be marked with the id already.
        assert_eq!(first.node(), again.node());
        again.keep(folder.path()).unwrap();
        let kept = load();
        assert_eq!((kept.node(), kept.is_new), (first.node(), false));
        kept.keep(folder.path()).unwrap();
    }
}
