//! Local sockets: opened for their owner alone, from the first moment; at paths of any length.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixSocket, UnixStream};

/// Longer paths do not fit a socket's address (108 bytes, with the end mark).
const MAX_PATH_BYTES: usize = 107;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 64;

/// Listens at `path`, mode 0600. A socket that a dead server left there is replaced.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`] if a living server listens there.
pub async fn listen(path: &Path) -> io::Result<UnixListener> {
    let place = Place::of(path)?;
    if is_socket(path) {
        match UnixStream::connect(&place.path).await {
            Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path)?;
            }
            Err(error) => return Err(error),
        }
    }
    let socket = UnixSocket::new_stream()?;
    owner_only(socket.as_raw_fd())?;
    socket.bind(&place.path)?;
    socket.listen(BACKLOG)
}

/// Connects to the socket at `path`.
pub async fn connect(path: &Path) -> io::Result<UnixStream> {
    let place = Place::of(path)?;
    UnixStream::connect(&place.path).await
}

/// A path that fits a socket's address: where the real one is too long, one through an open
/// handle of its folder.
struct Place {
    path: PathBuf,
    _folder: Option<File>,
}

impl Place {
    fn of(path: &Path) -> io::Result<Place> {
        if path.as_os_str().len() <= MAX_PATH_BYTES {
            return Ok(Place {
                path: path.to_owned(),
                _folder: None,
            });
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = File::open(folder)?;
        let short = format!("/proc/self/fd/{}", folder.as_raw_fd());
        Ok(Place {
            path: Path::new(&short).join(name),
            _folder: Some(folder),
        })
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// On Linux the file that `bind` makes takes the mode of the socket: there is no moment at which
/// others may open it.
fn owner_only(socket: RawFd) -> io::Result<()> {
    // SAFETY: `fchmod` only looks at the descriptor, which the caller holds open.
    match unsafe { libc::fchmod(socket, 0o600) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
