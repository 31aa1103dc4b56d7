//! A disk that is a folder on a file system.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, Space};

/// Files kept open at most; more segments than that are opened as they are needed.
const MAX_OPEN_FILES: usize = 128;
const SUFFIX: &str = ".segment";
const LOCK_NAME: &str = "lock";

/// A folder on a file system, locked against a second process.
pub struct FileDisk {
    folder: PathBuf,
    handle: File,
    open: Mutex<OpenFiles>,
    fsyncs: AtomicU64,
    cannot_punch: AtomicBool,
    _lock: File,
}

#[derive(Default)]
struct OpenFiles {
    files: HashMap<u32, (Arc<File>, u64)>,
    uses: u64,
}

impl FileDisk {
    /// Opens `folder`, making it if need be. [`ErrorKind::ResourceBusy`] if another process has it.
    pub fn open(folder: &Path) -> io::Result<FileDisk> {
        fs::create_dir_all(folder)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join(LOCK_NAME))?;
        lock_exclusively(&lock, folder)?;
        Ok(FileDisk {
            folder: folder.to_owned(),
            handle: File::open(folder)?,
            open: Mutex::default(),
            fsyncs: AtomicU64::new(0),
            cannot_punch: AtomicBool::new(false),
            _lock: lock,
        })
    }

    fn path(&self, segment: u32) -> PathBuf {
        self.folder.join(format!("{segment:010}{SUFFIX}"))
    }

    fn open_files(&self) -> MutexGuard<'_, OpenFiles> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, segment: u32) -> io::Result<Arc<File>> {
        if let Some(file) = self.open_files().get(segment) {
            return Ok(file);
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path(segment))?;
        Ok(self.open_files().insert(segment, file))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.counted(|| self.handle.sync_all())
    }

    fn counted(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.fsyncs.fetch_add(1, Ordering::Relaxed);
        sync()
    }

    fn say_that_it_cannot_punch(&self) {
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
        let (file, used) = self.files.get_mut(&segment)?;
        *used = self.uses;
        Some(file.clone())
    }

    /// Adds a file and lets go of the one that was used longest ago, if there are too many.
    /// Another thread may have been first: then its file is the one to use.
    fn insert(&mut self, segment: u32, file: File) -> Arc<File> {
        if let Some(file) = self.get(segment) {
            return file;
        }
        if self.files.len() >= MAX_OPEN_FILES {
            let oldest = self.files.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(segment, _)| *segment) {
                self.files.remove(&oldest);
            }
        }
        let file = Arc::new(file);
        self.files.insert(segment, (file.clone(), self.uses));
        file
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
        self.open_files().insert(segment, file);
        Ok(())
    }

    fn unlink(&self, segment: u32) -> io::Result<()> {
        self.open_files().files.remove(&segment);
        fs::remove_file(self.path(segment))
    }

    fn length(&self, segment: u32) -> io::Result<u64> {
        Ok(self.file(segment)?.metadata()?.len())
    }

    fn read_at(&self, segment: u32, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file(segment)?.read_exact_at(buffer, offset)
    }

    fn write_at(&self, segment: u32, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        write_all(&*self.file(segment)?, offset, parts)
    }

    fn sync(&self, segment: u32) -> io::Result<()> {
        let file = self.file(segment)?;
        self.counted(|| file.sync_data())
    }

    fn preallocate(&self, segment: u32, offset: u64, len: u64) -> io::Result<()> {
        match fallocate(&*self.file(segment)?, 0, offset, len) {
            Err(error) if is_unsupported(&error) => Ok(()),
            result => result,
        }
    }

    fn punch(&self, segment: u32, offset: u64, len: u64) -> io::Result<bool> {
        if self.cannot_punch.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        match fallocate(&*self.file(segment)?, mode, offset, len) {
            Err(error) if is_unsupported(&error) => {
                self.say_that_it_cannot_punch();
                Ok(false)
            }
            result => result.map(|()| true),
        }
    }

    fn set_length(&self, segment: u32, len: u64) -> io::Result<()> {
        self.file(segment)?.set_len(len)
    }

    fn allocated(&self, segment: u32) -> io::Result<u64> {
        // `st_blocks` counts units of 512 bytes, whatever the file system's own unit.
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

fn fallocate(file: &File, mode: libc::c_int, offset: u64, len: u64) -> io::Result<()> {
    let (offset, len) = (to_offset(offset)?, to_offset(len)?);
    // SAFETY: the descriptor is open; the call touches no memory of ours.
    retry(|| unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, len) })
}

fn to_offset(number: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(number).map_err(|_| ErrorKind::InvalidInput.into())
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV)
    )
}

/// Repeats a call that a signal interrupted.
fn retry(mut call: impl FnMut() -> libc::c_int) -> io::Result<()> {
    loop {
        if call() == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Writes all parts with as few calls as it takes, and without joining them in memory.
fn write_all(file: &File, mut offset: u64, parts: &[&[u8]]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut left = slices.as_mut_slice();
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        let written = write_vectored(file, offset, left)?;
        if written == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        offset += written as u64;
        IoSlice::advance_slices(&mut left, written);
    }
    Ok(())
}

fn write_vectored(file: &File, offset: u64, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let offset = to_offset(offset)?;
    let count = slices.len().min(libc::UIO_MAXIOV as usize) as libc::c_int;
    loop {
        // SAFETY: `IoSlice` is laid out as `iovec`, and the slices outlive the call.
        let written =
            unsafe { libc::pwritev(file.as_raw_fd(), slices.as_ptr().cast(), count, offset) };
        if written >= 0 {
            return Ok(written as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
