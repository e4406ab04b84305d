//! `models` and `use`: list the models, mark the served one, switch to another, and remove one.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::{Finished, run, text};
use crate::support::needs;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::tiny_gguf;

/// A daemon that serves `tiny.gguf` from a folder with other files.
struct Kept {
    bus: PrivateBus,
    folder: TempDir,
    daemon: Process,
}

impl Kept {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let model = tiny_gguf::with_vocabulary().file();
        for (name, content) in [
            ("tiny.gguf", &model[..]),
            ("other.gguf", &model),
            ("other.gguf.sha256", b"0"),
            ("junk.gguf", b"no model"),
            ("late.gguf.part", &model[..100]),
            ("notes.txt", b"mine"),
        ] {
            fs::write(folder.path().join(name), content).expect("it is written");
        }
        let bus = PrivateBus::start();
        let model = folder.path().join("tiny.gguf");
        let config = format!(
            "backend = 'cpu'\nmodel.path = '{}'\nkv.context = 64\n",
            model.display()
        );
        let daemon = Process::serving(&bus, &config).await;
        Self {
            bus,
            folder,
            daemon,
        }
    }

    async fn run(&self, verb: &[&str], more: &[&str]) -> Finished {
        let config = self.daemon.config();
        let place = ["--dir", text(self.folder.path()), "--config", text(&config)];
        run(&[&["--bus", self.bus.text()], verb, &place, more].concat()).await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the listed names and states.
    async fn states(&self) -> Vec<(String, Option<String>)> {
        let list = self.run(&["models"], &["--json"]).await;
        let list: Vec<Value> = serde_json::from_str(&list.stdout).expect("JSON");
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let states = list
            .iter()
            .map(|one| (text(&one["name"]).expect("a name"), text(&one["state"])));
        states.collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed_used_and_removed() {
    let kept = Kept::new().await;
    let list = kept.run(&["models"], &[]).await;
    let rows: Vec<Vec<_>> = list
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    for (row, expected) in rows.iter().zip([
        &["name", "size", "format"][..],
        &["junk.gguf", "0.0", "MB", "unusable:"],
        &["late.gguf.part", "0.0", "MB", "incomplete:"],
        &["other.gguf", "0.3", "MB", "F32"],
        &["tiny.gguf", "0.3", "MB", "F32"],
    ]) {
        let alike = row.iter().zip(expected).filter(|(cell, of)| {
            // The size of the tiny model does not matter.
            cell == of || of.starts_with("0.")
        });
        assert_eq!(alike.count(), expected.len(), "{row:?}: {list:?}");
    }
    assert_eq!(rows.len(), 5, "{list:?}");
    assert_eq!(rows[4].last(), Some(&"served"), "{list:?}");

    for (name, code, why) in [
        ("tiny.gguf", 1, "is served: sudo ganglionctl use ANOTHER"),
        ("none.gguf", 65, "does not exist"),
        ("../notes.txt", 2, "is not a name in the folder"),
        ("..", 2, "is not a name in the folder"),
    ] {
        let refused = kept.run(&["models", "remove", name], &[]).await;
        assert_eq!(refused.code, Some(code), "{refused:?}");
        assert!(refused.stderr.contains(why), "{refused:?}");
    }
    let junk = kept.run(&["use", "junk.gguf"], &[]).await;
    assert_eq!(junk.code, Some(65), "{junk:?}");
    let drop_in = kept.daemon.config().with_file_name("gangliond.toml.d");
    assert!(!drop_in.exists());

    let used = kept.run(&["use", "other"], &[]).await;
    assert_eq!(used.code, Some(0), "{used:?}");
    assert!(used.stderr.contains("other.gguf is active"), "{used:?}");
    assert!(drop_in.join("50-setup.toml").exists());
    let states = kept.states().await;
    let served: Vec<_> = states.iter().filter(|(_, state)| state.is_some()).collect();
    assert_eq!(
        served,
        [&("other.gguf".to_owned(), Some("served".to_owned()))]
    );

    let gone = kept.run(&["models", "remove", "tiny.gguf"], &[]).await;
    assert_eq!(gone.code, Some(0), "{gone:?}");
    let gone = kept.run(&["models", "remove", "late.gguf"], &[]).await;
    assert_eq!(gone.code, Some(0), "{gone:?}");
    let left = kept.states().await;
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(kept.path("other.gguf.sha256").exists() && kept.path("notes.txt").exists());
}

/// A failed switch changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn use_leaves_the_configuration_as_it_was_where_it_fails() {
    let kept = Kept::new().await;
    let drop_ins = kept.daemon.config().with_file_name("gangliond.toml.d");
    fs::create_dir(&drop_ins).expect("it is made");
    let setup = drop_ins.join("50-setup.toml");
    let before = "[model]\npath = \"tiny.gguf\"\n\n[kv]\nmemory_mib = 2\n";
    fs::write(&setup, before).expect("it is written");
    let planned = kept.run(&["use", "other.gguf"], &["--dry-run"]).await;
    assert!(planned.stdout.contains("memory_mib = 2"), "{planned:?}");
    assert!(planned.stdout.contains("other.gguf"), "{planned:?}");

    let later = drop_ins.join("60-local.toml");
    for (says, why) in [
        (
            format!("model.path = '{}'\n", text(&kept.path("tiny.gguf"))),
            "remove that line",
        ),
        // Longer than the model's training context.
        (
            "kv.context = 1000000\n".to_owned(),
            "is more than the 512 positions",
        ),
        // Longer than fits into any machine: the daemon refuses it.
        (
            "kv.memory_mib = 1000000\n".to_owned(),
            "keeps the previous model",
        ),
    ] {
        fs::write(&later, says).expect("it is written");
        let used = kept.run(&["use", "other.gguf"], &[]).await;
        assert!(
            used.code != Some(0) && used.stderr.contains(why),
            "{used:?}"
        );
        assert_eq!(fs::read_to_string(&setup).expect("it is there"), before);
    }
}

/// The folder's owner cannot make root remove another user's files.
#[tokio::test(flavor = "multi_thread")]
async fn root_removes_as_the_folders_owner_and_follows_no_link() {
    const OTHER: u32 = 4321;
    if !needs::root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
    };
    mode(folder.path(), 0o755);
    let [theirs, secret] = ["theirs", "secret"].map(|name| folder.path().join(name));
    for made in [&theirs, &secret] {
        fs::create_dir(made).expect("it is made");
    }
    mode(&secret, 0o755);
    chown(&theirs, Some(OTHER), Some(OTHER)).expect("it is given");
    let dear = secret.join("a.gguf");
    fs::write(&dear, "dear").expect("it is written");
    symlink(&secret, theirs.join("models")).expect("a link");
    symlink(&dear, theirs.join("file.gguf")).expect("a link");
    symlink(&secret, theirs.join("folder.gguf")).expect("a link");
    let real = theirs.join("real");
    fs::create_dir(&real).expect("it is made");
    symlink(&secret, real.join("within")).expect("a link");
    chown(&real, Some(OTHER), Some(OTHER)).expect("it is given");

    let remove = async |dir: &Path, name: &str| {
        let bus = "unix:path=/nonexistent/bus";
        let place = ["--dir", text(dir), "--config", "/nonexistent.toml"];
        run(&[&["--bus", bus, "models", "remove", name][..], &place].concat()).await
    };
    let refused = remove(&theirs.join("models"), "a.gguf").await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("as user 4321"), "{refused:?}");
    for name in ["file.gguf", "folder.gguf", "real"] {
        let removed = remove(&theirs, name).await;
        assert_eq!(removed.code, Some(0), "{removed:?}");
        assert!(fs::symlink_metadata(theirs.join(name)).is_err(), "{name}");
    }
    assert_eq!(fs::read_to_string(&dear).expect("it is kept"), "dear");
    assert_eq!(fs::metadata(&dear).expect("it is kept").uid(), 0);
}
