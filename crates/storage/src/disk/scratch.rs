//! Scratch files: space for content that does not fit into memory. Their content does not outlive
//! the process.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder for scratch files. No other process uses it.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    made: AtomicU64,
}

impl Scratch {
    /// Opens `folder`, or makes it. Removes the files of earlier processes.
    pub fn open(folder: &Path) -> io::Result<Scratch> {
        fs::create_dir_all(folder)?;
        for entry in fs::read_dir(folder)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(Scratch {
            folder: folder.to_owned(),
            made: AtomicU64::new(0),
        })
    }

    /// Makes an empty file for reading and writing. It has no name, so its space is free again as
    /// soon as it is closed.
    pub fn file(&self) -> io::Result<ScratchFile> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(number.to_string());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        fs::remove_file(&path)?;
        Ok(ScratchFile(file))
    }
}

/// A scratch file.
#[derive(Debug)]
pub struct ScratchFile(File);

impl ScratchFile {
    /// Writes all of `bytes` at `offset`.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    /// Fills `bytes` from `offset`.
    pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }
}
