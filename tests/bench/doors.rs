//! Measures the doors of a running daemon: the time to the first text, the time between texts, and the tokens per second of
//! one, four and eight callers.
//!
//! Run `cargo run --release --example doors -- [OPTION...] DOOR...`, where a DOOR is `bus:ADDRESS` (D-Bus), `unix:PATH` (HTTP
//! on a UNIX socket) or `tcp:HOST:PORT` (HTTP, also of another server). Doors take turns, so that all see the same machine.
//! The program prints figures; it judges nothing. The greedy answers of the doors of one daemon are equal.
//!
//! Each caller has a connection of its own to the bus, and over HTTP one for each request: the daemon shares its time among
//! connections, so callers of one connection would have another order of prompts.
//!
//! - `--tokens N`: tokens of each answer
//! - `--process PID`: also prints the processor time of that process for each token
//! - `--slow PATH`: 500 connections to that socket send their requests as slowly as they may, and connect again when they are
//!   closed
//! - `--hostile PATH`: 500 connections to that socket send all that the tests of attacks send, and read nothing
//!
//! Without a DOOR the attacks run until the program is ended, so that they can have another user and another priority. Give them
//! another user: the daemon refuses the connections of a user who has too many.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ganglion::bus::Frame;
use ganglion::bus::proxy::{Fields, ManagerProxy};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, UnixStream, unix::pipe};

#[path = "../support/http_openings.rs"]
mod http_openings;

/// The numbers of callers.
const CALLERS: [usize; 3] = [1, 4, 8];
/// Rounds of all doors, after one whose times do not count.
const ROUNDS: usize = 3;
/// Questions of each caller in a round.
const QUESTIONS: usize = 4;
/// Connections of an attack.
const CONNECTIONS: usize = 500;

/// The arguments.
struct Arguments {
    tokens: u32,
    process: Option<u32>,
    doors: Vec<String>,
}

/// Where the requests of a caller go.
enum Door {
    Bus(ManagerProxy<'static>),
    Unix(String),
    Tcp(String),
}

/// One answer.
struct Heard {
    begun: Instant,
    /// The time of each part of the text: one token each where nothing is coalesced.
    parts: Vec<Instant>,
    tokens: u32,
    text: String,
}

/// The figures of a door with a number of callers.
#[derive(Default)]
struct Figures {
    /// Milliseconds to the first text.
    firsts: Vec<f64>,
    /// Milliseconds between two texts.
    gaps: Vec<f64>,
    /// Tokens per second of each round.
    per_second: Vec<f64>,
    /// Microseconds of processor time for each token, of each round.
    processor: Vec<f64>,
    /// The answers of the round that does not count.
    answers: Vec<String>,
}

#[tokio::main]
async fn main() {
    let Some(arguments) = arguments() else {
        eprintln!(
            "doors [--tokens N] [--process PID] [--slow PATH] [--hostile PATH] DOOR...: bus:ADDRESS, unix:PATH or \
             tcp:HOST:PORT"
        );
        std::process::exit(2);
    };
    if arguments.doors.is_empty() {
        std::future::pending::<()>().await;
    }
    let mut doors = Vec::new();
    for door in &arguments.doors {
        let of_callers = (0..CALLERS[CALLERS.len() - 1]).map(|_| Door::open(door));
        let opened = futures_util::future::try_join_all(of_callers).await;
        doors.push(opened.expect("a door"));
    }
    println!(
        "callers   first text, ms: median      p99   between texts: median      p99   tokens/s in all   processor us/token   \
         differ   door"
    );
    for callers in CALLERS {
        let mut figures: Vec<Figures> = doors.iter().map(|_| Figures::default()).collect();
        for round in 0..=ROUNDS {
            for (at, door) in doors.iter().enumerate() {
                // The questions of the first round are the same for all doors. Later ones are new to the daemon's cache.
                let asker = if round == 0 { 0 } else { at + 1 };
                let before = processor_time(arguments.process);
                let begun = Instant::now();
                let all = door.iter().take(callers).enumerate().map(|(caller, door)| {
                    door.talk(format!("{asker} {round} {caller}"), arguments.tokens)
                });
                let heard: Vec<_> = futures_util::future::join_all(all).await;
                let took = begun.elapsed();
                let used = before.zip(processor_time(arguments.process));
                let used = used.map(|(before, after)| after.saturating_sub(before));
                let heard = heard.into_iter().flatten();
                figures[at].add(round == 0, heard, took, used);
            }
        }
        for (at, door) in arguments.doors.iter().enumerate() {
            let pairs = figures[at].answers.iter().zip(&figures[0].answers);
            let differ = pairs.filter(|(one, other)| one != other).count();
            figures[at].print(callers, differ, door);
        }
    }
}

/// Reads the arguments, and begins the attacks.
fn arguments() -> Option<Arguments> {
    let mut arguments = Arguments {
        tokens: 128,
        process: None,
        doors: Vec::new(),
    };
    let mut is_attacked = false;
    let mut given = std::env::args().skip(1);
    while let Some(one) = given.next() {
        match &*one {
            "--tokens" => arguments.tokens = given.next()?.parse().ok()?,
            "--process" => arguments.process = Some(given.next()?.parse().ok()?),
            "--slow" | "--hostile" => {
                let path = given.next()?;
                is_attacked = true;
                let openings = Arc::new(http_openings::openings());
                for number in 0..CONNECTIONS {
                    let path = path.clone();
                    if one == "--slow" {
                        tokio::spawn(send_slowly(path));
                    } else {
                        tokio::spawn(send_wrongly(path, openings.clone(), number));
                    }
                }
            }
            option if option.starts_with('-') => return None,
            _ => arguments.doors.push(one),
        }
    }
    (is_attacked || !arguments.doors.is_empty()).then_some(arguments)
}

/// Returns the processor time that a process has used.
fn processor_time(process: Option<u32>) -> Option<Duration> {
    /// The unit of the file, the same on all Linux machines.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process?)).ok()?;
    // The name of the program may have spaces.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<_> = fields.split(' ').collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u32>().ok();
    // utime and stime of proc_pid_stat(5), whose field 3 is the first here.
    Some(TICK * (ticks(11)? + ticks(12)?))
}

impl Figures {
    /// Adds a round of a door.
    fn add(
        &mut self,
        is_first: bool,
        heard: impl Iterator<Item = Heard>,
        took: Duration,
        used: Option<Duration>,
    ) {
        let mut tokens = 0;
        for heard in heard {
            if is_first {
                self.answers.push(heard.text);
                continue;
            }
            tokens += heard.tokens;
            let first = heard
                .parts
                .first()
                .map_or(took, |first| *first - heard.begun);
            self.firsts.push(1e3 * first.as_secs_f64());
            let pairs = heard.parts.windows(2);
            self.gaps
                .extend(pairs.map(|pair| 1e3 * (pair[1] - pair[0]).as_secs_f64()));
        }
        if is_first {
            return;
        }
        self.per_second.push(f64::from(tokens) / took.as_secs_f64());
        if let Some(used) = used {
            self.processor
                .push(1e6 * used.as_secs_f64() / f64::from(tokens));
        }
    }

