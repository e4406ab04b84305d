//! Connections to a router of the tests, which shows what it is given.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures_util::stream;
use nix::unistd::getuid;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::mpsc;

use super::connection;
use super::state::State;
use super::stream::Peer;
use super::times::Times;
use crate::engine::{Client, Limits, Receiver, Share, UserLimits, channel};
use crate::front::Front;
use crate::http::config::HttpConfig;
use crate::http::keys::Keys;
use crate::http::traffic::Traffic;

const LIMITS: Limits = Limits {
    requests: 1,
    queue: 1,
    sessions: 1,
    prefill: Share {
        slice: Duration::from_millis(1),
        percent: 50,
    },
    grammar: crate::guide::Limits::USUAL,
    user: UserLimits {
        requests: 1,
        sessions: 1,
        queue_percent: 100,
        kv_percent: 100,
    },
};
const SHORT: Duration = Duration::from_millis(50);
const MIB: usize = 1 << 20;

/// A server without sockets.
struct Server {
    state: Arc<State>,
    /// Requests that have begun, and those whose handler was dropped or has ended.
    begun: mpsc::UnboundedReceiver<()>,
    ended: mpsc::UnboundedReceiver<()>,
    /// Bytes of bodies that a handler got.
    received: Arc<AtomicUsize>,
    /// The other end of the engine, which is not used.
    _inbox: Receiver,
}

/// Reports its end.
struct Guard(mpsc::UnboundedSender<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

impl Server {
    fn new(config: HttpConfig) -> Self {
        Self::with(config, Times::default())
    }

    fn with(config: HttpConfig, times: Times) -> Self {
        let (engine, inbox) = channel(LIMITS);
        let (starts, begun) = mpsc::unbounded_channel();
        let (end, ended) = mpsc::unbounded_channel();
        let received = Arc::new(AtomicUsize::new(0));
        let of_handler = received.clone();
        let (begin_endless, end_endless) = (starts.clone(), end.clone());
        let router = Router::new()
            .route("/who", get(who))
            .route(
                "/body",
                post(async move |body: Bytes| {
                    of_handler.fetch_add(body.len(), Ordering::Relaxed);
                    body.len().to_string()
                }),
            )
            .route(
                "/never",
                get(async move || {
                    let _guard = Guard(end.clone());
                    let _ = starts.send(());
                    pending::<String>().await
                }),
            )
            .route(
                "/endless",
                get(async move || {
                    let guard = Guard(end_endless.clone());
                    let _ = begin_endless.send(());
                    Body::from_stream(stream::repeat_with(move || {
                        let _ = &guard;
                        Ok::<_, std::io::Error>(Bytes::from(vec![b'a'; 4096]))
                    }))
                }),
            )
            .layer(axum::extract::DefaultBodyLimit::disable());
        let state = Arc::new(State::new(
            Front::new(engine),
            router,
            Traffic::default(),
            times,
        ));
        state.config.set(config);
        Self {
            state,
            begun,
            ended,
            received,
            _inbox: inbox,
        }
    }

    /// Connects to a UNIX socket of that name.
    fn connect(&self, socket: &str) -> UnixStream {
        let (client, served) = UnixStream::pair().unwrap();
        tokio::spawn(connection::serve(
            self.state.clone(),
            Peer::Unix(served),
            socket.into(),
        ));
        client
    }

    async fn connect_tcp(&self) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, served) = tokio::join!(TcpStream::connect(address), listener.accept());
        let served = Peer::Tcp(served.unwrap().0);
        tokio::spawn(connection::serve(self.state.clone(), served, "tcp".into()));
        client.unwrap()
    }
}

async fn who(Extension(client): Extension<Client>) -> String {
    format!("{} {}", client.name, client.user)
}

/// Returns the status and the body of the next answer.
async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> (u16, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).await.expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.split("content-length: ").nth(1).expect("a length");
    let length = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.expect("a body");
    (status, String::from_utf8(body).unwrap())
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, request: &str) -> (u16, String) {
    stream.write_all(request.as_bytes()).await.unwrap();
    answer(stream).await
}

/// Reads until the server closes the connection.
async fn closed(mut stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut rest = Vec::new();
    // A reset is a close too.
    let _ = stream.read_to_end(&mut rest).await;
    rest
}

