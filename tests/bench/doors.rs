//! Measures the doors of a running daemon: the time to the first text, and the texts per second of one and of eight callers.
//!
//! Run `cargo run --release --example doors -- DOOR...`, where a DOOR is `bus:ADDRESS` (D-Bus), `unix:PATH` (HTTP on a UNIX
//! socket) or `tcp:HOST:PORT` (HTTP, also of another server). Doors take turns, so that all see the same machine. After
//! `--next-to PATH` 500 connections to that socket send their requests as slowly as they may, and connect again when they
//! are closed. The program prints figures; it judges nothing. The greedy answers of the doors of one daemon are equal.

use std::io;
use std::time::{Duration, Instant};

use ganglion::bus::Frame;
use ganglion::bus::proxy::{Fields, ManagerProxy};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, UnixStream, unix::pipe};

/// Rounds of all doors.
const ROUNDS: usize = 3;
/// Questions of each caller in a round.
const QUESTIONS: usize = 4;
const TOKENS: u32 = 128;
/// Slow connections.
const SLOW: usize = 500;

/// Where requests go.
enum Door {
    Bus(ManagerProxy<'static>),
    Unix(String),
    Tcp(String),
}

/// One answer.
struct Heard {
    first: Duration,
    /// Parts of the text; one token each where nothing is coalesced.
    tokens: u32,
    text: String,
}

/// The figures of a door with a number of callers.
#[derive(Default)]
struct Figures {
    firsts: Vec<f64>,
    per_second: Vec<f64>,
}

#[tokio::main]
async fn main() {
    let mut given: Vec<_> = std::env::args().skip(1).collect();
    if let [flag, path, ..] = &*given
        && flag == "--next-to"
    {
        for _ in 0..SLOW {
            tokio::spawn(send_slowly(path.clone()));
        }
        given.drain(..2);
    }
    if given.is_empty() {
        eprintln!("doors DOOR...: bus:ADDRESS, unix:PATH or tcp:HOST:PORT");
        std::process::exit(2);
    }
    let mut doors = Vec::new();
    for door in &given {
        doors.push(Door::open(door).await.expect("a door"));
    }
    println!(
        "callers  first text, ms: median      p99   tokens/s in all   answers that differ   door"
    );
    for callers in [1, 8] {
        let mut figures: Vec<Figures> = doors.iter().map(|_| Figures::default()).collect();
        let mut answers: Vec<Vec<String>> = vec![Vec::new(); doors.len()];
        for round in 0..ROUNDS {
            for (at, door) in doors.iter().enumerate() {
                let begun = Instant::now();
                let all = (0..callers).map(|caller| door.talk(round, caller));
                let heard: Vec<_> = futures_util::future::join_all(all).await;
                let took = begun.elapsed().as_secs_f64();
                let heard = || heard.iter().flatten();
                let tokens: u32 = heard().map(|heard| heard.tokens).sum();
                figures[at].per_second.push(f64::from(tokens) / took);
                let firsts = heard().map(|heard| 1e3 * heard.first.as_secs_f64());
                figures[at].firsts.extend(firsts);
                answers[at].extend(heard().map(|heard| heard.text.clone()));
            }
        }
        for (at, door) in given.iter().enumerate() {
            let pairs = answers[at].iter().zip(&answers[0]);
            let differ = pairs.filter(|(one, other)| one != other).count();
            let Figures { firsts, per_second } = &mut figures[at];
            firsts.sort_by(f64::total_cmp);
            per_second.sort_by(f64::total_cmp);
            println!(
                "{callers:>7} {:>23.2} {:>8.2} {:>17.1} {differ:>16} of {:>3}   {door}",
                firsts[firsts.len() / 2],
                firsts[firsts.len() * 99 / 100],
                per_second[per_second.len() / 2],
                answers[at].len(),
            );
        }
    }
}

impl Door {
    async fn open(text: &str) -> io::Result<Self> {
        let (kind, place) = text.split_once(':').unwrap_or((text, ""));
        Ok(match kind {
            "unix" => Self::Unix(place.to_owned()),
            "tcp" => Self::Tcp(place.to_owned()),
            "bus" => {
                let bus = zbus::connection::Builder::address(place).build().await;
                let bus = bus.map_err(io::Error::other)?;
                let manager = ManagerProxy::new(&bus).await;
                Self::Bus(manager.map_err(io::Error::other)?)
            }
            _ => return Err(io::Error::other(format!("{text}: unknown door"))),
        })
    }

