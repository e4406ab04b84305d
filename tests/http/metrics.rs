//! `/health` and `/metrics` on a socket, while requests of the bus and of the socket run.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ganglion::bus::BusConfig;
use ganglion::bus::proxy::Fields;
use ganglion::http::{Http, HttpConfig, listen, serve};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::support::daemon::{Daemon, eventually};
use crate::support::needs;
use crate::support::stream::Reader;

/// The daemon's HTTP front end on a socket of its own.
struct Served {
    http: Http,
    folder: TempDir,
}

impl Served {
    fn new(daemon: &Daemon, config: HttpConfig) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = listen::bind(&folder.path().join("http")).expect("a socket");
        let http = serve([Ok(socket)], daemon.front().clone());
        http.configure(config);
        Self { http, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("http")
    }

    /// Asks for a path. Returns the status and the body.
    async fn get(&self, path: &'static str) -> (u16, String) {
        let socket = self.path();
        let asked = tokio::task::spawn_blocking(move || ask(&socket, &format!("GET {path}"), ""));
        eventually(asked).await.expect("an answer")
    }

    /// Begins a chat completion. The task returns its usage.
    fn complete(&self, question: &str) -> JoinHandle<Value> {
        let (socket, body) = (
            self.path(),
            json!({"messages": [{"role": "user", "content": question}]}),
        );
        tokio::task::spawn_blocking(move || {
            let (status, answer) = ask(&socket, "POST /v1/chat/completions", &body.to_string());
            assert_eq!(status, 200, "{answer}");
            let mut answer: Value = serde_json::from_str(&answer).expect("JSON");
            answer["usage"].take()
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.http.stop();
    }
}

/// Sends a request. Returns the status and the body of the answer.
fn ask(socket: &Path, line: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (status.expect("a status"), body.to_owned())
}

/// The samples by name and labels.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        (name.to_owned(), value.parse().expect("a number"))
    });
    samples.collect()
}

/// The sum over all values of a metric's label.
fn sum(samples: &BTreeMap<String, f64>, metric: &str) -> f64 {
    let own = samples
        .iter()
        .filter(|(name, _)| name.split('{').next() == Some(metric));
    own.map(|(_, value)| value).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_answer_under_load_and_sum_up() {
    /// Half of the requests come over the bus, and half over HTTP.
    const REQUESTS: u32 = 8;
    const TOKENS: u32 = 100;
    if !needs::root() {
        return;
    }
    let script = format!("rows={REQUESTS},tokens={TOKENS},delay=5ms");
    let daemon = Daemon::with(&script, 16, BusConfig::default()).await;
    let http = Served::new(&daemon, HttpConfig::default());
    let client = daemon.client().await;
    let (mut streams, mut completions) = (Vec::new(), Vec::new());
    for _ in 0..REQUESTS / 2 {
        let said = ("user", Fields::from([("content", "one two three".into())]));
        let asked = client.manager.generate(&[said], Fields::new()).await;
        let (_, stream) = asked.expect("it is accepted");
        streams.push(tokio::spawn(Reader::new(stream).answer()));
        completions.push(http.complete("one two three"));
    }
    let mut generated = 0.0;
    loop {
        let (status, text) = http.get("/metrics").await;
        assert_eq!(status, 200, "{text}");
        let now = samples(&text);
        let more = sum(&now, "ganglion_generated_tokens_total");
        assert!(more >= generated, "{more} after {generated}");
        generated = more;
        let ended = sum(&now, "ganglion_requests_total");
        let running = sum(&now, "ganglion_requests_running");
        assert!(ended.max(running) <= f64::from(REQUESTS), "{text}");
        if ended >= f64::from(REQUESTS) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (mut expected, mut prompts) = (0, 0);
    for answer in streams {
        let usage = answer.await.expect("it ends").usage;
        expected += usage.completion_tokens;
        prompts += usage.prompt_tokens;
    }
    for answer in completions {
        let usage = answer.await.expect("it ends");
        let count = |of: &str| usage[of].as_u64().and_then(|count| count.try_into().ok());
        expected += count("completion_tokens").unwrap_or(0);
        prompts += count("prompt_tokens").unwrap_or(0);
    }
    let (_, text) = http.get("/metrics").await;
    let all = samples(&text);
    assert_eq!(expected, REQUESTS * TOKENS);
    for (metric, expected) in [
        ("ganglion_requests_total", REQUESTS),
        ("ganglion_request_seconds_count", REQUESTS),
        ("ganglion_first_token_seconds_count", REQUESTS),
        ("ganglion_between_tokens_seconds_count", expected - REQUESTS),
        ("ganglion_generated_tokens_total", expected),
        ("ganglion_prompt_tokens_total", prompts),
        ("ganglion_requests_running", 0),
        ("ganglion_requests_waiting", 0),
    ] {
        let found = sum(&all, metric);
        assert!(
            (found - f64::from(expected)).abs() < 1e-9,
            "{metric} is {found}"
        );
    }
    assert!(!text.contains("one two"), "no text is among the figures");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_for_operators_and_health_is_for_all() {
    if !needs::root() {
        return;
    }
    let daemon = Daemon::start("").await;
    let nobody = HttpConfig {
        users: BTreeMap::from([("http".to_owned(), 65534)]),
        ..HttpConfig::default()
    };
    let http = Served::new(&daemon, nobody);
    let (status, body) = http.get("/metrics").await;
    assert_eq!(status, 403, "{body}");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(body["error"]["type"], "permission_error");
    let why = body["error"]["message"].as_str().expect("a reason");
    assert!(
        why.contains("ganglion-admin") && why.contains("65534"),
        "{why}"
    );
    let (status, body) = http.get("/health").await;
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(body["status"], "ok");
    assert_eq!(body["state"], "ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_503_while_the_model_loads() {
    let daemon = Daemon::start("load=3600s").await;
    let http = Served::new(&daemon, HttpConfig::default());
    let (status, body) = http.get("/health").await;
    assert_eq!(status, 503, "{body}");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(body["error"]["code"], 503);
    assert_eq!(body["error"]["message"], "Loading model");
}
