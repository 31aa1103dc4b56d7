//! The order in which a copy is removed. The process may end after any of the steps.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::super::{home, incomplete};

/// The kernel's report of what is removed from a folder.
struct Removals(File);

impl Removals {
    fn watch(folder: &Path) -> Removals {
        let path = CString::new(folder.as_os_str().as_bytes()).unwrap();
        // SAFETY: the call takes no pointer.
        let number = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
        assert!(number >= 0);
        // SAFETY: the descriptor is new, and nothing else owns it.
        let file = unsafe { File::from_raw_fd(number) };
        // SAFETY: `path` ends with a zero byte.
        let watch = unsafe { libc::inotify_add_watch(number, path.as_ptr(), libc::IN_DELETE) };
        assert!(watch >= 0);
        Removals(file)
    }

    /// Returns the names of what was removed so far, in this order.
    fn names(mut self) -> Vec<String> {
        let mut bytes = vec![0; 64 << 10];
        let read = self.0.read(&mut bytes).unwrap();
        let mut rest = &bytes[..read];
        let mut names = Vec::new();
        // The header ends with the length of the name, which zeros follow.
        while let Some((header, behind)) = rest.split_first_chunk::<16>() {
            let length = header
                .last_chunk::<4>()
                .map(|four| u32::from_ne_bytes(*four));
            let (name, next) = behind.split_at(length.unwrap() as usize);
            let name: Vec<u8> = name.iter().copied().take_while(|byte| *byte != 0).collect();
            // The end of the folder itself has no name.
            if !name.is_empty() {
                names.push(String::from_utf8(name).unwrap());
            }
            rest = next;
        }
        names
    }
}

/// So its remains are neither taken for a complete copy nor for the folder of an operator.
#[test]
fn a_copy_is_removed_marker_first_and_the_file_that_marks_remains_last() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    fs::create_dir_all(copy.join("lmdb/journal")).unwrap();
    // The two are among so many that no file system lists them in the order that is needed.
    let files = |from: u32| (from..from + 20).map(|number| format!("file-{number}"));
    let ends = [home::MARKER.to_owned(), "incomplete".to_owned()];
    for name in files(0).chain(ends).chain(files(20)) {
        fs::write(copy.join(name), b"content").unwrap();
    }
    let removals = Removals::watch(&copy);
    assert!(incomplete::remove(&copy).unwrap());
    assert!(!copy.exists());
    let names = removals.names();
    assert_eq!(names.len(), 43, "{names:?}");
    assert_eq!(names[0], home::MARKER, "{names:?}");
    assert_eq!(names[42], "incomplete", "{names:?}");
}
