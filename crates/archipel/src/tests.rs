//! Tests of a node's identity: its key, its folder, its disks, its socket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use archipel_base::clock::SystemClock;
use archipel_base::random::{Random, SeededRandom};
use archipel_model::{Condition, Model, ObjectMeta};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::config::Disk;
use crate::identity::Identity;
use crate::lock::FolderLock;
use crate::{config, disks, drain, model, process, socket, storage};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn identity_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = Identity::load(folder.path()).unwrap();
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
fn disks_keep_their_numbers_at_other_paths() {
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
    // A third disk appears while the first is absent. The first disk's number stays reserved.
    let c = disk(data, "c");
    assert_eq!(disks::numbers(data, "n", &[b.clone(), c]), Ok(vec![1, 2]));
    let moved = Disk {
        path: data.join("moved"),
        ..a.clone()
    };
    fs::rename(&a.path, &moved.path).unwrap();
    assert_eq!(disks::numbers(data, "n", &[moved, b]), Ok(vec![0, 1]));
}

/// The metadata may refer to the number of a disk that was lost.
#[test]
fn the_number_of_a_lost_disk_is_not_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let (a, b) = (disk(data, "a"), disk(data, "b"));
    disks::numbers(data, "n", &[a.clone(), b.clone()]).unwrap();
    fs::remove_dir_all(&b.path).unwrap();
    let registry = data.join("disks.json");
    let mut known: serde_json::Value =
        serde_json::from_slice(&fs::read(&registry).unwrap()).unwrap();
    known["disks"].as_array_mut().unwrap().pop();
    fs::write(&registry, known.to_string()).unwrap();
    let b = disk(data, "b");
    assert_eq!(disks::numbers(data, "n", &[a, b]), Ok(vec![0, 2]));
}

#[test]
fn disk_of_another_node_and_unmounted_disk_are_refused() {
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

/// Opens a model on two disks in `folder`. The first disk drains if `first_drains` is set.
async fn on_two_disks(folder: &Path, first_drains: bool) -> (storage::Storage, Model) {
    let listen = "127.0.0.1:0".parse().unwrap();
    let mut settings = config::for_demo(folder.to_owned(), listen, listen, listen, listen);
    let first = Disk {
        draining: first_drains,
        ..disk(folder, "first")
    };
    settings.disks = vec![first, disk(folder, "second")];
    let settings = Arc::new(settings);
    let identity = Identity::load(folder).unwrap();
    // Tasks of a model that was open before may hold the disks for a moment longer.
    let opened = async {
        loop {
            match storage::open(settings.clone(), &identity).await {
                Err(error) if error.contains("in use") => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                opened => return opened.unwrap(),
            }
        }
    };
    let storage = tokio::time::timeout(Duration::from_secs(60), opened);
    let storage = storage.await.expect("the disks are free");
    let model = model::open(
        &settings,
        &storage.store,
        &identity,
        None,
        Arc::new(SystemClock),
    )
    .await
    .unwrap();
    (storage, model)
}

/// Its objects could not be read, and nothing would say so.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_with_blocks_cannot_be_left_out_of_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let (storage, model) = on_two_disks(folder.path(), false).await;
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let mut content = vec![0; 12 << 20];
    SeededRandom::new(2).fill(&mut content);
    let mut writer = model.begin_object(&bucket, "key").unwrap();
    writer.write(Bytes::from(content)).await.unwrap();
    let written = writer.finish(ObjectMeta::default(), Condition::Always);
    written.await.unwrap();
    storage.store.close().await.unwrap();
    drop((storage, model));

    let listen = "127.0.0.1:0".parse().unwrap();
    let mut settings = config::for_demo(folder.path().to_owned(), listen, listen, listen, listen);
    settings.disks = vec![disk(folder.path(), "second")];
    let identity = Identity::load(folder.path()).unwrap();
    let settings = Arc::new(settings);
    let refused = loop {
        match storage::open(settings.clone(), &identity).await {
            Err(error) if error.contains("in use") => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            opened => break opened.map(drop).unwrap_err(),
        }
    };
    let first = folder.path().join("first");
    let expected = format!("the disk {} (disk number 0) holds blocks", first.display());
    assert!(refused.contains(&expected), "{refused}");
    // With the disk in the settings, it starts.
    on_two_disks(folder.path(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_disk_is_emptied_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let (storage, model) = on_two_disks(folder.path(), false).await;
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let mut content = vec![0; 12 << 20];
    SeededRandom::new(1).fill(&mut content);
    let content = Bytes::from(content);
    let mut writer = model.begin_object(&bucket, "key").unwrap();
    writer.write(content.clone()).await.unwrap();
    writer
        .finish(ObjectMeta::default(), Condition::Always)
        .await
        .unwrap();
    let used = storage
        .store
        .blocks()
        .disks()
        .iter()
        .map(|disk| disk.used_bytes)
        .min();
    assert!(used >= Some(1 << 20), "both disks should hold blocks");
    storage.store.close().await.unwrap();
    drop((storage, model));

    let (storage, model) = on_two_disks(folder.path(), true).await;
    let blocks = storage.store.blocks().clone();
    let draining = tokio::spawn(drain::forever(blocks.clone()));
    let empty = async {
        // Less than a block remains: the header of the last segment.
        while blocks.disks()[0].used_bytes >= 1 << 20 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), empty)
        .await
        .expect("the disk is emptied");
    draining.abort();
    let bucket = model.bucket("bucket").unwrap().unwrap();
    let reader = model.open_object(&bucket, "key").await.unwrap();
    let mut stream = reader.stream(0..content.len() as u64);
    let mut read = Vec::new();
    while let Some(piece) = stream.next().await {
        read.extend_from_slice(&piece.unwrap());
    }
    assert!(content == read, "the object is not what was written");
}
