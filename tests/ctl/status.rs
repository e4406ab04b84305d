//! The verbs that show a running daemon: `status`, `graph` and `top`.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{ctl, finish, run};
use crate::support::daemon::{Daemon, eventually};
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::tiny_gguf;

#[tokio::test(flavor = "multi_thread")]
async fn status_is_a_table_or_json() {
    let daemon = Daemon::start("").await;
    let json = run(&["--bus", daemon.bus.text(), "status", "--json"]).await;
    let status: Value = serde_json::from_str(&json.stdout).expect("it is JSON");
    assert_eq!(status["state"], "ready");
    assert_eq!(status["backend"], "sim");
    assert_eq!(status["device"], "a script");
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["model"]["name"], "scripted");
    assert_eq!(status["queue_length"], 0);
    assert_eq!(status["sessions"], 0);
    assert_eq!(status["graph_state"], "none");
    assert_eq!(status["graph"]["mode"], "none");
    let table = run(&["--bus", daemon.bus.text(), "status"]).await;
    assert!(table.stdout.starts_with("state "), "{table:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn graph_is_shown_saved_and_reset() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("decode.dot");
    let file = file.to_str().expect("the path is UTF-8");
    let bus = PrivateBus::start();
    let model = folder.path().join("tiny.gguf");
    std::fs::write(&model, tiny_gguf::with_vocabulary().file()).expect("it is written");
    let config = format!(
        "backend = 'cpu'\nmodel.path = '{}'\nkv.context = 64\n",
        model.display()
    );
    let _daemon = Process::serving(&bus, &config).await;
    let bus = bus.text();

    let empty = run(&["--bus", bus, "graph", "--dot", file]).await;
    assert_eq!(empty.code, Some(69), "{empty:?}");
    assert!(empty.stderr.contains("ask something first"), "{empty:?}");
    let asked = run(&["--bus", bus, "ask", "--max-tokens", "4", "Hello"]).await;
    assert_eq!(asked.code, Some(1), "it is cut: {asked:?}");
    let saved = run(&["--bus", bus, "graph", "--dot", file]).await;
    assert_eq!((saved.code, saved.stdout.as_str()), (Some(0), ""));
    let dot = std::fs::read_to_string(file).expect("it is saved");
    assert!(dot.starts_with("digraph"), "{dot}");

    let table = run(&["--bus", bus, "graph"]).await;
    assert!(
        table.stdout.starts_with("state              valid\n"),
        "{table:?}"
    );
    let reset = run(&["--bus", bus, "graph", "--reset", "--json"]).await;
    let reset: Value = serde_json::from_str(&reset.stdout).expect("it is JSON");
    assert_eq!(
        (&reset["state"], &reset["reason"]),
        (&"invalid".into(), &"reset".into())
    );
    assert_eq!(reset["recordings"], 1);
    let status = run(&["--bus", bus, "status"]).await;
    let rows: Vec<Vec<&str>> = status
        .stdout
        .lines()
        .map(|row| row.split_whitespace().collect())
        .collect();
    for row in [
        &["graph", "invalid"][..],
        &["graph", "mode", "full_decode_only"],
        &["graph", "reason", "reset"],
    ] {
        assert!(rows.iter().any(|shown| shown == row), "{row:?}: {status:?}");
    }
}

/// A script needs nothing else, and it can wait.
#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_of_status_says_whether_the_daemon_is_ready() {
    let empty = PrivateBus::start();
    let loading = Daemon::start("load=3600s").await;
    let failed = Daemon::start("load_error=no such file").await;
    let soon = Daemon::start("load=300ms").await;
    for (bus, wait, code, shown) in [
        (empty.text(), "--wait=0.1", 69, ""),
        (loading.bus.text(), "--json", 75, "\"loading\""),
        (loading.bus.text(), "--wait=0.1", 75, "state  loading"),
        (failed.bus.text(), "--wait", 78, "state  failed"),
        (soon.bus.text(), "--wait", 0, "state  ready"),
        (soon.bus.text(), "--json", 0, "\"ready\""),
    ] {
        let status = run(&["--bus", bus, "status", wait]).await;
        assert_eq!(status.code, Some(code), "{wait}: {status:?}");
        let words: Vec<_> = status.stdout.split_whitespace().collect();
        let wanted: Vec<_> = shown.split_whitespace().collect();
        assert!(words.join(" ").contains(&wanted.join(" ")), "{status:?}");
    }
}

