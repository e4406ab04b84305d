//! A bus that checks nothing: the daemon receives a client's messages unchanged, with their sender.
//!
//! dbus-daemon 1.12 forwards unknown header fields in this way; 1.13 and later remove them. This bus serves one daemon
//! and clients that exist as names only, and implements only the methods that the daemon calls.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ganglion::bus::NAME;

use super::daemon::EVENTUALLY;
use super::wire::{
    BUS, CALL, DESTINATION, Frames, Message, REPLY_SERIAL, RETURN, Received, SENDER, Value, later,
    read_line,
};

/// The daemon's name on the bus.
const DAEMON: &str = ":1.0";

/// Listens until the test ends.
pub(crate) struct UncheckedBus {
    address: String,
    shared: Arc<Shared>,
    _folder: tempfile::TempDir,
}

#[derive(Default)]
struct Shared {
    /// `None` until the daemon has connected.
    daemon: Mutex<Option<UnixStream>>,
    clients: Mutex<HashMap<String, Known>>,
    /// Whether the bus ignores the daemon's messages.
    paused: AtomicBool,
    /// The recipients of the daemon's answers, in order.
    answered: Mutex<Vec<String>>,
}

struct Known {
    user: u32,
    mail: Sender<Received>,
}

impl UncheckedBus {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = folder.path().join("bus");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let shared = Arc::new(Shared::default());
        let serving = shared.clone();
        thread::spawn(move || {
            for daemon in listener.incoming().flatten() {
                // After a disconnect the daemon may connect again.
                let _ = serving.serve(daemon);
            }
        });
        Self {
            address: format!("unix:path={}", socket.display()),
            shared,
            _folder: folder,
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.address
    }

    /// Returns once the daemon has connected.
    pub(crate) fn wait_for_daemon(&self) {
        let late = later(EVENTUALLY);
        while self.shared.daemon.lock().unwrap().is_none() {
            assert!(!late(), "the daemon does not connect");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops or resumes reading the daemon's messages.
    pub(crate) fn pause_reading(&self, paused: bool) {
        self.shared.paused.store(paused, Ordering::SeqCst);
    }

    /// Returns the recipients of the daemon's answers, in order.
    pub(crate) fn answered(&self) -> Vec<String> {
        self.shared.answered.lock().unwrap().clone()
    }

    /// Returns a client of that user.
    pub(crate) fn client(&self, user: u32) -> UncheckedClient {
        let (mail, received) = channel();
        let mut clients = self.shared.clients.lock().unwrap();
        let name = format!(":1.{}", clients.len() + 1);
        clients.insert(name.clone(), Known { user, mail });
        UncheckedClient {
            name,
            received,
            shared: self.shared.clone(),
            serial: 0,
        }
    }
}

impl Shared {
    /// Answers the daemon's own calls, and delivers its answers.
    fn serve(&self, daemon: UnixStream) -> io::Result<()> {
        authenticate(&daemon)?;
        let mut frames = Frames::new(daemon.try_clone()?)?;
        *self.daemon.lock().unwrap() = Some(daemon);
        loop {
            while self.paused.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
            let Some(received) = frames.next(Duration::from_millis(100))? else {
                continue;
            };
            let to = received.destination.clone();
            if received.kind == CALL && to == BUS {
                self.answer(&received)?;
            } else if to == NAME || to == DAEMON {
                self.bring_back(&received)?;
            } else if let Some(client) = self.clients.lock().unwrap().get(&to) {
                self.answered.lock().unwrap().push(to);
                let _ = client.mail.send(received);
            }
        }
    }

    fn answer(&self, call: &Received) -> io::Result<()> {
        let argument = call.text().unwrap_or_default();
        let reply = Message::new(RETURN)
            .field(REPLY_SERIAL, call.serial.into())
            .field(DESTINATION, DAEMON.into())
            .field(SENDER, BUS.into());
        let user = || {
            self.clients
                .lock()
                .unwrap()
                .get(&argument)
                .map(|known| known.user)
        };
        let reply = match &*call.member {
            "Hello" | "GetNameOwner" => reply.with(DAEMON),
            "RequestName" | "ReleaseName" => reply.with(1),
            "GetConnectionUnixUser" => reply.with(user().unwrap_or(0)),
            "NameHasOwner" => reply.with(Value::Bool(true)),
            _ => reply,
        };
        self.write(reply)
    }

    /// Returns a message to the daemon, which calls itself to check its connection.
    fn bring_back(&self, received: &Received) -> io::Result<()> {
        let mut message = if received.kind == CALL {
            Message::call(NAME, &received.path, &received.interface, &received.member)
        } else {
            Message::new(RETURN)
                .field(REPLY_SERIAL, received.reply_to.into())
                .field(DESTINATION, DAEMON.into())
        };
        message.serial = received.serial;
        self.write(message.field(SENDER, DAEMON.into()))
    }

    fn write(&self, mut message: Message) -> io::Result<()> {
        message.serial = message.serial.max(1);
        let daemon = self.daemon.lock().unwrap();
        let mut daemon = daemon.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        daemon.write_all(&message.bytes())
    }
}

/// Authenticates as the server and accepts every client.
fn authenticate(mut socket: &UnixStream) -> io::Result<()> {
    loop {
        let line = read_line(socket)?;
        let line = line.trim_start_matches('\0');
        let answer = match line.split(' ').next() {
            Some("AUTH") => "OK 0123456789abcdef0123456789abcdef\r\n",
            Some("NEGOTIATE_UNIX_FD") => "AGREE_UNIX_FD\r\n",
            Some("BEGIN") => return Ok(()),
            _ => "ERROR\r\n",
        };
        socket.write_all(answer.as_bytes())?;
    }
}

/// A client of a `UncheckedBus`.
pub(crate) struct UncheckedClient {
    pub(crate) name: String,
    received: Receiver<Received>,
    shared: Arc<Shared>,
    serial: u32,
}

impl UncheckedClient {
    /// Sends a message unchanged except for the sender, and returns its serial.
    pub(crate) fn send(&mut self, mut message: Message) -> io::Result<u32> {
        if message.serial == 0 {
            self.serial += 1;
            message.serial = self.serial;
        }
        let serial = message.serial;
        self.shared
            .write(message.field(SENDER, self.name.as_str().into()))?;
        Ok(serial)
    }

    /// Returns the answer to a call, or `None` after that time.
    pub(crate) fn reply(&self, serial: u32, within: Duration) -> Option<Received> {
        let late = later(within);
        while !late() {
            let received = self.received.recv_timeout(within).ok()?;
            if received.reply_to == serial {
                return Some(received);
            }
        }
        None
    }
}
