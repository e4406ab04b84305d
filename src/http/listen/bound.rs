//! A UNIX socket that the daemon binds by itself, for private buses and tests. A system's daemon gets its sockets from systemd.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind as bind_socket, listen, socket,
};

use super::socket::{Listener, Socket, SocketError, SocketFile};

/// The name of the socket, where a unit has `FileDescriptorName=`.
const NAME: &str = "http";
/// The permissions that the umask does not take away. Connecting needs the right to write.
const MODE: u32 = 0o660;

/// Binds a UNIX socket at `path`. The file of an earlier daemon is replaced, and no other file is.
///
/// # Errors
/// `NotASocket`, `InUse`, and `Unbound` if the system refuses.
pub fn bind(path: &Path) -> Result<Socket, SocketError> {
    let refused = |source: io::Error| SocketError::Unbound {
        path: path.to_owned(),
        source,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(refused(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(SocketError::NotASocket(path.to_owned()));
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            return Err(SocketError::InUse(path.to_owned()));
        }
        Ok(_) => fs::remove_file(path).map_err(refused)?,
    }
    let listener = listener(path).map_err(refused)?;
    Ok(Socket {
        name: NAME.to_owned(),
        listener: Listener::Unix(listener),
        file: Some(SocketFile(path.to_owned())),
    })
}

/// Makes the socket. It has its permissions before it listens, so no other user can connect in between.
fn listener(path: &Path) -> io::Result<UnixListener> {
    let made = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    bind_socket(made.as_raw_fd(), &UnixAddr::new(path)?)?;
    let allowed = fs::symlink_metadata(path)?.permissions().mode() & MODE;
    fs::set_permissions(path, fs::Permissions::from_mode(allowed))?;
    listen(&made, Backlog::MAXCONN)?;
    Ok(made.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_socket_of_an_ended_daemon_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("http");
        fs::write(&path, "text").unwrap();
        assert!(matches!(bind(&path), Err(SocketError::NotASocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        fs::remove_file(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());

        let socket = bind(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o117, 0, "{mode:o}");
        assert!(matches!(bind(&path), Err(SocketError::InUse(_))));
        drop(socket);
        assert!(!path.exists());
    }
}