/// The terminal's settings are restored.
#[tokio::test(flavor = "multi_thread")]
async fn top_in_a_terminal_ends_with_q() {
    use nix::pty::openpty;
    use nix::sys::termios::{LocalFlags, tcgetattr};
    use std::io::{Read as _, Write as _};

    let daemon = Daemon::start("").await;
    let pty = openpty(None, None).expect("a terminal");
    let end = || pty.slave.try_clone().expect("a descriptor");
    let top = ["--bus", daemon.bus.text(), "top", "--interval", "0.1"];
    // `top` reads keys only if it owns the terminal, like a job of a shell.
    let mut top = tokio::process::Command::new("setsid")
        .args(["--ctty", "--wait", env!("CARGO_BIN_EXE_ganglionctl")])
        .args(top)
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .kill_on_drop(true)
        .spawn()
        .expect("setsid runs");
    let mut keyboard = std::fs::File::from(pty.master);
    let mut screen = keyboard.try_clone().expect("a descriptor");
    let shown = tokio::task::spawn_blocking(move || {
        let mut shown = Vec::new();
        let mut piece = [0; 1024];
        while !String::from_utf8_lossy(&shown).contains("tokens/s") {
            let read = screen.read(&mut piece).expect("it draws");
            shown.extend_from_slice(&piece[..read]);
        }
    });
    eventually(shown).await.expect("a reading is shown");
    keyboard.write_all(b"xq").expect("it is pressed");
    let ended = eventually(top.wait()).await.expect("it ends");
    assert_eq!(ended.code(), Some(0));
    let after = tcgetattr(&pty.slave).expect("its settings");
    let typed = LocalFlags::ICANON | LocalFlags::ECHO;
    assert!(after.local_flags.contains(typed), "{after:?}");
}

/// Without a terminal it prints one line per reading. Tokens between two readings are counted.
#[tokio::test(flavor = "multi_thread")]
async fn top_writes_readings_until_ctrl_c() {
    let daemon = Daemon::start("tokens=100000,delay=1ms").await;
    let bus = daemon.bus.text();
    let once = run(&["--bus", bus, "top", "--once", "--interval", "0.1"]).await;
    assert_eq!(once.code, Some(0), "{once:?}");
    assert_eq!(once.stdout.lines().count(), 1, "{once:?}");
    assert!(once.stdout.contains(" tokens_per_second=0.0 "), "{once:?}");
    let wrong = run(&["--bus", bus, "top", "--interval", "0"]).await;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");

    let asking = ctl(&["--bus", bus, "ask", "--max-tokens", "4096", "word"]);
    let _asking = { asking }.spawn().expect("ganglionctl runs");
    let mut top = ctl(&["--bus", bus, "top", "--interval", "0.1"])
        .spawn()
        .expect("ganglionctl runs");
    let stdout = top.stdout.take().expect("it is piped");
    let mut lines = BufReader::new(stdout).lines();
    loop {
        let line = eventually(lines.next_line()).await.expect("it writes");
        let line = line.expect("it goes on");
        assert!(
            line.starts_with("state=ready model=\"scripted\" "),
            "{line}"
        );
        let field = |name: &str| {
            let mut fields = line.split(' ').filter_map(|field| field.split_once('='));
            let found = fields.find(|(key, _)| *key == name).expect(name);
            found.1.to_owned()
        };
        let rate: f64 = field("tokens_per_second").parse().expect("a number");
        if rate > 0.0 && field("queue") == "1" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let process = top.id().and_then(|id| i32::try_from(id).ok());
    kill(Pid::from_raw(process.expect("it runs")), Signal::SIGINT).expect("it runs");
    let top = finish(top).await;
    assert_eq!((top.code, top.stderr.as_str()), (Some(0), ""));
}
