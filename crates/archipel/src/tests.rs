//! What is unique to a node: its key, its folder, its disks, its socket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::config::Disk;
use crate::identity::Identity;
use crate::lock::FolderLock;
use crate::{disks, process, socket};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn an_identity_stays() {
    let folder = tempfile::tempdir().unwrap();
    let first = Identity::load(folder.path()).unwrap();
    let second = Identity::load(folder.path()).unwrap();
    assert_eq!(first.public_key, second.public_key);
    assert!(first.node_id().starts_with(&first.store_id().to_string()));
    assert_eq!(mode(&folder.path().join("node.key")), 0o600);
    let other = tempfile::tempdir().unwrap();
    let other = Identity::load(other.path()).unwrap();
    assert_ne!(first.node_id(), other.node_id());
}

#[test]
fn a_damaged_or_open_identity_is_refused_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    Identity::load(folder.path()).unwrap();
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
fn a_folder_is_locked_once() {
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

fn disk(folder: &Path, name: &str) -> Disk {
    let path = folder.join(name);
    fs::create_dir_all(&path).unwrap();
    Disk {
        path,
        capacity_bytes: None,
        draining: false,
    }
}

#[test]
fn disks_keep_their_numbers_wherever_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let (a, b) = (disk(data, "a"), disk(data, "b"));
    assert_eq!(
        disks::numbers(data, "n", &[a.clone(), b.clone()]),
        Ok(vec![0, 1])
    );
    assert_eq!(
        disks::numbers(data, "n", &[b.clone(), a.clone()]),
        Ok(vec![1, 0])
    );
    // A third one, while the first is gone: its number is not given away.
    let c = disk(data, "c");
    assert_eq!(disks::numbers(data, "n", &[b.clone(), c]), Ok(vec![1, 2]));
    let moved = Disk {
        path: data.join("moved"),
        ..a.clone()
    };
    fs::rename(&a.path, &moved.path).unwrap();
    assert_eq!(disks::numbers(data, "n", &[moved, b]), Ok(vec![0, 1]));
}

#[test]
fn a_disk_of_another_node_and_one_that_is_not_mounted_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let a = disk(data, "a");
    disks::numbers(data, "n", std::slice::from_ref(&a)).unwrap();
    let refusal = disks::numbers(data, "other", std::slice::from_ref(&a)).unwrap_err();
    assert!(refusal.contains("belongs to another node (n)"), "{refusal}");
    fs::remove_dir_all(&a.path).unwrap();
    fs::create_dir(&a.path).unwrap();
    let refusal = disks::numbers(data, "n", &[a]).unwrap_err();
    assert!(refusal.contains("mount it"), "{refusal}");
}

/// What one side of a socket says is heard at the other.
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
async fn a_socket_is_its_owners_alone_and_replaces_a_dead_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    talk(&path).await;
    assert_eq!(mode(&path), 0o600);
    // The listener is gone, its file is not.
    talk(&path).await;
    let _living = socket::listen(&path).await.unwrap();
    let second = socket::listen(&path).await.err().unwrap();
    assert_eq!(second.kind(), std::io::ErrorKind::AddrInUse);
}

#[tokio::test]
async fn a_socket_may_have_a_long_path() {
    let folder = tempfile::tempdir().unwrap();
    let deep: PathBuf = folder.path().join("d".repeat(100)).join("e".repeat(100));
    fs::create_dir_all(&deep).unwrap();
    talk(&deep.join("admin.sock")).await;
}

#[test]
fn the_process_tells_what_it_holds() {
    assert!(process::raise_open_files().unwrap() > 0);
    assert!(process::resident_bytes().unwrap() > 1 << 20);
    assert!(process::open_files().unwrap() >= 3);
}
