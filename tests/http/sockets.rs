//! The sockets: one that an option names, and those that systemd passes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use super::raw::{HEALTH, ask, ask_at};
use crate::support::daemon::{Client, until};
use crate::support::needs;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// Whether the daemon answers that it is ready.
async fn is_ready(path: &Path) -> bool {
    let answer = ask_at(path, HEALTH).await;
    answer.is_ok_and(|(status, body)| status == 200 && body.contains("\"ready\""))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_applies_the_limit_of_bodies() {
    let bus = PrivateBus::start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("http");
    let daemon = Process::over_http(&bus, "tokens=4", "", &path).await;
    assert!(is_ready(&path).await);
    let large = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1500000\r\n\r\n";
    daemon.configure("http.max_body_mib = 1\n");
    let client = Client::connect(&bus).await;
    client.manager.reload().await.expect("it is valid");
    let (status, error) = ask_at(&path, large).await.expect("an answer");
    assert!(status == 413 && error.contains("1 MiB"), "{error}");
    drop(daemon);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_socket_the_daemon_answers_on_the_bus() {
    let bus = PrivateBus::start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("http");
    fs::write(&path, "a file").expect("it is written");
    let daemon = Process::over_http(&bus, "tokens=4", "", &path).await;
    let client = Client::connect(&bus).await;
    assert_eq!(client.manager.state().await.expect("a state"), "ready");
    assert_eq!(fs::read_to_string(&path).expect("it is left"), "a file");
    drop(daemon);
}

/// The first connection starts the daemon, as with the socket unit.
#[tokio::test(flavor = "multi_thread")]
async fn systemd_passes_unix_and_tcp_sockets() {
    if !needs::programs(&["systemd-socket-activate"]) {
        return;
    }
    let bus = PrivateBus::start();
    let folder = tempfile::tempdir().expect("a folder");
    let [path, config, keys] =
        ["http", "gangliond.toml", "keys"].map(|name| folder.path().join(name));
    fs::write(&keys, format!("1000 {KEY}\n")).expect("it is written");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).expect("they are set");
    fs::write(&config, "http.key_file = 'keys'\n").expect("it is written");
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let _daemon = Command::new("systemd-socket-activate")
        .arg("--listen")
        .arg(&path)
        .args([
            "--listen",
            &address.to_string(),
            "--fdname",
            "openai:openai",
        ])
        .arg(env!("CARGO_BIN_EXE_gangliond"))
        .args(["--bus", bus.text(), "--sim", "tokens=4", "--config"])
        .arg(&config)
        .kill_on_drop(true)
        .spawn()
        .expect("it runs");
    until(async || is_ready(&path).await).await;

    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let models = HEALTH.replace("/health", "/v1/models");
    let (status, error) = ask(&mut stream, &models).await.expect("an answer");
    assert!(
        status == 401 && error.contains("missing_api_key"),
        "{error}"
    );
    let (status, body) = ask(&mut stream, HEALTH).await.expect("an answer");
    assert_eq!(status, 200, "a probe needs no key: {body}");
    let with_key = models.replace(
        "\r\n\r\n",
        &format!("\r\nAuthorization: Bearer {KEY}\r\n\r\n"),
    );
    let (status, body) = ask(&mut stream, &with_key).await.expect("an answer");
    assert_eq!(status, 200, "{body}");

    let of_anthropic = HEALTH.replace("\r\n\r\n", &format!("\r\nx-api-key: {KEY}\r\n\r\n"));
    let (status, body) = ask(&mut stream, &of_anthropic).await.expect("an answer");
    assert_eq!(status, 200, "{body}");
    let messages = "POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    let (status, error) = ask(&mut stream, messages).await.expect("an answer");
    assert!(
        status == 401 && error.contains("\"type\":\"authentication_error\""),
        "{error}"
    );

    // A reload refuses keys that every user can read, and the old ones stay.
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).expect("they are set");
    let client = Client::connect(&bus).await;
    let refused = client.manager.reload().await.expect_err("it is refused");
    assert!(refused.to_string().contains("http.key_file"), "{refused}");
    let (status, _) = ask(&mut stream, &with_key).await.expect("an answer");
    assert_eq!(status, 200);
}
