//! Attacks on a pull by the folder's owner or the server. Root reveals and overwrites nothing, and every pull ends.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::server::{Reply, Server};
use super::{CTL, Folder, failure, model, sha256};
use crate::support::needs;

/// Any user other than root.
const OTHER: u32 = 4321;

/// Runs a pull with a time limit, so that a hang is a failure.
fn bounded(arguments: &[&str]) -> Output {
    let output = Command::new("timeout")
        .args(["60", CTL, "pull", "--retries", "0"])
        .args(arguments)
        .env_remove("http_proxy")
        .env_remove("HF_TOKEN")
        .output()
        .expect("timeout runs");
    assert_ne!(output.status.code(), Some(124), "it hangs");
    output
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A folder that belongs to another user, and one that only root may enter.
struct Hostile {
    folder: Folder,
    server: Server,
}

impl Hostile {
    /// Returns `None` unless root runs the test.
    fn new(answers: usize) -> Option<Self> {
        if !needs::root() {
            return None;
        }
        let folder = Folder::new();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
        };
        mode(folder.0.path(), 0o755);
        for name in ["state", "secret"] {
            fs::create_dir(folder.path(name)).expect("it is made");
        }
        mode(&folder.path("secret"), 0o700);
        chown(folder.path("state"), Some(OTHER), Some(OTHER)).expect("it is given");
        let reply = Reply::file(&model());
        Some(Self {
            folder,
            server: Server::start(vec![reply; answers]),
        })
    }

    fn pull(&self) -> Output {
        let url = format!("{}/tiny.gguf", self.server.url());
        let models = self.folder.path("state/models");
        bounded(&["--force", "--dir", text(&models), &url])
    }

    /// Checks that root's own folder is unchanged.
    fn secret_is_kept(&self) {
        let secret = self.folder.path("secret");
        assert_eq!(fs::metadata(&secret).expect("it is there").uid(), 0);
        let found: Vec<_> = fs::read_dir(secret).expect("a folder").collect();
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn root_pulls_with_the_rights_of_the_folders_owner() {
    let Some(hostile) = Hostile::new(2) else {
        return;
    };
    let output = hostile.pull();
    assert!(output.status.success(), "{output:?}");
    for made in [
        "state/models",
        "state/models/tiny.gguf",
        "state/models/tiny.gguf.sha256",
    ] {
        let made = fs::metadata(hostile.folder.path(made)).expect("it is there");
        assert_eq!((made.uid(), made.gid()), (OTHER, OTHER));
    }

    let models = hostile.folder.path("state/models");
    fs::remove_dir_all(&models).expect("it is removed");
    symlink("../secret", &models).expect("a link");
    let text = failure(&hostile.pull(), 1);
    assert!(text.contains("as user 4321"), "{text}");
    hostile.secret_is_kept();
}

#[test]
fn a_folder_that_becomes_a_link_reveals_nothing_of_roots() {
    const TIMES: usize = 20;
    let Some(hostile) = Hostile::new(TIMES) else {
        return;
    };
    let state = hostile.folder.path("state");
    fs::create_dir(state.join("real")).expect("it is made");
    chown(state.join("real"), Some(OTHER), Some(OTHER)).expect("it is given");
    let swap = |target| {
        let _ = fs::remove_file(state.join("next"));
        symlink(target, state.join("next")).expect("a link");
        fs::rename(state.join("next"), state.join("models")).expect("it is swapped");
    };
    // It exists from the start, or a pull creates it: a link does not replace a folder.
    swap("real");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                swap("../secret");
                swap("real");
            }
        });
        for _ in 0..TIMES {
            hostile.pull();
        }
        done.store(true, Ordering::Relaxed);
    });
    hostile.secret_is_kept();
}

/// A link of another user does not make root copy files that only root may read.
#[test]
fn a_link_of_another_user_reveals_no_file_of_roots() {
    let Some(hostile) = Hostile::new(0) else {
        return;
    };
    let state = hostile.folder.path("state");
    fs::write(hostile.folder.path("secret/mine.gguf"), model()).expect("it is written");
    symlink("../secret/mine.gguf", state.join("theirs.gguf")).expect("a link");
    std::os::unix::fs::lchown(state.join("theirs.gguf"), Some(OTHER), Some(OTHER))
        .expect("it is given");
    let theirs = state.join("theirs.gguf");
    let message = failure(&bounded(&["--dir", text(&state), text(&theirs)]), 77);
    assert!(message.contains("a link of user 4321"), "{message}");

    // Root's own link is followed before the rights are dropped.
    let mine = hostile.folder.path("secret/mine.gguf");
    let output = bounded(&["--dir", text(&state), text(&mine)]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        fs::metadata(state.join("mine.gguf"))
            .expect("it is there")
            .uid(),
        OTHER
    );
}

