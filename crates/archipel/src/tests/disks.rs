//! Tests of a node's disks: their numbers, and storage on two of them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::clock::SystemClock;
use archipel_base::random::{Random, SeededRandom};
use archipel_model::{Condition, Model, ObjectMeta};
use bytes::Bytes;

use crate::config::{Disk, Settings};
use crate::identity::Identity;
use crate::{config, disks, drain, metadata, model, storage};

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

/// A folder that waits for its disk to be mounted is on the file system of its parent.
#[test]
fn disks_on_one_file_system_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let (a, b) = (disk(data, "a"), disk(data, "b"));
    let elsewhere = Disk {
        path: "/proc".into(),
        ..a.clone()
    };
    assert!(disks::on_one_file_system(&[a.clone(), elsewhere.clone()]).is_empty());
    let told = disks::on_one_file_system(&[a.clone(), elsewhere, b.clone()]);
    let (a, b) = (a.path.display(), b.path.display());
    let [told] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert!(told.contains(&format!("the disks {a} and {b} are on one file system")));
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

/// The first start ended after it wrote the registry: a power cut, or the disk had no space.
#[test]
fn a_disk_without_its_mark_keeps_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let both = [disk(data, "a"), disk(data, "b")];
    // The mark cannot be written there, not even by root.
    let blocked = both[1].path.join("archipel-disk.new");
    fs::create_dir(&blocked).unwrap();
    for _ in 0..2 {
        let failed = disks::numbers(data, "n", &both).unwrap_err();
        assert!(failed.contains("archipel-disk.json"), "{failed}");
    }
    // Its entry is no disk with blocks.
    assert_eq!(disks::absent(data, &[0]), Ok(Vec::new()));
    fs::remove_dir(&blocked).unwrap();
    assert_eq!(disks::numbers(data, "n", &both), Ok(vec![0, 1]));
    assert_eq!(
        disks::absent(data, &[0]),
        Ok(vec![(1, both[1].path.clone())])
    );
    // It may hold blocks now. The registry has the form that all earlier ones have.
    let registry = fs::read_to_string(data.join("disks.json")).unwrap();
    assert!(!registry.contains("unmarked"), "{registry}");
    fs::remove_file(both[1].path.join("archipel-disk.json")).unwrap();
    let refusal = disks::numbers(data, "n", &both).unwrap_err();
    assert!(
        refusal.contains("(disk number 1) but is empty"),
        "{refusal}"
    );
}

fn settings_with(folder: &Path, disks: Vec<Disk>) -> Settings {
    let listen = "127.0.0.1:0".parse().unwrap();
    let settings = config::for_demo(folder.to_owned(), listen, listen, listen, listen);
    Settings { disks, ..settings }
}

fn two_disks(folder: &Path) -> Vec<Disk> {
    vec![disk(folder, "first"), disk(folder, "second")]
}

/// Repeats `attempt` while tasks of a model that was open before hold the disks or the metadata.
async fn once_free<T, F>(attempt: impl Fn() -> F) -> Result<T, String>
where
    F: Future<Output = Result<T, String>>,
{
    let tried = async {
        loop {
            match attempt().await {
                Err(error) if error.contains("in use") || error.contains("already open") => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                tried => return tried,
            }
        }
    };
    let tried = tokio::time::timeout(Duration::from_secs(60), tried);
    tried.await.expect("the disks are free")
}

/// Opens a model on two disks in `folder`. The first disk drains if `first_drains` is set.
async fn on_two_disks(folder: &Path, first_drains: bool) -> (storage::Storage, Model) {
    let mut disks = two_disks(folder);
    disks[0].draining = first_drains;
    let settings = Arc::new(settings_with(folder, disks));
    let identity = Identity::load(folder).unwrap();
    let storage = once_free(|| storage::open(settings.clone(), &identity)).await;
    let storage = storage.unwrap();
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

/// Writes an object to both disks in `folder`, and closes the store. Returns the content.
async fn write_object(folder: &Path) -> Bytes {
    let (storage, model) = on_two_disks(folder, false).await;
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
    let disks = storage.store.blocks().disks();
    let used = disks.iter().map(|disk| disk.used_bytes).min();
    assert!(used >= Some(1 << 20), "both disks should hold blocks");
    storage.store.close().await.unwrap();
    content
}

async fn assert_object(model: &Model, content: &Bytes) {
    let bucket = model.bucket("bucket").unwrap().unwrap();
    let reader = model.open_object(&bucket, "key").await.unwrap();
    let mut stream = reader.stream(0..content.len() as u64);
    let mut read = Vec::new();
    while let Some(piece) = stream.next().await {
        read.extend_from_slice(&piece.unwrap());
    }
    assert!(content == &read, "the object is not what was written");
}

/// Its objects could not be read, and nothing would say so.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_with_blocks_cannot_be_left_out_of_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    write_object(folder.path()).await;
    let settings = settings_with(folder.path(), vec![disk(folder.path(), "second")]);
    let settings = Arc::new(settings);
    let identity = Identity::load(folder.path()).unwrap();
    let opened = once_free(|| storage::open(settings.clone(), &identity)).await;
    let refused = opened.map(drop).unwrap_err();
    let first = folder.path().join("first");
    let expected = format!("the disk {} (disk number 0) holds blocks", first.display());
    assert!(refused.contains(&expected), "{refused}");
    // With the disk in the settings, it starts.
    on_two_disks(folder.path(), false).await;
}

/// The new index would name none of its blocks, and a later start with the disk would free all of
/// them.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_rebuilt_without_a_disk_only_if_its_data_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let content = write_object(folder.path()).await;
    let progress = Arc::default();
    let second = settings_with(folder.path(), vec![disk(folder.path(), "second")]);
    for _ in 0..2 {
        let rebuilt = once_free(|| metadata::rebuild_blocks(&second, &progress)).await;
        let refused = rebuilt.map(drop).unwrap_err();
        let expected = "(disk number 0) is not in the settings";
        assert!(refused.contains(expected), "{refused}");
    }
    let (storage, model) = on_two_disks(folder.path(), false).await;
    assert_object(&model, &content).await;
    storage.store.close().await.unwrap();
    drop((storage, model));

    // The operator takes it for lost, and later it is found.
    let registry = folder.path().join("disks.json");
    let mut known: serde_json::Value =
        serde_json::from_slice(&fs::read(&registry).unwrap()).unwrap();
    let disks = known["disks"].as_array_mut().unwrap();
    disks.retain(|disk| disk["number"] != 0);
    fs::write(&registry, known.to_string()).unwrap();
    let rebuilt = once_free(|| metadata::rebuild_blocks(&second, &progress)).await;
    assert!(rebuilt.unwrap().missing > 0);
    let both = Arc::new(settings_with(folder.path(), two_disks(folder.path())));
    let identity = Identity::load(folder.path()).unwrap();
    let opened = once_free(|| storage::open(both.clone(), &identity)).await;
    let refused = opened.map(drop).unwrap_err();
    assert!(refused.contains("rebuild-blocks"), "{refused}");
    let rebuilt = once_free(|| metadata::rebuild_blocks(&both, &progress)).await;
    assert_eq!(rebuilt.unwrap().missing, 0);
    let (_storage, model) = on_two_disks(folder.path(), false).await;
    assert_object(&model, &content).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_disk_is_emptied_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let content = write_object(folder.path()).await;
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
    assert_object(&model, &content).await;
}