    /// The questions of a caller, one after the other.
    async fn talk(&self, round: usize, caller: usize) -> Vec<Heard> {
        let mut all = Vec::new();
        for number in 0..QUESTIONS {
            // Doors ask the same, so each question is new to the daemon's cache at the first door alone: the number of the
            // round comes first, and the cache of a few rounds is the same for all.
            let question = format!("{round} {caller} {number}: tell me a story about a robot.");
            all.push(self.ask(&question).await.expect("an answer"));
        }
        all
    }

    async fn ask(&self, question: &str) -> io::Result<Heard> {
        match self {
            Self::Bus(manager) => over_bus(manager, question).await,
            Self::Unix(path) => over_http(UnixStream::connect(path).await?, question).await,
            Self::Tcp(address) => over_http(TcpStream::connect(address).await?, question).await,
        }
    }
}

/// Begins requests, and sends a byte of each now and then.
async fn send_slowly(path: String) {
    let begin = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    loop {
        if let Ok(mut stream) = UnixStream::connect(&path).await {
            let mut next: &[u8] = begin;
            while stream.write_all(next).await.is_ok() {
                next = b" ";
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn over_bus(manager: &ManagerProxy<'_>, question: &str) -> io::Result<Heard> {
    let begun = Instant::now();
    let message = Fields::from([("content", question.into())]);
    let options = Fields::from([("max_tokens", TOKENS.into()), ("temperature", 0.0.into())]);
    let asked = manager.generate(&[("user", message)], options).await;
    let (_, stream) = asked.map_err(io::Error::other)?;
    let stream = pipe::Receiver::from_owned_fd(stream.into())?;
    let mut lines = BufReader::new(stream).lines();
    let (mut first, mut text) = (None, String::new());
    while let Some(line) = lines.next_line().await? {
        match Frame::from_line(&line)? {
            Frame::Text { text: part, .. } => {
                first.get_or_insert_with(|| begun.elapsed());
                text += &part;
            }
            Frame::Done { usage, .. } => {
                let (first, tokens) = (first.unwrap_or_default(), usage.completion_tokens);
                return Ok(Heard {
                    first,
                    tokens,
                    text,
                });
            }
            _ => {}
        }
    }
    Err(io::Error::other("the stream ended early"))
}

async fn over_http<S>(mut stream: S, question: &str) -> io::Result<Heard>
where
    S: AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let begun = Instant::now();
    let body = json!({
        "model": "default",
        "messages": [{"role": "user", "content": question}],
        "max_tokens": TOKENS,
        "temperature": 0,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await?;
    let mut lines = BufReader::new(stream).lines();
    let (mut first, mut text, mut tokens) = (None, String::new(), 0);
    // Lines of chunks' lengths are between the lines of events.
    while let Some(line) = lines.next_line().await? {
        let Some(event) = line.strip_prefix("data: ") else {
            continue;
        };
        if event.starts_with("[DONE]") {
            let first = first.unwrap_or_default();
            return Ok(Heard {
                first,
                tokens,
                text,
            });
        }
        let chunk: Value = serde_json::from_str(event)?;
        if let Some(part) = chunk["choices"][0]["delta"]["content"].as_str()
            && !part.is_empty()
        {
            first.get_or_insert_with(|| begun.elapsed());
            text += part;
        }
        if let Some(count) = chunk["usage"]["completion_tokens"].as_u64() {
            tokens = u32::try_from(count).map_err(io::Error::other)?;
        }
    }
    Err(io::Error::other(format!("the answer ended early: {text}")))
}
