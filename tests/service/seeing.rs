//! A model with a vision tower behind the bus: its answers are those of transformers, also in a session and after a restart.

#![allow(clippy::similar_names)] // an image and its images

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use ganglion::bus::Frame;
use ganglion::bus::proxy::{Fields, SessionProxy};
use serde_json::Value;
use zbus::{Fd, OwnedFd, Variant};

use crate::support::daemon::Client;
use crate::support::needs;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::stream::Reader;
use crate::text::images::{FAMILIES, Family};

fn fields<'a, const N: usize>(entries: [(&'a str, Variant<'a>); N]) -> Fields<'a> {
    Fields::from(entries)
}

/// The folder of the references of towers, if they are unpacked.
fn root() -> Option<PathBuf> {
    let root = std::env::var_os("GANGLION_VISION_GOLDENS");
    let root = root.map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/vision"),
        PathBuf::from,
    );
    if root.exists() {
        return Some(root);
    }
    needs::missing(
        "target/vision",
        "unpack the references of vision towers there",
    );
    None
}

/// A daemon with the model of a family.
struct Robot {
    bus: PrivateBus,
    folder: tempfile::TempDir,
    config: String,
    daemon: Option<Process>,
}

impl Robot {
    fn new(family: &Family, model: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let template = folder.path().join("template.jinja");
        std::fs::write(&template, family.templates[0]).expect("it is written");
        let config = format!(
            "backend = 'cpu'\nmodel.path = '{}'\nmodel.chat_template = '{}'\nkv.context = 512\nkv.type = 'f32'\n\
             sampling.from_model = false\nsessions.directory = '{}'\n",
            model.display(),
            template.display(),
            folder.path().join("sessions").display()
        );
        Self {
            bus: PrivateBus::start(),
            folder,
            config,
            daemon: None,
        }
    }

    async fn start(&mut self) -> Client {
        drop(self.daemon.take());
        assert!(self.folder.path().exists());
        self.daemon = Some(Process::serving(&self.bus, &self.config).await);
        Client::connect(&self.bus).await
    }
}

/// The parts of a reference's conversation.
fn parts(family: &Family, folder: &Path, case: &Value) -> Vec<Fields<'static>> {
    let [before, after] = family.frame;
    let text = case["text"].as_str().unwrap();
    let content = text
        .strip_prefix(before)
        .and_then(|text| text.strip_suffix(after));
    let content = content.expect("the frame of the family");
    let mut images = case["images"].as_array().unwrap().iter();
    let mut parts = Vec::new();
    for (number, text) in content.split(family.placeholder).enumerate() {
        if number > 0 {
            let name = images.next().unwrap().as_str().unwrap();
            let file = File::open(folder.join(name)).expect("an image");
            parts.push(fields([("image", Fd::Owned(file.into()).into())]));
        }
        if !text.is_empty() {
            parts.push(fields([("text", text.to_owned().into())]));
        }
    }
    parts
}

/// An answer: its tokens, and the tokens of its prompt and those of them that were cached.
#[derive(Debug, PartialEq)]
struct Heard {
    tokens: Vec<u32>,
    prompt: u32,
    cached: u32,
}

async fn hear(stream: OwnedFd) -> Heard {
    let mut reader = Reader::new(stream);
    let mut tokens = Vec::new();
    loop {
        match reader.next().await.expect("a frame") {
            Frame::Text { logprobs, .. } => tokens.extend(logprobs.iter().map(|one| one.token)),
            Frame::Done {
                usage,
                error,
                message,
                ..
            } => {
                assert_eq!((error, message), (None, None));
                let (prompt, cached) = (usage.prompt_tokens, usage.cached_tokens);
                return Heard {
                    tokens,
                    prompt,
                    cached,
                };
            }
            other => panic!("{other:?}"),
        }
    }
}

fn greedy() -> Fields<'static> {
    fields([
        ("temperature", 0.0.into()),
        ("max_tokens", 12u32.into()),
        ("logprobs", 0u32.into()),
    ])
}

