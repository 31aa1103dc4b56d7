//! Local sockets: private to their owner from the first moment, at paths of any length.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixSocket, UnixStream};

/// The longest path that fits a socket's address (108 bytes with the final zero).
const MAX_PATH_BYTES: usize = 107;

/// The limit of connections that wait to be accepted.
const BACKLOG: u32 = 64;

/// Listens at `path` with mode 0600. Replaces the socket of a dead server.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`] if a living server listens there.
pub async fn listen(path: &Path) -> io::Result<UnixListener> {
    let short = ShortPath::of(path)?;
    if is_socket(path) {
        match UnixStream::connect(&short.path).await {
            Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path)?;
            }
            Err(error) => return Err(error),
        }
    }
    let socket = UnixSocket::new_stream()?;
    owner_only(socket.as_raw_fd())?;
    socket.bind(&short.path)?;
    socket.listen(BACKLOG)
}

/// Connects to the socket at `path`.
pub async fn connect(path: &Path) -> io::Result<UnixStream> {
    let short = ShortPath::of(path)?;
    UnixStream::connect(&short.path).await
}

/// A path that fits a socket's address. If the real path is too long, it goes through an open
/// handle of the folder.
struct ShortPath {
    path: PathBuf,
    _folder: Option<File>,
}

impl ShortPath {
    fn of(path: &Path) -> io::Result<ShortPath> {
        if path.as_os_str().len() <= MAX_PATH_BYTES {
            return Ok(ShortPath {
                path: path.to_owned(),
                _folder: None,
            });
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = File::open(folder)?;
        let short = format!("/proc/self/fd/{}", folder.as_raw_fd());
        Ok(ShortPath {
            path: Path::new(&short).join(name),
            _folder: Some(folder),
        })
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// Makes the socket private to its owner before it is bound. On Linux the file that `bind` creates
/// takes the mode of the socket, so that other users can never open it.
fn owner_only(socket: RawFd) -> io::Result<()> {
    // SAFETY: `fchmod` only uses the descriptor, which the caller keeps open.
    match unsafe { libc::fchmod(socket, 0o600) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
