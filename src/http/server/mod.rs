//! The server: accepts connections, bounds what each of them and each user may take, and hands requests to the router with
//! their caller and their whole body.
//!
//! It knows no path of the API.

mod accept;
mod bodies;
mod body;
mod connection;
#[cfg(test)]
mod leaks;
mod places;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod times;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::Response;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::config::HttpConfig;
use super::error_form;
use super::listen::{Socket, SocketError};
use super::refusals;
use super::router::router;
use super::shared::Shared;
use crate::front::Front;
use crate::journal;
use state::State;
use times::Times;

/// The HTTP front end on its sockets; there may be none.
#[derive(Debug)]
pub struct Http {
    state: Arc<State>,
    /// The tasks that accept connections.
    accepting: Mutex<JoinSet<()>>,
}

/// Serves the engine of `front` on those of `sockets` that are usable, and reports the others. Requests that need the
/// configuration wait until `front` and the server have one.
#[must_use]
pub fn serve(
    sockets: impl IntoIterator<Item = Result<Socket, (String, SocketError)>>,
    front: Front,
) -> Http {
    // Root in a container may be root of the host: over HTTP, root has the rights of other users.
    let front = front.without_root();
    let shared = Shared::new(front.clone());
    let traffic = shared.traffic.clone();
    let state = State::new(front, service(shared), traffic, Times::default());
    let state = Arc::new(state);
    let mut accepting = JoinSet::new();
    let mut listening = Vec::new();
    for socket in sockets {
        match socket {
            Ok(socket) => {
                listening.push(socket.to_string());
                accepting.spawn(accept::run(state.clone(), socket));
            }
            Err((name, error)) => journal::http_refused(&name, &error.to_string()),
        }
    }
    if !listening.is_empty() {
        journal::http_listening(&listening.join(", "));
    }
    Http {
        state,
        accepting: Mutex::new(accepting),
    }
}

/// Returns the service of all requests.
fn service(shared: Shared) -> Router {
    router(shared)
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        // The server has read the body within its own limit.
        .layer(DefaultBodyLimit::disable())
}

async fn unknown_path(request: Request) -> Response {
    let path = request.uri().path();
    error_form::response(&refusals::unknown_path(path), path)
}

async fn wrong_method(request: Request) -> Response {
    let path = request.uri().path();
    let error = refusals::wrong_method(request.method().as_str(), path);
    error_form::response(&error, path)
}

impl Http {
    /// Applies settings: the first, or new ones. The user of a UNIX peer stays that of its connection.
    pub fn configure(&self, config: HttpConfig) {
        self.state.config.set(config);
    }

    /// Accepts no further connections. The others end after their current requests.
    pub fn stop(&self) {
        self.accepting.lock().abort_all();
        self.state.stopping.send_replace(true);
    }

    /// Returns when all connections have ended. Call `stop` before.
    pub async fn ended(&self) {
        self.state.places.all_returned().await;
    }
}
