//! Versions whose blocks are lost here.

use archipel_base::random::SeededRandom;
use archipel_storage::blocks::DiskState;
use archipel_storage::disk::{DiskFault, DiskOp, MemoryDisk};

use super::*;
use crate::data::options::Versioning;
use crate::memory::memory_options;

fn new_version() -> WriteOptions<'static> {
    WriteOptions {
        versioning: Versioning::New,
        ..WriteOptions::durable(Durability::Fsync)
    }
}

/// The content of a version is on a disk that failed. A newer version must be accepted all the same, and the older
/// one is kept: other replicas may have its content.
#[tokio::test]
async fn a_version_whose_block_is_lost_is_displaced_and_kept() {
    let disk = Arc::new(MemoryDisk::new());
    let random = Arc::new(SeededRandom::new(1));
    let options = memory_options(disk.clone(), random, Threads::Inline).unwrap();
    let node = Cluster::alone(options, VERSIONED).await.unwrap();
    let object = key("o/k");

    let upload = node.block_writer(object.partition).unwrap();
    let block = upload.append(Bytes::from(vec![3; 9000])).await.unwrap();
    let first = Value {
        payload: Payload::Blocks(vec![block]),
        ..text(b"first")
    };
    let how = WriteOptions {
        upload: Some(&upload),
        ..new_version()
    };
    let first = node.write(&object, Some(first), how).await.unwrap();
    drop(upload);

    const EIO: i32 = 5;
    disk.inject(DiskFault {
        op: Some(DiskOp::Sync),
        after: 0,
        errno: EIO,
    });
    let unsynced = node.store().appender();
    unsynced.append(Bytes::from(vec![4; 9000])).await.unwrap();
    unsynced.sync().await.unwrap_err();
    assert_eq!(node.store().blocks().disks()[0].state, DiskState::Failed);

    let written = node.write(&object, Some(text(b"second")), new_version());
    written.await.unwrap();
    let prefix = (VERSIONED.kept_prefix)(&object).unwrap();
    let kept = versions::kept_row(&prefix, &object, Some(first));
    let kept = node.store().read(move |rows| rows.row(&kept)).await;
    let kept = kept.unwrap().and_then(|row| row.value);
    let blocks = kept.map(|value| value.payload.blocks().to_vec());
    assert_eq!(blocks, Some(vec![block]));
}
