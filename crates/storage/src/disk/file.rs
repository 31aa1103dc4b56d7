//! A disk that is a folder on a file system.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::calls::{fallocate, is_unsupported, overwrites_in_place, retry, write_all};
use super::{Disk, Space};

/// The largest number of files that stay open. Further segments are opened when they are needed.
const MAX_OPEN_FILES: usize = 128;
const SUFFIX: &str = ".segment";
const LOCK_NAME: &str = "lock";

/// A folder on a file system, locked against a second process.
pub struct FileDisk {
    folder: PathBuf,
    handle: File,
    open_files: Mutex<OpenFiles>,
    fsyncs: AtomicU64,
    cannot_punch: AtomicBool,
    overwrites_in_place: bool,
    _lock: File,
}

#[derive(Default)]
struct OpenFiles {
    files: HashMap<u32, OpenFile>,
    uses: u64,
}

struct OpenFile {
    file: Arc<File>,
    used: u64,
    /// The number of writes that began, of writes that ended, and of ended writes that are synced.
    begun: u64,
    ended: u64,
    synced: u64,
}

impl OpenFile {
    fn new(file: &Arc<File>, used: u64) -> OpenFile {
        OpenFile {
            file: file.clone(),
            used,
            begun: 0,
            ended: 0,
            synced: 0,
        }
    }

    /// Returns true if all writes are synced. A file with unsynced writes must stay open: once it
    /// is closed, the kernel reports a failed write-back to nobody, and the next sync succeeds.
    fn is_clean(&self) -> bool {
        self.begun == self.synced
    }
}

impl FileDisk {
    /// Opens `folder`, or makes it. Returns [`ErrorKind::ResourceBusy`] if another process has it
    /// open.
    pub fn open(folder: &Path) -> io::Result<FileDisk> {
        fs::create_dir_all(folder)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join(LOCK_NAME))?;
        lock_exclusively(&lock, folder)?;
        let handle = File::open(folder)?;
        // The folder, and segments that an interrupted start made, outlast a power cut. A parent
        // that this user may not read was synced by the user who made the folder.
        match File::open(folder.join("..")).and_then(|parent| parent.sync_all()) {
            Err(error) if error.kind() != ErrorKind::PermissionDenied => return Err(error),
            _ => handle.sync_all()?,
        }
        let overwrites_in_place = overwrites_in_place(&handle)?;
        Ok(FileDisk {
            folder: folder.to_owned(),
            handle,
            open_files: Mutex::default(),
            fsyncs: AtomicU64::new(0),
            cannot_punch: AtomicBool::new(false),
            overwrites_in_place,
            _lock: lock,
        })
    }

    fn path(&self, segment: u32) -> PathBuf {
        self.folder.join(format!("{segment:010}{SUFFIX}"))
    }

    fn file(&self, segment: u32) -> io::Result<Arc<File>> {
        if let Some(file) = self.open_files.lock().get(segment) {
            return Ok(file);
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path(segment))?;
        Ok(self.open_files.lock().insert(segment, file))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.counted(|| self.handle.sync_all())
    }

    fn counted(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.fsyncs.fetch_add(1, Ordering::Relaxed);
        sync()
    }

    fn warn_that_it_cannot_punch(&self) {
        if !self.cannot_punch.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                folder = %self.folder.display(),
                "the file system cannot punch holes: space is freed only when a whole segment is empty"
            );
        }
    }
}

impl OpenFiles {
    fn get(&mut self, segment: u32) -> Option<Arc<File>> {
        self.uses += 1;
        let open = self.files.get_mut(&segment)?;
        open.used = self.uses;
        Some(open.file.clone())
    }

    /// Adds a file. Closes the clean file that was used longest ago if there are too many. Another
    /// thread may have added the segment first: then its file is the one to use.
    fn insert(&mut self, segment: u32, file: File) -> Arc<File> {
        if let Some(file) = self.get(segment) {
            return file;
        }
        if self.files.len() >= MAX_OPEN_FILES {
            let clean = self.files.iter().filter(|(_, open)| open.is_clean());
            let oldest = clean.min_by_key(|(_, open)| open.used);
            if let Some(oldest) = oldest.map(|(segment, _)| *segment) {
                self.files.remove(&oldest);
            }
        }
        let file = Arc::new(file);
        self.files.insert(segment, OpenFile::new(&file, self.uses));
        file
    }

    /// Keeps a file open while a write runs and until a later sync.
    fn keep_open(&mut self, segment: u32, file: &Arc<File>) {
        let uses = self.uses;
        let open = self
            .files
            .entry(segment)
            .or_insert_with(|| OpenFile::new(file, uses));
        open.begun += 1;
    }

    /// Updates the counts of an open file.
    fn update(&mut self, segment: u32, update: impl FnOnce(&mut OpenFile)) {
        if let Some(open) = self.files.get_mut(&segment) {
            update(open);
        }
    }
}