const WHO: &str = "GET /who HTTP/1.1\r\nHost: a\r\n\r\n";
const NEVER: &str = "GET /never HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn a_peer_is_its_user_or_that_of_its_socket() {
    let server = Server::new(HttpConfig {
        users: [("robot".to_owned(), 4321)].into(),
        ..HttpConfig::default()
    });
    let mut mine = server.connect("openai");
    let with_key = "GET /who HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer any\r\n\r\n";
    let (status, first) = ask(&mut mine, with_key).await;
    let me = getuid().as_raw();
    assert_eq!((status, &*first), (200, &*format!("http:1 {me}")));
    assert_eq!(ask(&mut mine, WHO).await, (200, first), "one connection");
    let other = ask(&mut server.connect("openai"), WHO).await;
    assert_eq!(other, (200, format!("http:2 {me}")), "another one");
    let mapped = ask(&mut server.connect("robot"), WHO).await;
    assert_eq!(mapped, (200, "http:3 4321".to_owned()));
}

#[tokio::test]
async fn a_peer_over_tcp_is_the_user_of_its_key() {
    let key = |number: u8| format!("{number:032}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    std::fs::write(&file, format!("7 {}\n8 {}\n", key(1), key(2))).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, private).unwrap();
    let server = Server::new(HttpConfig {
        keys: Some(Keys::read(&file).unwrap()),
        ..HttpConfig::default()
    });
    let mut stream = server.connect_tcp().await;
    let with =
        |key: &str| format!("GET /who HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\r\n");
    let (status, error) = ask(&mut stream, WHO).await;
    assert!(
        status == 401 && error.contains("missing_api_key"),
        "{error}"
    );
    // Only a path that needs no caller is answered without a key; this router does not have it.
    let health = WHO.replace("/who", "/health");
    assert_eq!(ask(&mut stream, &health).await.0, 404);
    let (status, error) = ask(&mut stream, &with(&key(3))).await;
    assert!(
        status == 401 && error.contains("invalid_api_key"),
        "{error}"
    );
    let first = ask(&mut stream, &with(&key(1))).await;
    assert_eq!(first, (200, "http:1 7".to_owned()));
    let second = ask(&mut stream, &with(&key(2))).await;
    assert_eq!(second, (200, "http:2 8".to_owned()), "another caller");

    // A key that a reload takes away is refused on open connections too.
    server.state.config.set(HttpConfig::default());
    let (status, error) = ask(&mut stream, &with(&key(1))).await;
    assert!(status == 401 && error.contains("no_keys"), "{error}");
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let server = Server::new(HttpConfig {
        max_body: MIB,
        ..HttpConfig::default()
    });
    // Nothing of an announced body is read.
    let announced = format!(
        "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        MIB + 1
    );
    let (status, error) = ask(&mut server.connect("openai"), &announced).await;
    assert!(
        status == 413 && error.contains("http.max_body_mib"),
        "{error}"
    );
    // The client sends all of the body before it reads.
    let mut stream = server.connect("openai");
    let chunk = format!("10000\r\n{}\r\n", "a".repeat(1 << 16));
    let head = "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..(2 * MIB) >> 16 {
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    assert_eq!(answer(&mut stream).await.0, 413);
    assert_eq!(server.received.load(Ordering::Relaxed), 0);

    let mut stream = server.connect("openai");
    let all = format!("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: {MIB}\r\n\r\n");
    stream.write_all(all.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'a'; MIB]).await.unwrap();
    assert_eq!(answer(&mut stream).await, (200, MIB.to_string()));
}

