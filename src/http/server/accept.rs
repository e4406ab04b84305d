//! Accepts the connections of one socket until it is dropped.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::time::sleep;

use super::connection;
use super::state::State;
use super::stream::Peer;
use crate::http::listen::{Listener, Socket};
use crate::journal;

/// The time before another attempt after a failure, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket on the reactor.
#[derive(Debug)]
pub(super) enum Acceptor {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Acceptor {
    /// Puts a socket on the reactor of this thread.
    fn new(listener: Listener) -> io::Result<Self> {
        match listener {
            Listener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                UnixListener::from_std(listener).map(Self::Unix)
            }
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Self::Tcp)
            }
        }
    }

    async fn accept(&self) -> io::Result<Peer> {
        match self {
            Self::Unix(listener) => listener.accept().await.map(|(peer, _)| Peer::Unix(peer)),
            Self::Tcp(listener) => {
                let (peer, _) = listener.accept().await?;
                // Each token is sent at once.
                peer.set_nodelay(true)?;
                Ok(Peer::Tcp(peer))
            }
        }
    }
}

/// Serves the connections of `socket` in tasks of their own.
pub(super) async fn run(state: Arc<State>, socket: Socket) {
    let described = socket.to_string();
    let name: Arc<str> = socket.name.as_str().into();
    // Dropped together with this task.
    let _file = socket.file;
    let acceptor = match Acceptor::new(socket.listener) {
        Ok(acceptor) => acceptor,
        Err(error) => return journal::http_refused(&described, &error.to_string()),
    };
    let mut is_reported = false;
    loop {
        match acceptor.accept().await {
            Ok(peer) => {
                tokio::spawn(connection::serve(state.clone(), peer, name.clone()));
                is_reported = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut is_reported, true) {
                    journal::http_refused(&described, &error.to_string());
                }
                sleep(PAUSE).await;
            }
        }
    }
}
