//! A listening socket and its name, and why a socket cannot be used.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// The socket file that the daemon has made. Dropping it removes the file.
#[derive(Debug)]
pub(in crate::http) struct SocketFile(pub(super) PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that is left over is replaced at the next start.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A socket that listens.
#[derive(Debug)]
pub enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A listening socket. Displays its address and its name.
#[derive(Debug)]
pub struct Socket {
    /// `FileDescriptorName=` of its unit, or "`http`" for the socket of the option `--http`.
    pub name: String,
    pub listener: Listener,
    /// The file to remove when the daemon no longer listens.
    pub(in crate::http) file: Option<SocketFile>,
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.listener {
            Listener::Unix(listener) => {
                let address = listener.local_addr().ok();
                match address.as_ref().and_then(|address| address.as_pathname()) {
                    Some(path) => write!(f, "unix {}", path.display())?,
                    None => f.write_str("unix")?,
                }
            }
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => write!(f, "tcp {address}")?,
                Err(_) => f.write_str("tcp")?,
            },
        }
        write!(f, " ({})", self.name)
    }
}

/// Why a socket cannot be used. Its text has the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error(
        "it is not a listening stream socket of UNIX or TCP; its unit needs ListenStream= and must not have Accept=yes"
    )]
    Kind,
    #[error("{} exists and is not a socket; give another path", .0.display())]
    NotASocket(PathBuf),
    #[error("{}: another process listens on it; stop it, or give another path", .0.display())]
    InUse(PathBuf),
    #[error("{}: {source}; give a path in a folder that the daemon may write to", path.display())]
    Unbound { path: PathBuf, source: io::Error },
    #[error("{0}")]
    System(#[from] io::Error),
}