#[tokio::test]
async fn a_slow_sender_is_refused() {
    let times = Times {
        silence: SHORT,
        ..Times::default()
    };
    let server = Server::with(HttpConfig::default(), times);
    let half = "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf.";
    let (status, error) = ask(&mut server.connect("openai"), half).await;
    assert!(status == 408 && error.contains("slow_body"), "{error}");

    // A byte at a time is not enough either.
    let times = Times {
        body: SHORT,
        ..Times::default()
    };
    let server = Server::with(HttpConfig::default(), times);
    let (mut reader, mut writer) = server.connect("openai").into_split();
    let trickle = tokio::spawn(async move {
        let head = "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
        writer.write_all(head.as_bytes()).await.unwrap();
        while writer.write_all(b"a").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert_eq!(answer(&mut reader).await.0, 408);
    drop(reader);
    trickle.await.unwrap();

    let times = Times {
        headers: SHORT,
        ..Times::default()
    };
    let server = Server::with(HttpConfig::default(), times);
    let mut stream = server.connect("openai");
    stream
        .write_all(b"GET /who HTTP/1.1\r\nHost")
        .await
        .unwrap();
    closed(stream).await;
}

/// The handler ends, also if the peer leaves after it has sent further requests.
#[tokio::test]
async fn a_peer_that_leaves_cancels_its_request() {
    let mut server = Server::new(HttpConfig::default());
    for requests in [1, 2] {
        let mut stream = server.connect("openai");
        stream
            .write_all(NEVER.repeat(requests).as_bytes())
            .await
            .unwrap();
        server.begun.recv().await.unwrap();
        drop(stream);
        server.ended.recv().await.unwrap();
    }
    // This one only ends its requests.
    let mut stream = server.connect("openai");
    stream.write_all(WHO.repeat(2).as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    for _ in 0..2 {
        assert_eq!(answer(&mut stream).await.0, 200);
    }
    closed(stream).await;
    server.state.places.all_returned().await;
    assert!(
        server.begun.try_recv().is_err(),
        "only first requests began"
    );
}

#[tokio::test]
async fn an_answer_that_is_not_read_ends() {
    let mut server = Server::new(HttpConfig {
        stream_stall: SHORT,
        ..HttpConfig::default()
    });
    let mut stream = server.connect("openai");
    let endless = "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(endless.as_bytes()).await.unwrap();
    server.begun.recv().await.unwrap();
    server.ended.recv().await.unwrap();
    server.state.places.all_returned().await;
    assert!(!closed(stream).await.is_empty());
}

#[tokio::test]
async fn one_user_has_at_most_32_connections() {
    let server = Server::new(HttpConfig {
        users: [("robot".to_owned(), 4321)].into(),
        ..HttpConfig::default()
    });
    let mut mine = Vec::new();
    for _ in 0..32 {
        let mut stream = server.connect("openai");
        assert_eq!(ask(&mut stream, WHO).await.0, 200);
        mine.push(stream);
    }
    let (status, error) = ask(&mut server.connect("openai"), WHO).await;
    assert!(
        status == 429 && error.contains("user_connections"),
        "{error}"
    );
    assert_eq!(ask(&mut server.connect("robot"), WHO).await.0, 200);
    mine.pop();
    while ask(&mut server.connect("openai"), WHO).await.0 != 200 {}
}

#[tokio::test]
async fn requests_on_one_connection_are_answered_in_order() {
    let server = Server::new(HttpConfig::default());
    let mut stream = server.connect("openai");
    let bodies = (1..=100).map(|length| {
        let body = "a".repeat(length);
        format!("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}")
    });
    let all: String = bodies.collect();
    stream.write_all(all.as_bytes()).await.unwrap();
    for length in 1..=100 {
        assert_eq!(answer(&mut stream).await, (200, length.to_string()));
    }
    let large = format!(
        "GET /who HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n",
        "a".repeat(16 << 10)
    );
    assert_eq!(ask(&mut stream, &large).await.0, 431);
    closed(stream).await;
}

#[tokio::test]
async fn a_stop_ends_idle_connections_and_waits_for_others() {
    let mut server = Server::new(HttpConfig::default());
    let mut idle = server.connect("openai");
    assert_eq!(ask(&mut idle, WHO).await.0, 200);
    let mut busy = server.connect("openai");
    let endless = "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n";
    busy.write_all(endless.as_bytes()).await.unwrap();
    server.begun.recv().await.unwrap();
    server.state.stopping.send_replace(true);
    closed(idle).await;
    let mut bytes = vec![0; 4 * MIB];
    busy.read_exact(&mut bytes).await.unwrap();
    drop(busy);
    server.ended.recv().await.unwrap();
    server.state.places.all_returned().await;
}
