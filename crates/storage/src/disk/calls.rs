//! System calls on files that the standard library does not offer.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::AsRawFd;

/// Calls `fallocate`, whose modes are those of its manual page.
pub(super) fn fallocate(file: &File, mode: libc::c_int, offset: u64, len: u64) -> io::Result<()> {
    let (offset, len) = (to_offset(offset)?, to_offset(len)?);
    // SAFETY: the descriptor is open; the call touches no memory of ours.
    retry(|| unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, len) })
}

/// Returns true if the file system is known to keep an overwritten block in its place, and to mark
/// space that is allocated and not written.
pub(super) fn overwrites_in_place(folder: &File) -> io::Result<bool> {
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    retry(|| {
        // SAFETY: the descriptor is open, and `found` has room for the structure.
        unsafe { libc::fstatfs(folder.as_raw_fd(), found.as_mut_ptr()) }
    })?;
    // SAFETY: the call succeeded, so it filled the structure.
    let kind = unsafe { found.assume_init() }.f_type;
    Ok(matches!(
        kind,
        libc::EXT4_SUPER_MAGIC | libc::XFS_SUPER_MAGIC
    ))
}

fn to_offset(number: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(number).map_err(|_| ErrorKind::InvalidInput.into())
}

/// Returns true if the file system does not know the call.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV)
    )
}

/// Repeats a call that a signal interrupts.
pub(super) fn retry(mut call: impl FnMut() -> libc::c_int) -> io::Result<()> {
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

/// Writes all parts with few calls, and without joining them in memory.
pub(super) fn write_all(file: &File, mut offset: u64, parts: &[&[u8]]) -> io::Result<()> {
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
