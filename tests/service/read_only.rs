//! Stored sessions on a disk that has become read-only.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ganglion::bus::Error;
use ganglion::bus::proxy::{Fields, SessionProxy};
use ganglion::files::{Disk, File, Files};
use ganglion::session_store::{Durability, Quota, Store};

use crate::support::daemon::{Client, Daemon};
use crate::support::stream::Reader;

/// The system's disk, which can be set read-only.
#[derive(Clone, Debug, Default)]
struct Mounted {
    read_only: Arc<AtomicBool>,
}

impl Mounted {
    fn read_only(&self, it_is: bool) {
        self.read_only.store(it_is, Ordering::Relaxed);
    }

    fn writes(&self) -> io::Result<()> {
        if self.read_only.load(Ordering::Relaxed) {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(())
    }
}

impl Files for Mounted {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.writes()?;
        Disk.make_folder(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        Disk.list(folder)
    }

    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn File>> {
        self.writes()?;
        Disk.open(path, new)
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Disk.open_to_read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.writes()?;
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.writes()?;
        Disk.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        Disk.sync_folder(folder)
    }

    fn user(&self) -> u32 {
        Disk.user()
    }
}

async fn start(disk: &Mounted, folder: &Path) -> Daemon {
    let daemon = Daemon::start("").await;
    let quota = Quota {
        sessions: 4,
        bytes: 1 << 20,
    };
    let store = Store::new(
        Arc::new(disk.clone()),
        folder.join("sessions"),
        Durability::Turn,
        quota,
    );
    daemon.engine.set_store(Arc::new(store.expect("a thread")));
    daemon
}

async fn open(client: &Client, name: &str) -> Result<SessionProxy<'static>, Error> {
    let options = Fields::from([("name", name.into())]);
    let path = client.manager.open_session(options).await?;
    Ok(client.session(path).await)
}

async fn say(session: &SessionProxy<'_>, text: &str) -> Result<(), Error> {
    let (_, stream) = session.send(text, Fields::new()).await?;
    assert_eq!(Reader::new(stream).answer().await.error, None);
    Ok(())
}

async fn texts(session: &SessionProxy<'_>) -> Vec<String> {
    let history = session.history().await.expect("it is read");
    history.into_iter().map(|(_, text)| text).collect()
}

/// To continue without storage, a client branches the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_read_and_branched_on_a_read_only_disk() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let disk = Mounted::default();
    let daemon = start(&disk, folder.path()).await;
    let client = daemon.client().await;
    let session = open(&client, "talk").await.unwrap();
    say(&session, "one").await.unwrap();
    drop((session, client, daemon));

    disk.read_only(true);
    let daemon = start(&disk, folder.path()).await;
    let client = daemon.client().await;
    let listed = client.manager.list_sessions().await.unwrap();
    assert!(!listed["talk"].contains_key("error"), "{listed:?}");
    let session = open(&client, "talk").await.unwrap();
    assert_eq!(texts(&session).await, ["one", "sim: one"]);
    assert_eq!(session.messages().await.unwrap().len(), 2);
    let seen = [("user", Fields::from([("content", "a door".into())]))];
    let refusals = [
        say(&session, "two").await,
        session.append(&seen).await,
        session.rewind(1).await,
        open(&client, "other").await.map(drop),
        client.manager.delete_session("talk").await,
    ];
    let [.., held] = &refusals;
    assert!(matches!(held, Err(Error::Busy(_))), "{held:?}");
    for refused in &refusals[..4] {
        match refused {
            Err(Error::EngineFailed(why)) => assert!(why.contains("sessions.directory"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(texts(&session).await, ["one", "sim: one"]);
    let branch = client.session(session.branch().await.unwrap()).await;
    say(&branch, "two").await.unwrap();
    assert_eq!(branch.turns().await.unwrap(), 2);

    disk.read_only(false);
    say(&session, "three").await.unwrap();
    drop((session, branch, client, daemon));
    let daemon = start(&disk, folder.path()).await;
    let session = open(&daemon.client().await, "talk").await.unwrap();
    assert_eq!(
        texts(&session).await,
        ["one", "sim: one", "three", "sim: three"]
    );
}