#[test]
fn a_part_is_never_written_through_an_existing_file() {
    let bytes = model();
    let plants: [fn(&Folder); 4] = [
        |folder| {
            mkfifo(&folder.path("tiny.gguf.part"), Mode::S_IRWXU).expect("a pipe");
            mkfifo(&folder.path("tiny.gguf.part.etag"), Mode::S_IRWXU).expect("a pipe");
            mkfifo(&folder.path("tiny.gguf.sha256"), Mode::S_IRWXU).expect("a pipe");
        },
        |folder| {
            symlink("victim", folder.path("tiny.gguf.part")).expect("a link");
            symlink("victim", folder.path("tiny.gguf.part.etag")).expect("a link");
            symlink("victim", folder.path("tiny.gguf.sha256")).expect("a link");
        },
        |folder| {
            fs::hard_link(folder.path("victim"), folder.path("tiny.gguf.part")).expect("a link");
        },
        |folder| {
            // Reading it would take hours.
            let part = File::create(folder.path("tiny.gguf.part")).expect("a file");
            part.set_len(1 << 42).expect("a length");
        },
    ];
    for plant in plants {
        let server = Server::start(vec![Reply::file(&bytes)]);
        let folder = Folder::new();
        fs::write(folder.path("victim"), "victim").expect("it is written");
        plant(&folder);
        let url = format!("{}/tiny.gguf", server.url());
        let output = bounded(&["--dir", text(folder.0.path()), &url]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            fs::read(folder.path("victim")).expect("it is there"),
            b"victim"
        );
        fs::remove_file(folder.path("victim")).expect("it is removed");
        folder.holds("tiny.gguf", &bytes);
    }

    // Only a regular file with the model's name is read.
    let folder = Folder::new();
    mkfifo(&folder.path("tiny.gguf"), Mode::S_IRWXU).expect("a pipe");
    let sum = sha256(&bytes);
    let url = "http://127.0.0.1:9/tiny.gguf";
    let output = bounded(&["--sha256", &sum, "--dir", text(folder.0.path()), url]);
    assert!(failure(&output, 65).contains("it is not a regular file"));
}

#[test]
fn a_part_with_an_impossible_version_is_fetched_again() {
    let bytes = model();
    let server = Server::start(vec![Reply::file(&bytes)]);
    let folder = Folder::new();
    let url = format!("{}/tiny.gguf", server.url());
    fs::write(folder.path("tiny.gguf.part"), &bytes[..100]).expect("it is written");
    let etag = format!("{url}\n\"one\"{}", " ".repeat(5000));
    fs::write(folder.path("tiny.gguf.part.etag"), etag).expect("it is written");
    let output = bounded(&["--dir", text(folder.0.path()), &url]);
    assert!(output.status.success(), "{output:?}");
    folder.holds("tiny.gguf", &bytes);
    assert!(!server.requests()[0].to_lowercase().contains("range:"));
}

#[test]
fn an_answer_is_no_longer_than_it_should_be() {
    let bytes = model();
    let size = bytes.len().to_string();
    let endless = Reply::file(&bytes).unmeasured().endless();
    for (second, expected) in [
        (endless, "it has more than the"),
        // An announced length that is too large prevents the fetch.
        (
            Reply::file(&[bytes.clone(), bytes.clone()].concat()),
            "it was not fetched",
        ),
    ] {
        let server = Server::start(vec![
            Reply::redirect("/blob").header("X-Linked-Size", &size),
            second,
        ]);
        let folder = Folder::new();
        let url = format!("{}/tiny.gguf", server.url());
        let text = failure(&bounded(&["--dir", text(folder.0.path()), &url]), 65);
        assert!(text.contains(expected) && text.contains(&size), "{text}");
        assert_eq!(folder.files(), Vec::<String>::new());
    }
    // A known model has its known length.
    let server = Server::start(vec![Reply::file(b"").header("X-Linked-Size", "700000000")]);
    let folder = Folder::new();
    let output = Command::new(CTL)
        .args(["pull", "qwen3-0.6b", "--dir", text(folder.0.path())])
        .env("HF_ENDPOINT", server.url())
        .output()
        .expect("ganglionctl runs");
    assert!(failure(&output, 65).contains("at most 639446688 were expected"));
    assert_eq!(folder.files(), Vec::<String>::new());
}

#[test]
fn endless_redirects_are_refused() {
    let server = Server::start(vec![Reply::redirect("/again"); 20]);
    let folder = Folder::new();
    let url = format!("{}/tiny.gguf", server.url());
    let text = failure(&bounded(&["--dir", text(folder.0.path()), &url]), 69);
    assert!(text.contains("more than 10 redirects"), "{text}");
    assert_eq!(server.requests().len(), 11);
}

/// Names may come from others. Piped output has them unchanged.
#[test]
fn escape_sequences_in_names_do_not_reach_a_terminal() {
    let (from, to) = (Folder::new(), Folder::new());
    let name = "tiny\x1b[2J.gguf";
    fs::write(from.path(name), model()).expect("it is written");
    let from = from.path(name);
    let arguments = ["--dir", text(to.0.path()), text(&from)];
    let piped = bounded(&arguments);
    assert!(
        String::from_utf8_lossy(&piped.stdout).contains(name),
        "{piped:?}"
    );
    let wrong = "0".repeat(64);
    for sum in [sha256(&model()), wrong] {
        let pull = format!(
            "'{CTL}' pull --sha256 {sum} --dir '{}' '{}'",
            text(to.0.path()),
            text(&from)
        );
        let shown = Command::new("script")
            .args(["--quiet", "--command", &pull, "/dev/null"])
            .output()
            .expect("script runs");
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(
            shown.contains("is there") && !shown.contains('\x1b'),
            "{shown:?}"
        );
    }
}