    fn print(&mut self, callers: usize, differ: usize, door: &str) {
        println!(
            "{callers:>7} {:>24.2} {:>8.2} {:>23.3} {:>8.2} {:>17.1} {:>20.0} {differ:>3} of {:<3} {door}",
            percentile(&mut self.firsts, 50),
            percentile(&mut self.firsts, 99),
            percentile(&mut self.gaps, 50),
            percentile(&mut self.gaps, 99),
            percentile(&mut self.per_second, 50),
            percentile(&mut self.processor, 50),
            self.answers.len(),
        );
    }
}

/// Returns a percentile; NaN of nothing.
fn percentile(of: &mut [f64], percent: usize) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() * percent / 100)
        .copied()
        .unwrap_or(f64::NAN)
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
    async fn talk(&self, caller: String, tokens: u32) -> Vec<Heard> {
        let mut all = Vec::new();
        for number in 0..QUESTIONS {
            let question = format!("{caller} {number}: tell me a story about a robot.");
            all.push(self.ask(&question, tokens).await.expect("an answer"));
        }
        all
    }

    async fn ask(&self, question: &str, tokens: u32) -> io::Result<Heard> {
        match self {
            Self::Bus(manager) => over_bus(manager, question, tokens).await,
            Self::Unix(path) => over_http(UnixStream::connect(path).await?, question, tokens).await,
            Self::Tcp(address) => {
                over_http(TcpStream::connect(address).await?, question, tokens).await
            }
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

/// Sends an attack of the tests, holds the connection for a while, and connects again.
async fn send_wrongly(path: String, openings: Arc<Vec<String>>, number: usize) {
    for number in number.. {
        if let Ok(mut stream) = UnixStream::connect(&path).await {
            let opening = &openings[number % openings.len()];
            let sends = stream.write_all(opening.as_bytes());
            let _ = tokio::time::timeout(Duration::from_secs(1), sends).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn over_bus(manager: &ManagerProxy<'_>, question: &str, most: u32) -> io::Result<Heard> {
    let begun = Instant::now();
    let message = Fields::from([("content", question.into())]);
    let options = Fields::from([("max_tokens", most.into()), ("temperature", 0.0.into())]);
    let asked = manager.generate(&[("user", message)], options).await;
    let (_, stream) = asked.map_err(io::Error::other)?;
    let stream = pipe::Receiver::from_owned_fd(stream.into())?;
    let mut lines = BufReader::new(stream).lines();
    let (mut parts, mut text) = (Vec::new(), String::new());
    while let Some(line) = lines.next_line().await? {
        match Frame::from_line(&line)? {
            Frame::Text { text: part, .. } => {
                parts.push(Instant::now());
                text += &part;
            }
            Frame::Done { usage, .. } => {
                return Ok(Heard {
                    begun,
                    parts,
                    tokens: usage.completion_tokens,
                    text,
                });
            }
            _ => {}
        }
    }
    Err(io::Error::other("the stream ended early"))
}

async fn over_http<S>(mut stream: S, question: &str, most: u32) -> io::Result<Heard>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let begun = Instant::now();
    let body = json!({
        "model": "default",
        "messages": [{"role": "user", "content": question}],
        "max_tokens": most,
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
    let (mut parts, mut text, mut tokens) = (Vec::new(), String::new(), 0);
    // Lines of chunks' lengths are between the lines of events.
    while let Some(line) = lines.next_line().await? {
        let Some(event) = line.strip_prefix("data: ") else {
            continue;
        };
        if event.starts_with("[DONE]") {
            return Ok(Heard {
                begun,
                parts,
                tokens,
                text,
            });
        }
        let chunk: Value = serde_json::from_str(event)?;
        if let Some(part) = chunk["choices"][0]["delta"]["content"].as_str()
            && !part.is_empty()
        {
            parts.push(Instant::now());
            text += part;
        }
        if let Some(count) = chunk["usage"]["completion_tokens"].as_u64() {
            tokens = u32::try_from(count).map_err(io::Error::other)?;
        }
    }
    Err(io::Error::other(format!("the answer ended early: {text}")))
}
