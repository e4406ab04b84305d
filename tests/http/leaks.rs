//! Many requests over HTTP leave no descriptors, threads or memory behind. Leaks of less memory, such as a task, are in
//! src/http/server/leaks.rs.

use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::support::at_rest::{at_rest, settled};
use crate::support::daemon::eventually;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::tiny_gguf;

/// Requests of the first use, which allocates what stays.
const FIRST: usize = 100;
const MORE: usize = 1000;
/// Connections that ask at once.
const CALLERS: usize = 4;
/// A KiB for each request; without a leak it is about a quarter of that.
const GROWTH: u64 = (MORE as u64) << 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_requests_leave_nothing() {
    let bus = PrivateBus::start();
    let folder = tempfile::tempdir().expect("a folder");
    let [model, socket] = ["model.gguf", "http"].map(|name| folder.path().join(name));
    std::fs::write(&model, tiny_gguf::with_vocabulary().file()).expect("it is written");
    let config = format!(
        "backend = 'cpu'\nkv.context = 256\nmodel.path = '{}'\n",
        model.display()
    );
    let http = format!("--http={}", socket.display());
    let daemon = Process::serving_with(&bus, &[&http], &config).await;
    requests(&socket, FIRST).await;
    let before = at_rest(daemon.id()).await;
    requests(&socket, MORE).await;
    let after = settled(daemon.id(), before).await;
    assert_eq!(after.descriptors, before.descriptors);
    assert_eq!(after.threads, before.threads);
    assert!(
        after.resident < before.resident + GROWTH,
        "{before}, then {after}"
    );
}

/// Sends requests of all kinds, some of them at once.
async fn requests(socket: &Path, count: usize) {
    let callers = (0..CALLERS).map(|caller| async move {
        for number in (caller..count).step_by(CALLERS) {
            let ended = request(socket, number / CALLERS).await;
            ended.expect("the daemon answers");
        }
    });
    eventually(futures_util::future::join_all(callers)).await;
}

/// Sends one request; its number decides its kind.
async fn request(socket: &Path, number: usize) -> std::io::Result<()> {
    let said = json!([{"role": "user", "content": format!("hello {number}")}]);
    let ask = |more: Value| {
        let mut body = json!({"messages": said, "max_tokens": 2});
        for (name, value) in more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        let body = body.to_string();
        let length = body.len();
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let mut stream = UnixStream::connect(socket).await?;
    let (text, status) = match number % 5 {
        0 => (ask(json!({})), "200"),
        1 => (ask(json!({"stream": true})), "200"),
        2 => (ask(json!({"logit_bias": {"1": 5}})), "400"),
        3 => {
            // The caller leaves in the middle of an answer.
            let text = ask(json!({"stream": true, "max_tokens": 200}));
            stream.write_all(text.as_bytes()).await?;
            let mut begun = [0; 15];
            stream.read_exact(&mut begun).await?;
            assert!(begun.starts_with(b"HTTP/1.1 200"), "{begun:?}");
            return Ok(());
        }
        _ => {
            // The caller leaves in the middle of its request.
            let text = ask(json!({}));
            return stream.write_all(&text.as_bytes()[..text.len() - 9]).await;
        }
    };
    stream.write_all(text.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
    Ok(())
}