fn said(parts: Vec<Fields<'static>>) -> (&'static str, Fields<'static>) {
    ("user", fields([("parts", parts.into())]))
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_about_images_are_those_of_transformers() {
    let Some(root) = root() else {
        return;
    };
    for family in &FAMILIES {
        let folder = root.join(format!("tiny-{}", family.name));
        let stated = std::fs::read(folder.join("golden.json")).expect("references");
        let stated: Value = serde_json::from_slice(&stated).unwrap();
        let mut robot = Robot::new(family, &folder);
        let client = robot.start().await;
        let features = client.manager.features().await.expect("features");
        assert!(features.contains(&"images".to_owned()), "{features:?}");
        for case in stated["cases"].as_array().unwrap() {
            let what = format!("{} {}", family.name, case["name"]);
            if case["images"].as_array().unwrap().is_empty() {
                continue;
            }
            let ids = case["input_ids"].as_array().unwrap().len();
            let expected = case["greedy"].as_array().unwrap().iter();
            let expected = expected.map(|id| u32::try_from(id.as_u64().unwrap()).unwrap());
            let expected: Vec<_> = expected.collect();
            let message = [said(parts(family, &folder, case))];
            let (_, stream) = client
                .manager
                .generate(&message, greedy())
                .await
                .expect("it is taken");
            let first = hear(stream).await;
            assert_eq!(first.prompt as usize, ids, "{what}");
            assert!(
                !first.tokens.is_empty() && expected.starts_with(&first.tokens),
                "{what}: {first:?}, not {expected:?}"
            );
            // The same image of the same user is in the cache.
            let (_, stream) = client
                .manager
                .generate(&message, greedy())
                .await
                .expect("it is taken");
            let again = hear(stream).await;
            assert_eq!(again.tokens, first.tokens, "{what}");
            // Recurrent layers and windows continue at some positions alone.
            if family.name == "qwen3_vl" {
                assert!(again.cached as usize > ids / 2, "{what}: {again:?}");
            }
        }
    }
}

async fn turn(session: &SessionProxy<'_>, parts: Vec<Fields<'static>>) -> Heard {
    let (_, stream) = session
        .reply(&[said(parts)], greedy())
        .await
        .expect("it is taken");
    hear(stream).await
}

/// A session with an image has the same answers whether the daemon was restarted, or the session branched or rewound.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_remembers_its_images() {
    let Some(root) = root() else {
        return;
    };
    let family = FAMILIES
        .iter()
        .find(|family| family.name == "qwen3_vl")
        .unwrap();
    let folder = root.join("tiny-qwen3_vl");
    let stated = std::fs::read(folder.join("golden.json")).expect("references");
    let stated: Value = serde_json::from_slice(&stated).unwrap();
    let mut robot = Robot::new(family, &folder);
    let client = robot.start().await;
    let shows = |at: usize| parts(family, &folder, &stated["cases"][at]);
    let text = || vec![fields([("text", "And now?".into())])];
    let open = async |client: &Client, keeps: bool| {
        let name = if keeps { "album" } else { "plain" };
        let options = fields([("name", name.into()), ("keep_pictures", keeps.into())]);
        let path = client
            .manager
            .open_session(options)
            .await
            .expect("a session");
        client.session(path).await
    };
    let album = open(&client, true).await;
    let first = turn(&album, shows(1)).await;
    let second = turn(&album, shows(2)).await;
    // All of the first turn is in the cache.
    assert!(
        second.cached as usize >= first.prompt as usize + first.tokens.len() - 1,
        "{second:?}"
    );
    let branch = album.branch().await.expect("a branch");
    let branch = client.session(branch).await;
    let third = turn(&branch, text()).await;
    assert!(third.cached >= second.prompt, "{third:?}");
    // Rewound turns leave the images before it in the cache.
    branch.rewind(2).await.expect("it is rewound");
    let again = turn(&branch, shows(2)).await;
    assert_eq!(
        (again.tokens, again.prompt),
        (second.tokens.clone(), second.prompt)
    );
    assert!(again.cached > first.prompt, "{:?}", again.cached);
    let plain = open(&client, false).await;
    let shown = turn(&plain, shows(1)).await;
    assert_eq!(shown.tokens, first.tokens);
    drop((client, album, branch, plain));

    let client = robot.start().await;
    let album = open(&client, true).await;
    let restored = turn(&album, text()).await;
    assert_eq!(
        (restored.tokens, restored.prompt),
        (third.tokens, third.prompt)
    );
    let plain = open(&client, false).await;
    let lost = turn(&plain, text()).await;
    assert_ne!(lost.prompt, 0);
    // A text stands for the rows of the image.
    let texts = plain.messages().await.expect("messages");
    assert!(texts[0].1.contains_key("lost_images"), "{texts:?}");
}

/// The example watches the frames of a file, and acts on answers that fit its schema.
#[tokio::test(flavor = "multi_thread")]
async fn a_python_program_watches_frames() {
    let Some(root) = root().filter(|_| needs::python()) else {
        return;
    };
    let family = FAMILIES.iter().find(|one| one.name == "qwen3_vl").unwrap();
    let mut robot = Robot::new(family, &root.join("tiny-qwen3_vl"));
    robot.start().await;
    let frames = robot.folder.path().join("frames.yuv");
    let pixels: Vec<u8> = (0..3 * 64 * 48 * 2)
        .map(|at: u32| (at % 251) as u8)
        .collect();
    std::fs::write(&frames, pixels).expect("it is written");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let done = Command::new(sources.join("target/venv/bin/python"))
        .arg(sources.join("tests/clients/python/watcher.py"))
        .arg(&frames)
        .args(["5", "64", "48"])
        .env("DBUS_SYSTEM_BUS_ADDRESS", robot.bus.text())
        .output()
        .expect("python runs");
    let said = String::from_utf8_lossy(&done.stdout);
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}{why}");
    assert_eq!(said.matches("-> the robot ").count(), 3, "{said}");
}
