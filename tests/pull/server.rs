//! A web server with scripted answers, which records the requests.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// One answer.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // a server's behaviours, in any combination
pub(super) struct Reply {
    status: String,
    headers: Vec<(String, String)>,
    bytes: Vec<u8>,
    tag: String,
    ranges: bool,
    heeds_if_range: bool,
    measured: bool,
    endless: bool,
    /// Closes the connection after that many bytes.
    cut: Option<usize>,
}

impl Reply {
    pub(super) fn file(bytes: &[u8]) -> Self {
        Self {
            status: "200 OK".into(),
            headers: Vec::new(),
            bytes: bytes.into(),
            tag: "\"one\"".into(),
            ranges: true,
            heeds_if_range: true,
            measured: true,
            endless: false,
            cut: None,
        }
    }

    pub(super) fn status(status: &str) -> Self {
        let reply = Self::file(b"").whole();
        Self {
            status: status.into(),
            ..reply
        }
    }

    pub(super) fn redirect(location: &str) -> Self {
        Self::status("302 Found").header("Location", location)
    }

    /// Closes the connection without an answer.
    pub(super) fn gone() -> Self {
        Self::status("")
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the version of the file; an empty one removes it.
    pub(super) fn tag(mut self, tag: &str) -> Self {
        self.tag = tag.into();
        self
    }

    /// Ignores ranges.
    pub(super) fn whole(mut self) -> Self {
        self.ranges = false;
        self
    }

    /// Continues with any version.
    pub(super) fn ignoring_if_range(mut self) -> Self {
        self.heeds_if_range = false;
        self
    }

    /// Does not announce its length.
    pub(super) fn unmeasured(mut self) -> Self {
        self.measured = false;
        self
    }

    /// Sends more data after the end, as long as the client reads.
    pub(super) fn endless(mut self) -> Self {
        self.endless = true;
        self
    }

    pub(super) fn cut(mut self, after: usize) -> Self {
        self.cut = Some(after);
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Answers a request with these headers; the client may have left.
    fn send(&self, to: &mut TcpStream, asked: &str) -> std::io::Result<()> {
        if self.status.is_empty() {
            return Ok(());
        }
        let asked = asked.to_lowercase();
        let header = |name: &str| {
            let line = asked.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim_start_matches(':').trim().to_owned())
        };
        let from = header("range").and_then(|range| {
            range
                .strip_prefix("bytes=")?
                .strip_suffix('-')?
                .parse()
                .ok()
        });
        let same = header("if-range").is_none_or(|tag| tag == self.tag.to_lowercase());
        let same = same || !self.heeds_if_range;
        let from: Option<usize> = from.filter(|_| self.ranges && same);
        let body = &self.bytes[from.unwrap_or(0)..];
        let status = match from {
            Some(_) => "206 Partial Content",
            None => &self.status,
        };
        let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if !self.tag.is_empty() {
            let _ = write!(head, "ETag: {}\r\n", self.tag);
        }
        if self.measured {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        if let Some(from) = from {
            let whole = self.bytes.len();
            let _ = write!(
                head,
                "Content-Range: bytes {from}-{}/{whole}\r\n",
                whole - 1
            );
        }
        to.write_all(format!("{head}\r\n").as_bytes())?;
        to.write_all(&body[..self.cut.unwrap_or(body.len())])?;
        if self.endless {
            loop {
                to.write_all(body)?;
            }
        }
        to.flush()
    }
}

/// Answers in the order of its replies, and then closes.
pub(super) struct Server {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(super) fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for (stream, reply) in listener.incoming().zip(replies) {
                let mut stream = stream.expect("a connection");
                let lines = BufReader::new(stream.try_clone().expect("a handle")).lines();
                let lines = lines
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty());
                let asked = lines.collect::<Vec<_>>().join("\n");
                seen.lock().expect("no panic").push(asked.clone());
                let _ = reply.send(&mut stream, &asked);
            }
        });
        Self { url, requests }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns all requests so far, in order.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}
