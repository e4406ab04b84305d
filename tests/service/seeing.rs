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

/// A conversation of a reference.
struct Case {
    name: String,
    text: String,
    images: Vec<PathBuf>,
    /// The tokens of the prompt.
    ids: usize,
    greedy: Vec<u32>,
}

fn json(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// The cases with images of one file. Their texts and images may be in another one.
fn cases(stated: &Path, folder: &Path, texts: &Path) -> Vec<Case> {
    let (stated, texts) = (json(stated), json(texts));
    let list = |value: &Value| value.as_array().unwrap().clone();
    let (stated, texts) = (list(&stated["cases"]), list(&texts["cases"]));
    let case = |stated: &Value| {
        let said = texts.iter().find(|said| said["name"] == stated["name"])?;
        let images = list(&said["images"]);
        let images = images
            .iter()
            .map(|name| folder.join(name.as_str().unwrap()));
        let greedy = list(&stated["greedy"]);
        let greedy = greedy.iter().map(|id| u32::try_from(id.as_u64().unwrap()));
        Some(Case {
            name: stated["name"].to_string(),
            text: said["text"].as_str()?.to_owned(),
            images: images.collect(),
            ids: list(&stated["input_ids"]).len(),
            greedy: greedy.map(Result::unwrap).collect(),
        })
    };
    let cases = stated.iter().map(|stated| case(stated).expect("a text"));
    cases.filter(|case| !case.images.is_empty()).collect()
}

fn golden(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/vision");
    root.join(name)
}

/// The cases of a family in the repository.
fn stored_cases(family: &Family) -> Vec<Case> {
    let (name, folder) = (family.name, golden(family.name));
    let stated = golden(&format!("tiny-{name}.prompts.json"));
    cases(&stated, &folder, &folder.join("expected.json"))
}

fn family(name: &str) -> &'static Family {
    FAMILIES.iter().find(|family| family.name == name).unwrap()
}

/// A daemon with the model of a family.
struct Robot {
    bus: PrivateBus,
    folder: tempfile::TempDir,
    config: String,
    daemon: Option<Process>,
}

impl Robot {
    fn new(family: &Family, model: &Path, context: u32, folder: tempfile::TempDir) -> Self {
        let template = folder.path().join("template.jinja");
        std::fs::write(&template, family.templates[0]).expect("it is written");
        let config = format!(
            "backend = 'cpu'\nmodel.path = '{}'\nmodel.chat_template = '{}'\nkv.context = {context}\nkv.type = 'f32'\n\
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

    /// With the GGUF files in the repository, and another longest context: the tower is found next to the model.
    fn stored(family: &Family, context: u32) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |kind: &str| golden(&format!("tiny-{}.{kind}.gguf", family.name));
        let tower = folder.path().join("mmproj-F16.gguf");
        std::os::unix::fs::symlink(file("mmproj-f16"), tower).expect("a link");
        let mut model = std::fs::read(file("q8_0")).expect("a model");
        let key = b".context_length";
        let at = model.windows(key.len()).position(|bytes| bytes == key);
        // The number's type lies between the key and the number.
        let at = at.expect("the key") + key.len() + 4;
        model[at..at + 4].copy_from_slice(&context.to_le_bytes());
        let path = folder.path().join("model.q8_0.gguf");
        std::fs::write(&path, model).expect("it is written");
        Self::new(family, &path, context, folder)
    }

    async fn start(&mut self) -> Client {
        drop(self.daemon.take());
        assert!(self.folder.path().exists());
        self.daemon = Some(Process::serving(&self.bus, &self.config).await);
        Client::connect(&self.bus).await
    }
}

/// The parts of a reference's conversation.
fn parts(family: &Family, case: &Case) -> Vec<Fields<'static>> {
    let [before, after] = family.frame;
    let content = case
        .text
        .strip_prefix(before)
        .and_then(|text| text.strip_suffix(after));
    let content = content.expect("the frame of the family");
    let mut images = case.images.iter();
    let mut parts = Vec::new();
    for (number, text) in content.split(family.placeholder).enumerate() {
        if number > 0 {
            let file = File::open(images.next().unwrap()).expect("an image");
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

/// Asserts that a daemon's answers are those of the references.
async fn assert_answers(mut robot: Robot, family: &Family, cases: &[Case]) {
    let client = robot.start().await;
    let features = client.manager.features().await.expect("features");
    assert!(features.contains(&"images".to_owned()), "{features:?}");
    for case in cases {
        let what = format!("{} {}", family.name, case.name);
        let message = [said(parts(family, case))];
        let ask = async || {
            let (_, stream) = client
                .manager
                .generate(&message, greedy())
                .await
                .expect("it is taken");
            hear(stream).await
        };
        let first = ask().await;
        assert_eq!(first.prompt as usize, case.ids, "{what}");
        assert!(
            !first.tokens.is_empty() && case.greedy.starts_with(&first.tokens),
            "{what}: {first:?}, not {:?}",
            case.greedy
        );
        // The same image of the same user is in the cache.
        let again = ask().await;
        assert_eq!(again.tokens, first.tokens, "{what}");
        // Recurrent layers and windows continue at some positions alone.
        if family.name == "qwen3_vl" {
            assert!(again.cached as usize > case.ids / 2, "{what}: {again:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_about_images_are_those_of_transformers() {
    let family = family("gemma3");
    let cases = stored_cases(family);
    assert_eq!(cases.len(), 2, "one and wide");
    assert_answers(Robot::stored(family, 2048), family, &cases).await;
}

/// All families, where their references are unpacked.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_all_families_are_those_of_transformers() {
    let Some(root) = needs::towers() else {
        return;
    };
    for family in &FAMILIES {
        let model = root.join(format!("tiny-{}", family.name));
        let stated = model.join("golden.json");
        let cases = cases(&stated, &model, &stated);
        assert_eq!(cases.len(), 2, "one and wide");
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_answers(Robot::new(family, &model, 512, folder), family, &cases).await;
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
    let family = family("qwen3_vl");
    let cases = stored_cases(family);
    let mut robot = Robot::stored(family, 2048);
    let client = robot.start().await;
    let shows = |at: usize| parts(family, &cases[at]);
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
    let first = turn(&album, shows(0)).await;
    let second = turn(&album, shows(1)).await;
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
    let again = turn(&branch, shows(1)).await;
    assert_eq!(
        (again.tokens, again.prompt),
        (second.tokens.clone(), second.prompt)
    );
    assert!(again.cached > first.prompt, "{:?}", again.cached);
    let plain = open(&client, false).await;
    let shown = turn(&plain, shows(0)).await;
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
    if !needs::python() {
        return;
    }
    let mut robot = Robot::stored(family("gemma3"), 2048);
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
