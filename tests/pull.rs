//! `ganglionctl pull` against a real HTTP server: a complete file has its final name, and an incomplete one does not.

mod hostile;
mod server;
#[cfg(feature = "cuda")]
mod setup;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use self::server::{Reply, Server};
use crate::support::needs;
use crate::support::tiny_gguf;

const CTL: &str = env!("CARGO_BIN_EXE_ganglionctl");

fn model() -> Vec<u8> {
    tiny_gguf::with_vocabulary().file()
}

fn sha256(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, bytes).expect("it is written");
    let sum = Command::new("sha256sum")
        .arg(file)
        .output()
        .expect("sha256sum runs");
    String::from_utf8_lossy(&sum.stdout)[..64].to_owned()
}

/// The folder of the models.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn pull(&self, arguments: &[&str]) -> Output {
        pull(self.0.path(), arguments, &[])
    }

    /// In order.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// The file is complete, with its checksum next to it.
    fn holds(&self, file: &str, bytes: &[u8]) {
        assert_eq!(self.files(), [file.to_owned(), format!("{file}.sha256")]);
        assert!(
            fs::read(self.path(file)).expect("it is there") == bytes,
            "{file} differs"
        );
        let recorded =
            fs::read_to_string(self.path(&format!("{file}.sha256"))).expect("it is recorded");
        assert_eq!(recorded, format!("{}  {file}\n", sha256(bytes)));
    }
}

fn pull(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(CTL);
    for proxy in [
        "http_proxy",
        "HTTP_PROXY",
        "all_proxy",
        "ALL_PROXY",
        "HF_TOKEN",
    ] {
        command.env_remove(proxy);
    }
    let output = command
        .args(["pull", "--retries", "1", "--dir"])
        .arg(folder)
        .args(arguments)
        .envs(environment.iter().copied())
        .output();
    output.expect("ganglionctl runs")
}

