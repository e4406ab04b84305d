//! One connection: its requests in order, until either side closes it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;

use super::body;
use super::places::Place;
use super::state::State;
use super::stream::{Peer, Stream};
use crate::engine::{Client, ConnectionName};
use crate::http::caller::{Identity, connection_name};
use crate::http::config::HttpConfig;
use crate::http::error::Error;
use crate::http::error_form;
use crate::http::router;

/// The most bytes of the headers of one request.
const HEADERS: usize = 16 << 10;
/// The most bytes that a connection reads ahead, and that wait to be written.
const BUFFER: usize = 64 << 10;
/// How long a refused peer may leave the refusal unread.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// One connection.
struct Connection {
    state: Arc<State>,
    identity: Identity,
    place: Mutex<Place>,
    /// The caller of the last request. A peer over TCP may change its key, and then has another name.
    client: Mutex<Option<Client>>,
}

/// Serves the connection of `peer` on the socket `socket`.
pub(super) async fn serve(state: Arc<State>, peer: Peer, socket: Arc<str>) {
    let _open = state.traffic.open();
    let mut place = match state.places.take() {
        Ok(place) => place,
        Err(error) => return refuse(&state, peer, &error).await,
    };
    let config = state.config.get().await;
    let admitted = identify(&peer, &socket, &config).and_then(|identity| {
        let user = match identity {
            Identity::User(user) => Some(user),
            Identity::Key => None,
        };
        place.set_user(user).map_err(Some)?;
        Ok(identity)
    });
    let identity = match admitted {
        Ok(identity) => identity,
        Err(Some(error)) => {
            // Refused peers take no place from others.
            drop(place);
            return refuse(&state, peer, &error).await;
        }
        // Without a user nothing can be answered.
        Err(None) => return,
    };
    let stream = Stream::new(peer, config.stream_stall);
    let connection = Arc::new(Connection {
        state,
        identity,
        place: Mutex::new(place),
        client: Mutex::default(),
    });
    connection.run(stream).await;
}

/// Returns how the user of a peer is known; `None` if the kernel does not name it.
fn identify(peer: &Peer, socket: &str, config: &HttpConfig) -> Result<Identity, Option<Error>> {
    match peer {
        Peer::Unix(stream) => Identity::of_unix(stream, socket, config).map_err(|_| None),
        Peer::Tcp(_) => Ok(Identity::Key),
    }
}

/// Answers whatever the peer asks with an error, and closes the connection.
async fn refuse(state: &State, peer: Peer, error: &Error) {
    // A flood of connections gets no answer.
    let Ok(_permit) = state.refusing.try_acquire() else {
        return;
    };
    let body = error_form::both(error).to_string();
    let (status, length) = (error.status, body.len());
    state.traffic.respond(status);
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let mut stream = Stream::new(peer, REFUSAL_TIME);
    // A peer that has left needs no answer.
    if stream.write_all(answer.as_bytes()).await.is_ok() {
        let _ = stream.shutdown().await;
    }
}

impl Connection {
    async fn run(self: Arc<Self>, stream: Stream) {
        let Ok(presence) = stream.presence() else {
            return;
        };
        let mut stopping = self.state.stopping.subscribe();
        let of_requests = self.clone();
        let service = service_fn(move |request| of_requests.clone().answer(request));
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.state.times.headers)
            .max_header_size(HEADERS)
            .max_buf_size(BUFFER)
            // A peer may end its requests before it reads the answers.
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(served);
        // What ends a connection is the peer's doing or the daemon's stop, and needs no report. A peer that has left cancels its
        // requests, because their handlers are dropped.
        let has_ended = tokio::select! {
            _ = served.as_mut() => true,
            () = presence.left() => true,
            _ = stopping.wait_for(|stopping| *stopping) => false,
        };
        if !has_ended {
            served.as_mut().graceful_shutdown();
            tokio::select! {
                _ = served => {}
                () = presence.left() => {}
            }
        }
        if let Some(client) = self.client.lock().take() {
            self.state.front.engine().leave(&client.name);
        }
    }

    /// Answers one request.
    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let uri = request.uri().clone();
        let response = match self.admit(request).await {
            Ok(request) => {
                let router = TowerToHyperService::new(self.state.router.clone());
                router.call(request).await?
            }
            Err(error) => error_form::response(&error, uri.path()),
        };
        self.state.traffic.respond(response.status());
        Ok(response)
    }

    /// Returns the request with its caller and its whole body.
    async fn admit(&self, request: Request<Incoming>) -> Result<Request<Body>, Error> {
        let config = self.state.config.get().await;
        let user = match self.identity.user(request.headers(), &config) {
            // Probes have no key.
            Err(_) if router::is_open(request.method(), request.uri().path()) => {
                return Ok(request.map(|_| Body::empty()));
            }
            user => user?,
        };
        let client = self.client(user)?;
        let largest = config.max_body;
        let share = self.state.bodies.share(user, largest);
        let (mut head, body) = request.into_parts();
        let bytes = body::read(body, share, largest, self.state.times).await?;
        head.extensions.insert(client);
        Ok(Request::from_parts(head, Body::from(bytes)))
    }

    /// Returns the caller of a request of `user`.
    fn client(&self, user: u32) -> Result<Client, Error> {
        self.place.lock().set_user(Some(user))?;
        let mut client = self.client.lock();
        if let Some(client) = client.as_ref().filter(|client| client.user == user) {
            return Ok(client.clone());
        }
        let name: ConnectionName = connection_name(self.state.next_number());
        let new = Client { name, user };
        if let Some(earlier) = client.replace(new.clone()) {
            self.state.front.engine().leave(&earlier.name);
        }
        Ok(new)
    }
}
