//! If a disk may be removed, while rows and uploads come and go.

use super::startup_gc::{Hooked, open_on};
use super::*;

/// A row refers to an uploaded block just after the index was looked at, and the upload ends before the records that
/// are kept for uploads are looked at. A freeing pass between the two would make the block look as if it was nowhere.
#[tokio::test]
async fn a_block_that_goes_from_an_upload_to_a_row_keeps_its_disk() {
    let engine = Arc::new(MemoryEngine::new());
    let hooked = Hooked::new(&engine);
    let disk = Arc::new(MemoryDisk::new());
    let blocks = open_on(hooked.clone(), disk, Pool::inline(), Start::Clean);
    let upload = blocks.appender();
    let block = upload.append(noise(1, 3000)).await.unwrap();
    upload.sync().await.unwrap();
    blocks.set_draining(1, true).unwrap();
    let ending = Arc::new(Mutex::new((Some(upload), None)));
    let (meanwhile, ends) = (blocks.clone(), ending.clone());
    *hooked.after.lock() = Some(Box::new(move || {
        let mut txn = engine.write().unwrap();
        let mut change = meanwhile.change();
        change.retain(&mut *txn, &block).unwrap();
        txn.commit(Durability::Fsync).unwrap();
        let mut ending = ends.lock();
        ending.1 = Some(change);
        // To drop them begins a freeing pass. It would wait for another one, in this thread for ever.
        if meanwhile.reclaiming.try_lock().is_some() {
            *ending = (None, None);
        }
    }));
    assert!(!blocks.is_disk_empty(1).unwrap(), "a row refers to it");
    *ending.lock() = (None, None);
    assert_eq!(blocks.pinned(), 0);
    assert!(!blocks.is_disk_empty(1).unwrap());
}

/// A status that waited for a freeing pass would hold a thread of the pool for as long.
#[tokio::test]
async fn what_is_known_is_told_while_blocks_are_freed() {
    let (engine, disk) = (Arc::new(MemoryEngine::new()), Arc::new(MemoryDisk::new()));
    let blocks = open_on(Hooked::new(&engine), disk, Pool::inline(), Start::Clean);
    blocks.set_draining(1, true).unwrap();
    let freeing = blocks.reclaiming.lock();
    assert!(!blocks.is_disk_known_empty(1).unwrap());
    drop(freeing);
    assert!(blocks.is_disk_known_empty(1).unwrap());
}
