//! The sockets that systemd passes to the daemon, as sd_listen_fds(3) says: descriptors from 3 on, and their names.

use std::env;
use std::fmt;
use std::io;

use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;

use super::socket::{Listener, Socket, SocketError};

/// The name of a descriptor without one, as in sd_listen_fds_with_names(3).
const UNNAMED: &str = "unknown";

/// The descriptors that this process was started with.
pub struct Inherited {
    descriptors: ListenFd,
    names: Vec<String>,
}

impl fmt::Debug for Inherited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} descriptors", self.descriptors.len())
    }
}

impl Inherited {
    /// Takes the descriptors. Call it once, before any thread starts: it changes the environment, so that no child process
    /// takes them too.
    #[must_use]
    pub fn take() -> Self {
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        // Without LISTEN_PID they may be those of a parent.
        let descriptors = match env::var_os("LISTEN_PID") {
            Some(_) => ListenFd::from_env(),
            None => ListenFd::empty(),
        };
        Self {
            descriptors,
            names: names.split(':').map(str::to_owned).collect(),
        }
    }

    /// Returns the sockets, and the name and the error of each descriptor that is not a usable one.
    #[must_use]
    pub fn open(mut self) -> Vec<Result<Socket, (String, SocketError)>> {
        let all = 0..self.descriptors.len();
        all.map(|index| {
            let name = self.names.get(index).filter(|name| !name.is_empty());
            let name = name.map_or(UNNAMED, |name| name).to_owned();
            match self.listener(index) {
                Ok(listener) => Ok(Socket {
                    name,
                    listener,
                    file: None,
                }),
                Err(error) => Err((name, error)),
            }
        })
        .collect()
    }

    fn listener(&mut self, index: usize) -> Result<Listener, SocketError> {
        let sockets = &mut self.descriptors;
        if let Ok(Some(unix)) = sockets.take_unix_listener(index) {
            return listens(socket_acceptconn(&unix)).map(|()| Listener::Unix(unix));
        }
        if let Ok(Some(tcp)) = sockets.take_tcp_listener(index) {
            return listens(socket_acceptconn(&tcp)).map(|()| Listener::Tcp(tcp));
        }
        // Sockets for datagrams are closed. Anything else stays open and unused.
        let _ = sockets.take_unix_datagram(index);
        let _ = sockets.take_udp_socket(index);
        Err(SocketError::Kind)
    }
}

fn listens(does: rustix::io::Result<bool>) -> Result<(), SocketError> {
    match does {
        Ok(true) => Ok(()),
        Ok(false) => Err(SocketError::Kind),
        Err(error) => Err(io::Error::from(error).into()),
    }
}
