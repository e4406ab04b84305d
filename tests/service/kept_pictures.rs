//! Images of named sessions: the file has them only if the session keeps its pictures.

use std::collections::HashMap;
use std::io::Write as _;
use std::os::fd::OwnedFd;

use ganglion::bus::proxy::{Fields, Info, SessionProxy};
use ganglion::telemetry::Usage;
use nix::sys::memfd::{MFdFlags, memfd_create};
use zbus::{Fd, Variant};

use crate::support::daemon::Client;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::stream::Reader;

const PIXELS: &[u8] = b"pixels of a page";

fn fields<'a, const N: usize>(entries: [(&'a str, Variant<'a>); N]) -> Fields<'a> {
    Fields::from(entries)
}

/// A message with an image between two words.
fn shows() -> (&'static str, Fields<'static>) {
    let file = memfd_create("image", MFdFlags::MFD_ALLOW_SEALING).expect("a memfd");
    let mut file = std::fs::File::from(file);
    file.write_all(PIXELS).expect("it is written");
    let image = fields([
        ("image", Fd::Owned(OwnedFd::from(file)).into()),
        ("format", "gray8".into()),
        ("width", 4u32.into()),
        ("height", 4u32.into()),
    ]);
    let text = |text: &'static str| fields([("text", text.into())]);
    let parts = vec![text("one "), image, text("two")];
    ("user", fields([("parts", parts.into())]))
}

async fn ask(session: &SessionProxy<'_>) -> Usage {
    let sent = session.reply(&[shows()], fields([])).await;
    let answer = Reader::new(sent.expect("it is sent").1).answer().await;
    assert_eq!((answer.error, &*answer.text), (None, "sim: one two"));
    answer.usage
}

/// Opens a session of this name; its file keeps pictures if the name is "album".
async fn open(client: &Client, name: &'static str) -> SessionProxy<'static> {
    let mut options = fields([("name", name.into())]);
    if name == "album" {
        options.insert("keep_pictures", true.into());
    }
    let path = client.manager.open_session(options).await;
    client.session(path.expect("it is opened")).await
}

/// The places of the images of each message, and the indexes of those that are lost.
async fn places(session: &SessionProxy<'_>) -> Vec<[Vec<u32>; 2]> {
    let messages = session.messages().await.expect("they are read");
    let numbers = |fields: &Info, name: &str| {
        let numbers = fields.get(name).cloned();
        numbers.map_or_else(Vec::new, |numbers| Vec::try_from(numbers).expect("numbers"))
    };
    let places =
        |(_, fields): &(String, Info)| ["images", "lost_images"].map(|name| numbers(fields, name));
    messages.iter().map(places).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_has_the_images_of_a_session_that_keeps_them() {
    let bus = PrivateBus::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sessions = folder.path().join("sessions");
    let config = format!("sessions.directory = '{}'\n", sessions.display());
    let daemon = Process::start(&bus, "images=1", &config).await;
    let client = Client::connect(&bus).await;
    let shown = || [vec![4], vec![]];
    for name in ["album", "notes"] {
        let session = open(&client, name).await;
        let usage = ask(&session).await;
        assert_eq!((usage.prompt_tokens, usage.lost_images), (3, 0), "{name}");
        session.append(&[shows()]).await.expect("it is appended");
        let expected = [shown(), Default::default(), shown()];
        assert_eq!(places(&session).await, expected, "{name}");
    }
    drop((client, daemon));

    let user = std::fs::read_dir(&sessions).expect("a folder").next();
    let user = user
        .expect("the folder of a user")
        .expect("it is read")
        .path();
    let files = ["album", "notes"].map(|name| {
        let file = std::fs::read(user.join(format!("{name}.session")));
        String::from_utf8_lossy(&file.expect("a file")).into_owned()
    });
    // PIXELS in base64.
    let stored = files.map(|file| file.matches("cGl4ZWxzIG9mIGEgcGFnZQ==").count());
    assert_eq!(stored, [2, 0]);

    let daemon = Process::start(&bus, "images=1", &config).await;
    let client = Client::connect(&bus).await;
    let lost: HashMap<_, _> = [("album", 0), ("notes", 2)].into();
    for (name, lost) in lost {
        let session = open(&client, name).await;
        let gone = if lost > 0 { vec![0] } else { vec![] };
        let expected = [[vec![4], gone.clone()], Default::default(), [vec![4], gone]];
        assert_eq!(places(&session).await, expected, "{name}");
        let usage = ask(&session).await;
        assert_eq!(usage.lost_images, lost, "{name}");
        session.clear().await.expect("it is cleared");
        assert_eq!(ask(&session).await.lost_images, 0, "{name}");
    }
    drop((client, daemon));
}
