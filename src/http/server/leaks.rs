//! Requests of all kinds leave no task, no permit and no place behind. The leaks of the whole process are in tests/http.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::connection;
use super::service;
use super::state::State;
use super::stream::Peer;
use super::times::Times;
use crate::http::config::HttpConfig;
use crate::http::tests::{engine, loaded};
use crate::http::traffic::Traffic;

/// Each endpoint and each kind of request, twice.
const REQUESTS: usize = 2 * 3 * 5;
/// Whatever lives longer than this has leaked.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn requests_leave_no_task_permit_or_place() {
    let shared = engine("delay=1ms");
    loaded(&shared).await;
    let front = shared.front.clone();
    let (router, times) = (service(shared), Times::default());
    let state = Arc::new(State::new(front.clone(), router, Traffic::default(), times));
    state.config.set(HttpConfig::default());
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for number in 0..REQUESTS {
        request(&state, number).await;
        let returned = async {
            state.places.all_returned().await;
            front.delivered().await;
        };
        let returned = timeout(PATIENCE, returned).await;
        returned.expect("a place or a permit is still taken");
    }
    let ended = async {
        while tasks() > before {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let ended = timeout(PATIENCE, ended).await;
    assert!(ended.is_ok(), "{before} tasks, then {}", tasks());
}

/// Sends one request on a connection of its own; its number decides its endpoint and its kind.
async fn request(state: &Arc<State>, number: usize) {
    let (mut stream, served) = UnixStream::pair().expect("sockets");
    let served = connection::serve(state.clone(), Peer::Unix(served), "openai".into());
    tokio::spawn(served);
    let said = json!([{"role": "user", "content": format!("one two three {number}")}]);
    let (path, mut body) = match number % 3 {
        0 => (
            "chat/completions",
            json!({"messages": said, "max_tokens": 9}),
        ),
        1 => ("messages", json!({"messages": said, "max_tokens": 9})),
        _ => ("responses", json!({"input": said, "max_output_tokens": 9})),
    };
    let kind = number % 5;
    match kind {
        1 | 2 => body["stream"] = json!(true),
        3 => body["unknown"] = json!(1),
        _ => {}
    }
    let body = body.to_string();
    let length = body.len();
    let request = format!(
        "POST /v1/{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    // The last kind leaves in the middle of its request, and another one in the middle of its answer.
    let sent = if kind == 4 {
        request.len() - 9
    } else {
        request.len()
    };
    let written = stream.write_all(&request.as_bytes()[..sent]).await;
    written.expect("it reads");
    let mut answer = [0; 12];
    match kind {
        4 => return,
        2 => drop(stream.read_exact(&mut answer).await.expect("a status")),
        _ => {
            let mut whole = Vec::new();
            stream.read_to_end(&mut whole).await.expect("an answer");
            answer.copy_from_slice(&whole[..12]);
        }
    }
    let status = if kind == 3 { "400" } else { "200" };
    assert_eq!(answer, *format!("HTTP/1.1 {status}").as_bytes());
}
