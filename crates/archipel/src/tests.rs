//! Tests of a node's identity: its key, its folder, its disks, its socket.

mod disks;
mod numbers;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::identity::Identity;
use crate::lock::FolderLock;
use crate::{process, socket};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn identity_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = Identity::load(folder.path()).unwrap();
    first.keep(folder.path()).unwrap();
    let second = Identity::load(folder.path()).unwrap();
    assert_eq!(first.public_key, second.public_key);
    assert_eq!(first.node_id(), first.node().to_string());
    assert_eq!(mode(&folder.path().join("node.key")), 0o600);
    let other = tempfile::tempdir().unwrap();
    let other = Identity::load(other.path()).unwrap();
    assert_ne!(first.node_id(), other.node_id());
}

#[test]
fn damaged_or_readable_key_is_refused_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let new = Identity::load(folder.path()).unwrap();
    new.keep(folder.path()).unwrap();
    let key = folder.path().join("node.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(
        Identity::load(folder.path())
            .err()
            .unwrap()
            .contains("chmod 600")
    );
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    Identity::load(folder.path()).unwrap();
    fs::write(&key, "damaged").unwrap();
    assert!(
        Identity::load(folder.path())
            .err()
            .unwrap()
            .contains("node.key is damaged")
    );
}

#[test]
fn folder_can_be_locked_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("new");
    let held = FolderLock::take(&folder).unwrap();
    let refusal = FolderLock::take(&folder).unwrap_err();
    assert!(
        refusal.contains("in use by another archipel server"),
        "{refusal}"
    );
    drop(held);
    FolderLock::take(&folder).unwrap();
}

/// Sends a text over the socket and checks that it arrives at the other side.
async fn talk(path: &Path) {
    let listener = socket::listen(path).await.unwrap();
    let mut near = socket::connect(path).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    near.write_all(b"hello").await.unwrap();
    drop(near);
    let mut heard = String::new();
    far.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "hello");
}

#[tokio::test]
async fn socket_is_private_and_replaces_a_dead_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    talk(&path).await;
    assert_eq!(mode(&path), 0o600);
    // The listener is gone, but its file remains.
    talk(&path).await;
    let _living = socket::listen(&path).await.unwrap();
    let second = socket::listen(&path).await.err().unwrap();
    assert_eq!(second.kind(), std::io::ErrorKind::AddrInUse);
}

#[tokio::test]
async fn socket_can_have_a_long_path() {
    let folder = tempfile::tempdir().unwrap();
    let deep: PathBuf = folder.path().join("d".repeat(100)).join("e".repeat(100));
    fs::create_dir_all(&deep).unwrap();
    talk(&deep.join("admin.sock")).await;
}

#[test]
fn process_reports_its_memory_and_open_files() {
    assert!(process::raise_open_files().unwrap() > 0);
    let memory = process::memory().unwrap();
    assert!(memory.resident > memory.anonymous && memory.anonymous > 0);
    assert!(process::open_files().unwrap() >= 3);
}