impl Disk for FileDisk {
    fn segments(&self) -> io::Result<Vec<u32>> {
        let mut segments = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            segments.extend(number.and_then(|number| number.parse::<u32>().ok()));
        }
        segments.sort_unstable();
        Ok(segments)
    }

    fn create(&self, segment: u32) -> io::Result<()> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(self.path(segment))?;
        self.sync_folder()?;
        self.open_files.lock().insert(segment, file);
        Ok(())
    }

    fn unlink(&self, segment: u32) -> io::Result<()> {
        self.open_files.lock().files.remove(&segment);
        fs::remove_file(self.path(segment))
    }

    fn length(&self, segment: u32) -> io::Result<u64> {
        Ok(self.file(segment)?.metadata()?.len())
    }

    fn read_at(&self, segment: u32, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file(segment)?.read_exact_at(buffer, offset)
    }

    fn write_at(&self, segment: u32, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let file = self.file(segment)?;
        // Another thread may have closed the file meanwhile. This enters it again.
        self.open_files.lock().keep_open(segment, &file);
        let written = write_all(&file, offset, parts);
        self.open_files
            .lock()
            .update(segment, |open| open.ended += 1);
        written
    }

    fn sync(&self, segment: u32) -> io::Result<()> {
        let file = self.file(segment)?;
        let mut ended = 0;
        self.open_files
            .lock()
            .update(segment, |open| ended = open.ended);
        self.counted(|| file.sync_data())?;
        self.open_files
            .lock()
            .update(segment, |open| open.synced = open.synced.max(ended));
        Ok(())
    }

    fn preallocate(&self, segment: u32, offset: u64, len: u64) -> io::Result<()> {
        match fallocate(&*self.file(segment)?, 0, offset, len) {
            Err(error) if is_unsupported(&error) => Ok(()),
            result => result,
        }
    }

    fn syncs_overwrites_faster(&self) -> bool {
        self.overwrites_in_place
    }

    fn punch(&self, segment: u32, offset: u64, len: u64) -> io::Result<bool> {
        if self.cannot_punch.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        match fallocate(&*self.file(segment)?, mode, offset, len) {
            Err(error) if is_unsupported(&error) => {
                self.warn_that_it_cannot_punch();
                Ok(false)
            }
            result => result.map(|()| true),
        }
    }

    fn set_length(&self, segment: u32, len: u64) -> io::Result<()> {
        self.file(segment)?.set_len(len)
    }

    fn allocated(&self, segment: u32) -> io::Result<u64> {
        // `st_blocks` counts units of 512 bytes, whatever the unit of the file system.
        Ok(self.file(segment)?.metadata()?.blocks() * 512)
    }

    fn space(&self) -> io::Result<Space> {
        let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        retry(|| {
            // SAFETY: the descriptor is open, and `found` has room for the structure.
            unsafe { libc::fstatvfs(self.handle.as_raw_fd(), found.as_mut_ptr()) }
        })?;
        // SAFETY: the call succeeded, so it filled the structure.
        let found = unsafe { found.assume_init() };
        Ok(Space {
            free: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }

    fn read_state(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.folder.join(name)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write_state(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let temporary = self.folder.join(format!("{name}.new"));
        let mut file = File::create(&temporary)?;
        file.write_all(content)?;
        self.counted(|| file.sync_all())?;
        fs::rename(&temporary, self.folder.join(name))?;
        self.sync_folder()
    }

    fn fsyncs(&self) -> u64 {
        self.fsyncs.load(Ordering::Relaxed)
    }
}

fn lock_exclusively(lock: &File, folder: &Path) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    let result = retry(|| unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) });
    result.map_err(|error| match error.raw_os_error() {
        Some(libc::EWOULDBLOCK) => {
            let folder = String::from_utf8_lossy(folder.as_os_str().as_bytes()).into_owned();
            io::Error::new(
                ErrorKind::ResourceBusy,
                format!("{folder} is in use by another process"),
            )
        }
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(disk: &FileDisk, segment: u32) -> bool {
        disk.open_files.lock().files.contains_key(&segment)
    }

    #[test]
    fn a_file_with_unsynced_writes_stays_open() {
        let folder = tempfile::tempdir().unwrap();
        let disk = FileDisk::open(folder.path()).unwrap();
        let others = || {
            (2..MAX_OPEN_FILES as u32 + 10).for_each(|other| disk.length(other).map(drop).unwrap());
        };
        disk.create(1).unwrap();
        (2..MAX_OPEN_FILES as u32 + 10).for_each(|other| disk.create(other).unwrap());
        assert!(!is_open(&disk, 1), "the test opens too few");
        disk.write_at(1, 0, &[b"content"]).unwrap();
        others();
        assert!(is_open(&disk, 1));
        disk.sync(1).unwrap();
        others();
        assert!(!is_open(&disk, 1));
    }
}