fn failure(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

#[test]
fn a_file_of_hugging_face_is_fetched_over_redirects_and_a_cut_connection() {
    let bytes = model();
    let half = bytes.len() / 2;
    let sum = sha256(&bytes);
    let server = Server::start(vec![
        Reply::redirect("/cdn/blob?signed=1").header("X-Linked-ETag", &format!("\"{sum}\"")),
        Reply::file(&bytes).cut(half),
        Reply::redirect("/cdn/blob?signed=2").header("X-Linked-ETag", &format!("\"{sum}\"")),
        Reply::file(&bytes),
    ]);
    let folder = Folder::new();
    let environment = [("HF_ENDPOINT", server.url()), ("HF_TOKEN", "secret")];
    let output = pull(folder.0.path(), &["owner/repo:tiny.gguf"], &environment);
    assert!(output.status.success(), "{output:?}");
    folder.holds("tiny.gguf", &bytes);
    let requests = server.requests();
    assert!(
        requests[0].starts_with("GET /owner/repo/resolve/main/tiny.gguf HTTP/1.1"),
        "{requests:?}"
    );
    assert!(requests[0].contains("Bearer secret"), "{requests:?}");
    assert!(
        requests[3]
            .to_lowercase()
            .contains(&format!("range: bytes={half}-")),
        "{requests:?}"
    );
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("as expected"),
        "{output:?}"
    );

    // The file exists: no request is sent.
    let again = pull(folder.0.path(), &["owner/repo:tiny.gguf"], &environment);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn a_second_run_resumes_or_starts_again() {
    let bytes = model();
    let third = bytes.len() / 3;
    let other: Vec<_> = bytes.iter().copied().chain([0; 64]).collect();
    for (second, ranged) in [
        (Reply::file(&bytes), true),
        // Ranges are ignored.
        (Reply::file(&bytes).whole(), true),
        // The file has changed in the meantime.
        (Reply::file(&other).tag("\"new\""), true),
    ] {
        let expected = second.bytes().to_vec();
        let server = Server::start(vec![
            Reply::file(&bytes).cut(third),
            Reply::gone(),
            Reply::gone(),
            second,
        ]);
        let folder = Folder::new();
        let url = format!("{}/tiny.gguf", server.url());
        let text = failure(&folder.pull(&[&url]), 69);
        assert!(
            text.contains(&format!("{third} bytes were received and kept")),
            "{text}"
        );
        assert!(!folder.path("tiny.gguf").exists());
        assert_eq!(
            fs::read(folder.path("tiny.gguf.part")).expect("a part"),
            bytes[..third]
        );

        let output = folder.pull(&[&url]);
        assert!(output.status.success(), "{output:?}");
        folder.holds("tiny.gguf", &expected);
        let last = server.requests().pop().expect("a request").to_lowercase();
        assert_eq!(
            last.contains(&format!("range: bytes={third}-")),
            ranged,
            "{last}"
        );
    }

    // Without a version the rest may belong to another file.
    let server = Server::start(vec![
        Reply::file(&bytes).tag("").cut(third),
        Reply::gone(),
        Reply::gone(),
        Reply::file(&bytes).tag(""),
    ]);
    let folder = Folder::new();
    let url = format!("{}/tiny.gguf", server.url());
    failure(&folder.pull(&[&url]), 69);
    assert!(folder.pull(&[&url]).status.success());
    folder.holds("tiny.gguf", &bytes);
    let last = server.requests().pop().expect("a request").to_lowercase();
    assert!(!last.contains("range:"), "{last}");
}

/// A part of one file is never continued with another, whatever the server sends.
#[test]
fn a_part_is_continued_with_the_same_thing_only() {
    let bytes = model();
    let third = bytes.len() / 3;
    let mut other = bytes.clone();
    *other.last_mut().expect("bytes") ^= 1;
    // One server continues with another version despite the condition; the other has another address.
    for (path, second) in [
        ("", Reply::file(&other).tag("\"new\"").ignoring_if_range()),
        ("/other", Reply::file(&other)),
    ] {
        let server = Server::start(vec![
            Reply::file(&bytes).cut(third),
            Reply::gone(),
            Reply::gone(),
            second.clone(),
            second,
        ]);
        let folder = Folder::new();
        failure(&folder.pull(&[&format!("{}/tiny.gguf", server.url())]), 69);
        let output = folder.pull(&[&format!("{}{path}/tiny.gguf", server.url())]);
        assert!(output.status.success(), "{output:?}");
        folder.holds("tiny.gguf", &other);
    }
}

#[test]
fn the_token_is_for_hugging_face_alone() {
    let bytes = model();
    let elsewhere = Server::start(vec![Reply::file(&bytes), Reply::file(&bytes)]);
    let endpoint = Server::start(vec![Reply::redirect(&format!(
        "{}/tiny.gguf",
        elsewhere.url()
    ))]);
    let environment = [("HF_ENDPOINT", endpoint.url()), ("HF_TOKEN", "secret")];
    for typed in [
        "owner/repo:tiny.gguf".to_owned(),
        format!("{}/tiny.gguf", elsewhere.url()),
    ] {
        let folder = Folder::new();
        let output = pull(folder.0.path(), &[&typed], &environment);
        assert!(output.status.success(), "{output:?}");
    }
    assert!(endpoint.requests()[0].contains("Bearer secret"));
    let headers = elsewhere.requests().concat();
    assert!(!headers.contains("secret"), "{headers}");
}

/// The first part of a split model stands for all, locally and on a server.
#[test]
fn all_parts_of_a_split_model_are_fetched_or_none() {
    let parts = tiny_gguf::with_vocabulary().parts(3);
    let name = |number: usize| format!("tiny-{number:05}-of-00003.gguf");
    let server = Server::start(parts.iter().map(|part| Reply::file(part)).collect());
    let folder = Folder::new();
    let url = format!("{}/{}", server.url(), name(1));
    let output = folder.pull(&[&url]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(folder.files().len(), 6, "{:?}", folder.files());

    // A damaged part leaves none of them.
    let source = Folder::new();
    for (number, part) in (1..).zip(&parts) {
        fs::write(source.path(&name(number)), part).expect("it is written");
    }
    let cut = &parts[2][..parts[2].len() - 64];
    fs::write(source.path(&name(3)), cut).expect("it is written");
    let other = Folder::new();
    let first = source.path(&name(1));
    let text = failure(&other.pull(&[first.to_str().expect("UTF-8")]), 65);
    assert!(text.contains("does not fit the file"), "{text}");
    assert_eq!(other.files(), Vec::<String>::new());
    let second = source.path(&name(2));
    let text = failure(&other.pull(&[second.to_str().expect("UTF-8")]), 2);
    assert!(
        text.contains(&format!("name its first part, {}", name(1))),
        "{text}"
    );
}

#[test]
fn a_file_with_another_checksum_is_not_kept() {
    let bytes = model();
    let wrong = "0".repeat(64);
    let page = b"<html>Sign in</html>";
    let cases: [(Reply, &[&str], &str); 3] = [
        (
            Reply::file(&bytes),
            &["--sha256", &wrong],
            "was expected: it was deleted",
        ),
        (
            Reply::file(&bytes).header("X-Linked-ETag", &format!("\"{wrong}\"")),
            &[],
            "was expected: it was deleted",
        ),
        (
            Reply::file(page),
            &[],
            "is not a model that this release can run, and was deleted",
        ),
    ];
    for (reply, arguments, expected) in cases {
        let server = Server::start(vec![reply]);
        let folder = Folder::new();
        let url = format!("{}/tiny.gguf", server.url());
        let text = failure(&folder.pull(&[arguments, &[url.as_str()]].concat()), 65);
        assert!(text.contains(expected), "{text}");
        assert_eq!(folder.files(), Vec::<String>::new());
    }
    // A known name stands for one file, whatever a mirror has.
    let sum = "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031";
    let server = Server::start(vec![
        Reply::file(&bytes).header("X-Linked-ETag", &format!("\"{}\"", sha256(&bytes))),
    ]);
    let folder = Folder::new();
    let mirror = [("HF_ENDPOINT", server.url())];
    let text = failure(&pull(folder.0.path(), &["qwen3-0.6b"], &mirror), 65);
    assert!(
        text.contains(&format!("{sum} was expected: it was not fetched")),
        "{text}"
    );
    assert_eq!(folder.files(), Vec::<String>::new());
    assert!(!server.requests()[0].contains("main"));

    for (status, expected) in [
        ("404 Not Found", "does the file exist?"),
        ("401 Unauthorized", "set HF_TOKEN"),
    ] {
        let server = Server::start(vec![Reply::status(status)]);
        let folder = Folder::new();
        let url = format!("{}/tiny.gguf", server.url());
        let text = failure(&folder.pull(&[&url]), 69);
        assert!(text.contains(expected), "{text}");
        assert!(!folder.path("tiny.gguf").exists());
    }
}

/// A file system of 64 KiB, in its own namespace.
#[test]
fn a_full_disk_is_named_and_leaves_no_half_file() {
    let large = vec![7; 200_000];
    for (reply, expected) in [
        (Reply::file(&large), "MiB are missing and 0 MiB are free"),
        // Without a length the error comes when the disk is full.
        (Reply::file(&large).unmeasured(), "No space left on device"),
    ] {
        let server = Server::start(vec![reply]);
        let folder = Folder::new();
        let script = format!(
            "mount -t tmpfs -o size=64k tmpfs {0} && {CTL} pull --retries 0 --dir {0} {1}/tiny.gguf; code=$?; ls -A {0}; exit $code",
            folder.0.path().display(),
            server.url()
        );
        let output = Command::new("unshare")
            .args(["-rm", "sh", "-c", &script])
            .output()
            .expect("unshare runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if text.contains("unshare") || text.contains("mount:") {
            needs::skipped(&format!("namespaces are not allowed: {text}"));
            return;
        }
        let text = failure(&output, 1);
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("--dir"), "{text}");
        let left = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!left.lines().any(|file| file == "tiny.gguf"), "{left}");
    }
}

#[test]
fn local_files_and_names_are_accepted() {
    let bytes = model();
    let (from, to) = (Folder::new(), Folder::new());
    fs::write(from.path("mine.gguf"), &bytes).expect("it is written");
    let output = to.pull(&[from.path("mine.gguf").to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{output:?}");
    to.holds("mine.gguf", &bytes);

    // The path works from any folder.
    let relative = Command::new(CTL)
        .args(["pull", "--dir", ".", "--force"])
        .arg(from.path("mine.gguf"))
        .current_dir(to.0.path())
        .output()
        .expect("ganglionctl runs");
    let printed = String::from_utf8_lossy(&relative.stdout).into_owned();
    assert!(Path::new(printed.trim()).is_absolute(), "{relative:?}");

    let list = to.pull(&["--list"]);
    let list = String::from_utf8(list.stdout).expect("text");
    assert!(
        list.contains("qwen3-4b") && list.contains("not measured"),
        "{list}"
    );
    let text = failure(&to.pull(&["qwen9"]), 2);
    assert!(text.contains("qwen3-4b"), "{text}");
}
