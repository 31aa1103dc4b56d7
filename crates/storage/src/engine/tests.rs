//! The names of the trees, in files and in the documentation. Files that are written again.

mod removed;
pub(super) mod replaced;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::SystemTime;

use super::{Tree, home, snapshot};

/// Returns the trees that the table of `docs/internals/data-format.md` names, in its order.
fn documented() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/data-format.md");
    let page = fs::read_to_string(path).unwrap();
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| tree |"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    // A row without a name goes on with the tree of the row above.
    let names = rows.filter_map(|row| row.strip_prefix("| `")?.split_once('`'));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn the_page_of_the_data_format_names_all_trees_as_files_do() {
    assert_eq!(documented(), Tree::ALL.map(Tree::name));
}

/// All content must be written, because it may be in the kernel's cache alone. Space that was only allocated stays so.
#[test]
fn a_file_is_written_again_with_its_holes() {
    const LENGTH: u64 = 4 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    assert_eq!(home::rewrite(&path).unwrap(), 0);
    assert!(!path.exists());
    let file = File::create(&path).unwrap();
    file.write_all_at(b"begin", 0).unwrap();
    file.set_len(LENGTH).unwrap();
    file.write_all_at(b"end", LENGTH - 3).unwrap();
    file.write_all_at(b"middle", LENGTH / 2).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    // The three chunks with content, and no others.
    assert_eq!(home::rewrite(&path).unwrap(), 3 * home::CHUNK_BYTES);
    let about = fs::metadata(&path).unwrap();
    assert_ne!(about.modified().unwrap(), SystemTime::UNIX_EPOCH);
    assert!(about.blocks() * 512 < LENGTH / 4, "{}", about.blocks());
    let content = fs::read(&path).unwrap();
    assert_eq!(content.len() as u64, LENGTH);
    assert!(content.starts_with(b"begin") && content.ends_with(b"end"));
    assert!(content[content.len() / 2..].starts_with(b"middle"));
}

/// No test may mount anything. This is the error that the system gives then.
#[test]
fn restore_over_a_mount_point_names_the_fix() {
    let folder = Path::new("/mnt/metadata");
    let busy = io::Error::from(io::ErrorKind::ResourceBusy);
    let error = snapshot::cannot_replace(folder, &busy, "unmount it").to_string();
    assert!(error.contains("/mnt/metadata is a mount point"), "{error}");
    assert!(error.ends_with("; fix: unmount it"), "{error}");
}
