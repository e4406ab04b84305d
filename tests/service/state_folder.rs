//! Foreign entries in the state folder: the daemon never blocks on them, follows them or reads them completely.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ganglion::bus::Error;
use ganglion::bus::proxy::{Fields, SessionProxy};
use ganglion::files::Disk;
use ganglion::model::{Message, Role};
use ganglion::session_store::{Durability, Entry, Name, Quota, Store, Tokens, Turn};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::support::daemon::{Client, eventually};
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::stream::Reader;

/// More bytes than any disk here has.
const HUGE: u64 = 100 << 30;

/// Puts something in the place of a file.
type Put = fn(&Path);

/// The kind of the entry.
const STRANGERS: [(&str, Put); 5] = [
    ("fifo", |path| mkfifo(path, Mode::S_IRWXU).expect("a FIFO")),
    ("socket", |path| {
        drop(UnixListener::bind(path).expect("a socket"));
    }),
    ("zero", |path| symlink("/dev/zero", path).expect("a link")),
    ("out", |path| symlink("/etc/passwd", path).expect("a link")),
    ("folder", |path| fs::create_dir(path).expect("a folder")),
];

fn sparse(path: &Path) {
    let file = File::create(path).expect("a file");
    file.set_len(HUGE).expect("it is long");
}

struct Robot {
    bus: PrivateBus,
    folder: tempfile::TempDir,
}

impl Robot {
    fn new() -> Self {
        Self {
            bus: PrivateBus::start(),
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("sessions")
    }

    /// The folder of the user that runs the tests.
    fn own(&self) -> PathBuf {
        self.root().join(nix::unistd::getuid().to_string())
    }

    async fn start(&self, more: &str) -> (Process, Client) {
        let config = format!("sessions.directory = '{}'\n{more}", self.root().display());
        let daemon = eventually(Process::start(&self.bus, "", &config)).await;
        (daemon, Client::connect(&self.bus).await)
    }
}

async fn open(client: &Client, name: &str) -> Result<SessionProxy<'static>, Error> {
    let options = Fields::from([("name", name.into())]);
    let path = eventually(client.manager.open_session(options)).await?;
    Ok(client.session(path).await)
}

async fn say(session: &SessionProxy<'_>, text: &str) {
    let (_, stream) = session.send(text, Fields::new()).await.expect("it is sent");
    let answer = Reader::new(stream).answer().await;
    assert_eq!((answer.error, answer.text), (None, format!("sim: {text}")));
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_entries_delay_no_call() {
    let robot = Robot::new();
    let own = robot.own();
    fs::create_dir_all(&own).expect("a folder");
    for (name, put) in STRANGERS {
        // Only users remove a folder.
        let ends = ["session", "new", "pages", "pages-new"];
        for end in &ends[..if name == "folder" { 1 } else { ends.len() }] {
            put(&own.join(format!("{name}.{end}")));
        }
    }
    mkfifo(&own.join("index"), Mode::S_IRWXU).expect("a FIFO");
    mkfifo(&robot.root().join("pages-written"), Mode::S_IRWXU).expect("a FIFO");
    for end in ["session", "pages"] {
        sparse(&own.join(format!("huge.{end}")));
    }
    // A user's folder that is a link to another's.
    symlink(&own, robot.root().join("4242")).expect("a link");

    let (daemon, client) = robot.start("").await;
    let before = daemon.peak().expect("it runs");
    let listed = eventually(client.manager.list_sessions())
        .await
        .expect("it is listed");
    for (name, _) in STRANGERS {
        let one = &listed[name];
        assert!(
            one.contains_key("damaged") && !one.contains_key("error"),
            "{name}: {one:?}"
        );
    }
    let error = <&str>::try_from(&*listed["huge"]["error"])
        .expect("why")
        .to_owned();
    assert!(error.contains("sessions.mib_per_user"), "{error}");
    assert!(error.contains(&HUGE.to_string()), "{error}");
    let refused = open(&client, "huge").await;
    assert!(
        matches!(refused, Err(Error::EngineFailed(_))),
        "{refused:?}"
    );
    for (name, _) in STRANGERS {
        let session = open(&client, name).await.expect("it begins anew");
        say(&session, "hello").await;
        session.close().await.expect("it is let go");
        let deleted = eventually(client.manager.delete_session(name)).await;
        // A folder is left to its users.
        assert_eq!(deleted.is_ok(), name != "folder", "{name}: {deleted:?}");
    }
    eventually(client.manager.delete_session("huge"))
        .await
        .expect("it is deleted");
    assert!(!own.join("huge.session").exists() && !own.join("huge.pages").exists());
    let grown = daemon.peak().expect("it runs") - before;
    assert!(grown < 64 << 20, "{grown} bytes were read at once");
}

/// A session of one turn that began and ended at these times.
fn session(store: &Store, user: u32, name: &str) {
    let name = Name::new(name).expect("a name");
    let system = Message::new(Role::System, "be brief");
    let stored = store.create(user, &name, vec![system], serde_json::Map::new());
    let turn = Turn {
        // The clock had lost the year by then.
        at: 7,
        dropped: 0,
        messages: vec![Message::new(Role::User, "what is there? ".repeat(100))],
        answer: Message::new(Role::Assistant, "a wall"),
        partial: false,
        thinking: None,
        tools: None,
        tokens: Tokens {
            kept: 0,
            prompt: (0..400).collect(),
            answer: Some(vec![7, 8]),
            said: 2,
        },
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    store.append(
        &stored.expect("it is made"),
        Entry::Turn(Box::new(turn)),
        move |result| {
            drop(sender.send(result));
        },
    );
    receiver.recv().expect("a result").expect("it is kept");
}

/// As many as a user may have. The first call after a start does not wait for their files. `used` is not before
/// `began`, even with a wrong clock.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_sessions_are_listed_at_once_after_a_start() {
    const MANY: usize = 4096;
    let robot = Robot::new();
    let user = nix::unistd::getuid().as_raw();
    let quota = Quota {
        sessions: MANY,
        bytes: 1 << 30,
    };
    let store = Store::new(Arc::new(Disk), robot.root(), Durability::Relaxed, quota);
    let store = store.expect("a thread");
    for n in 0..MANY {
        session(&store, user, &format!("talk{n}"));
    }
    // It ends like after kill -9.
    std::mem::forget(store);
    let limits = "sessions.per_user = 4096\nsessions.mib_per_user = 1024\n";
    for start in ["the first", "the second"] {
        let (daemon, client) = robot.start(limits).await;
        let listed = eventually(client.manager.list_sessions())
            .await
            .expect("listed");
        assert_eq!(listed.len(), MANY, "after {start} start");
        for (name, one) in &listed {
            let number = |key: &str| u64::try_from(&one[key]).expect("a number");
            assert!(
                number("used") >= number("began") && number("began") > 7,
                "{name}: {one:?}"
            );
            assert_eq!(u32::try_from(&one["turns"]).expect("a number"), 1, "{name}");
        }
        drop(daemon);
    }
}
