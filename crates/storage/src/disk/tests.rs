use std::io::ErrorKind;

use archipel_base::random::SeededRandom;

use super::*;

/// Checks the behaviour that every disk must have.
fn conformance(disk: &dyn Disk) {
    assert_eq!(disk.segments().unwrap(), Vec::<u32>::new());
    disk.create(7).unwrap();
    disk.create(3).unwrap();
    assert_eq!(disk.create(3).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.segments().unwrap(), vec![3, 7]);

    disk.preallocate(3, 0, 1 << 16).unwrap();
    assert!(disk.length(3).unwrap() <= 1 << 16);
    let content = vec![9; 20_000];
    disk.write_at(3, 100, &[b"", b"head", &content, b"", b"tail"])
        .unwrap();
    disk.sync(3).unwrap();
    let mut read = vec![1; 20_008];
    disk.read_at(3, 100, &mut read).unwrap();
    assert_eq!(read, [b"head".as_slice(), &content, b"tail"].concat());
    let end = disk.length(3).unwrap();
    let beyond = disk.read_at(3, end - 1, &mut [0; 2]).unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::UnexpectedEof);

    let before = disk.allocated(3).unwrap();
    if disk.punch(3, 4096, 8192).unwrap() {
        assert_eq!(disk.allocated(3).unwrap(), before - 8192);
        let mut hole = vec![1; 8194];
        disk.read_at(3, 4095, &mut hole).unwrap();
        assert_eq!((hole[0], hole[8193]), (9, 9));
        assert!(hole[1..8193].iter().all(|byte| *byte == 0));
    }
    disk.set_length(3, 5000).unwrap();
    assert_eq!(disk.length(3).unwrap(), 5000);
    assert!(disk.space().unwrap().free <= disk.space().unwrap().total);

    assert_eq!(disk.read_state("name").unwrap(), None);
    disk.write_state("name", b"one").unwrap();
    disk.write_state("name", b"two").unwrap();
    assert_eq!(disk.read_state("name").unwrap(), Some(b"two".to_vec()));

    disk.unlink(3).unwrap();
    assert_eq!(disk.segments().unwrap(), vec![7]);
    for error in [
        disk.read_at(3, 0, &mut [0; 1]).unwrap_err(),
        disk.sync(3).unwrap_err(),
        disk.unlink(3).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}

#[test]
fn memory_disk_passes_the_conformance_suite() {
    conformance(&MemoryDisk::new());
}

#[test]
fn file_disk_passes_the_conformance_suite_and_counts_fsyncs() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(folder.path()).unwrap();
    conformance(&disk);
    // Two new segments, one sync, and two state files with two syncs each.
    assert_eq!(disk.fsyncs(), 7);
}

#[test]
fn a_folder_is_refused_while_another_disk_has_it_open() {
    let folder = tempfile::tempdir().unwrap();
    let first = FileDisk::open(folder.path()).unwrap();
    let second = FileDisk::open(folder.path()).err().unwrap();
    assert_eq!(second.kind(), ErrorKind::ResourceBusy);
    drop(first);
    FileDisk::open(folder.path()).unwrap();
}

#[test]
fn all_segments_are_readable_beyond_the_limit_of_open_files() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(folder.path()).unwrap();
    for number in 0..300u32 {
        disk.create(number).unwrap();
        disk.write_at(number, 0, &[&number.to_le_bytes()]).unwrap();
    }
    for number in 0..300u32 {
        let mut read = [0; 4];
        disk.read_at(number, 0, &mut read).unwrap();
        assert_eq!(u32::from_le_bytes(read), number);
    }
}

fn written(disk: &MemoryDisk) -> Vec<u8> {
    let mut read = vec![0; 8192];
    disk.read_at(1, 0, &mut read).unwrap();
    read
}

#[test]
fn a_crash_loses_unsynced_writes() {
    let disk = MemoryDisk::new();
    disk.create(1).unwrap();
    disk.write_at(1, 0, &[&[1; 8192]]).unwrap();
    disk.sync(1).unwrap();
    disk.write_at(1, 0, &[&[2; 8192]]).unwrap();
    disk.crash(None);
    assert_eq!(written(&disk), vec![1; 8192]);

    disk.write_at(1, 0, &[&[3; 8192]]).unwrap();
    disk.crash(Some(&SeededRandom::new(1)));
    let torn = written(&disk);
    assert!(torn.contains(&1) && torn.contains(&3) && !torn.contains(&2));
    assert!(
        torn.chunks(512)
            .all(|sector| sector.iter().all(|b| *b == sector[0]))
    );
}

#[test]
fn a_failed_sync_loses_its_pages_forever() {
    let disk = MemoryDisk::new();
    disk.create(1).unwrap();
    disk.write_at(1, 0, &[&[1; 8192]]).unwrap();
    let (op, errno) = (Some(DiskOp::Sync), libc::EIO);
    disk.inject(DiskFault {
        op,
        after: 0,
        errno,
    });
    assert_eq!(disk.sync(1).unwrap_err().raw_os_error(), Some(libc::EIO));
    disk.sync(1).unwrap();
    assert_eq!(written(&disk), vec![1; 8192]);
    disk.crash(None);
    assert_eq!(written(&disk), vec![0; 8192]);
}

#[test]
fn an_injected_fault_hits_the_chosen_call() {
    let disk = MemoryDisk::new();
    disk.create(1).unwrap();
    let op = Some(DiskOp::Write);
    disk.inject(DiskFault {
        op,
        after: 1,
        errno: libc::EIO,
    });
    disk.write_at(1, 0, &[b"a"]).unwrap();
    disk.sync(1).unwrap();
    assert!(disk.write_at(1, 1, &[b"b"]).is_err());
    disk.write_at(1, 1, &[b"b"]).unwrap();

    disk.set_capacity(Some(8192));
    disk.write_at(1, 0, &[&[1; 8192]]).unwrap();
    let full = disk.write_at(1, 8192, &[b"c"]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    assert_eq!(disk.space().unwrap().free, 0);
}
