//! Honest clients: the times of their first tokens and pings, and the correctness of their answers.
//!
//! The bus itself gets pings at the same times, as a lower bound of all other times.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ganglion::bus::proxy::{Fields, ManagerProxy};
use ganglion::bus::{Frame, NAME, PATH};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::time::{sleep, timeout_at};
use zbus::proxy::CacheProperties;
use zbus::{Connection, OwnedFd, Variant};

use crate::Failed;

const TOKENS: u32 = 8;
/// The schema of guided clients, and enough tokens for an answer.
const SCHEMA: &str = r#"{"type": "object", "properties": {"metres": {"type": "integer", "minimum": 0, "maximum": 9},
    "fast": {"type": "boolean"}}, "required": ["metres", "fast"], "additionalProperties": false}"#;
const GUIDED_TOKENS: u32 = 32;
const PAUSE: Duration = Duration::from_millis(50);
/// The cheapest calls of the daemon and of `dbus-daemon`: name, path, interface and member.
const DAEMON: [&str; 4] = [NAME, PATH, "org.freedesktop.DBus.Peer", "Ping"];
const BUS: [&str; 4] = [
    "org.freedesktop.DBus",
    "/org/freedesktop/DBus",
    "org.freedesktop.DBus",
    "GetId",
];
/// The time for late answers after the end.
const LATE: Duration = Duration::from_secs(10);

/// The results of the requests and pings of all clients.
#[derive(Default)]
struct Seen {
    first_tokens: Vec<Duration>,
    pings: Vec<Duration>,
    /// Answers that differ from the first to the same question.
    wrong: usize,
    /// Streams that ended without their last frame.
    lost: usize,
    /// Calls without an answer at the end. Their waits are among the times.
    unanswered: usize,
    /// Errors by name, with the losses of the bus or the daemon.
    errors: BTreeMap<String, usize>,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(seconds: &str, clients: &str, guided: &str) -> Result<(), Failed> {
    let until = Instant::now() + Duration::from_secs(seconds.parse()?);
    let guided = guided.parse()?;
    let clients =
        join_all((0..clients.parse()?).map(|number| talk(number, number < guided, until)));
    let (talked, pinged, mut bus) = tokio::join!(clients, ping(DAEMON, until), ping(BUS, until));
    let mut seen = pinged;
    for (error, count) in std::mem::take(&mut bus.errors) {
        *seen.errors.entry(format!("bus {error}")).or_default() += count;
    }
    for one in talked {
        seen.first_tokens.extend(one.first_tokens);
        seen.wrong += one.wrong;
        seen.lost += one.lost;
        seen.unanswered += one.unanswered;
        for (error, count) in one.errors {
            *seen.errors.entry(error).or_default() += count;
        }
    }
    println!("first {}", spread(&mut seen.first_tokens));
    println!("ping {}", spread(&mut seen.pings));
    println!("bus {}", spread(&mut bus.pings));
    println!(
        "wrong {} lost {} unanswered {}",
        seen.wrong, seen.lost, seen.unanswered
    );
    for (error, count) in &seen.errors {
        println!("error {count} {error}");
    }
    Ok(())
}

/// Formats the median, the 99th percentile and the maximum in milliseconds, and the number.
fn spread(times: &mut [Duration]) -> String {
    times.sort();
    let at = |percent: usize| {
        let time = times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
        time.map_or_else(
            || "-".to_owned(),
            |time| format!("{:.1}", time.as_secs_f64() * 1e3),
        )
    };
    format!(
        "p50 {} p99 {} max {} of {}",
        at(50),
        at(99),
        at(100),
        times.len()
    )
}

/// Connects to the bus. The bus ends connections whose handshake takes too long or that are too many, independent of the
/// daemon, so this tries again after longer and longer waits.
async fn reach() -> zbus::Result<Connection> {
    loop {
        match Connection::system().await {
            Err(zbus::Error::InputOutput(error)) if error.kind() == ErrorKind::ConnectionReset => {
                sleep(PAUSE).await;
            }
            reached => return reached,
        }
    }
}

async fn manager() -> zbus::Result<(Connection, ManagerProxy<'static>)> {
    let connection = reach().await?;
    let manager = ManagerProxy::builder(&connection).cache_properties(CacheProperties::No);
    let manager = manager.build().await?;
    Ok((connection, manager))
}

/// Asks the same question repeatedly, with a schema if the client is guided.
async fn talk(number: usize, guided: bool, until: Instant) -> Seen {
    let mut seen = Seen::default();
    let question = format!("Count from {number} upwards, in words.");
    let mut expected: Option<String> = None;
    while Instant::now() < until {
        let begun = Instant::now();
        match timeout_at((until + LATE).into(), ask(&question, guided)).await {
            Err(_) => {
                seen.first_tokens.push(begun.elapsed());
                seen.unanswered += 1;
            }
            Ok(Err(error)) => {
                *seen.errors.entry(short(&error.to_string())).or_default() += 1;
                sleep(PAUSE).await;
            }
            Ok(Ok((first, text))) => {
                seen.first_tokens.extend(first.map(|first| first - begun));
                match text {
                    None => seen.lost += 1,
                    Some(text) => {
                        let fits = !guided || fits(&text);
                        let same = expected.get_or_insert(text.clone()) == &text;
                        seen.wrong += usize::from(!(fits && same));
                    }
                }
            }
        }
    }
    seen
}

/// Returns whether an answer fits the schema, by another JSON parser.
fn fits(text: &str) -> bool {
    let Ok(Value::Object(answer)) = serde_json::from_str(text) else {
        return false;
    };
    let metres = answer.get("metres").and_then(Value::as_u64);
    answer.len() == 2
        && metres.is_some_and(|metres| metres <= 9)
        && answer.get("fast").is_some_and(Value::is_boolean)
}

/// Returns the time of the first token and the whole text, or none without a last frame.
async fn ask(question: &str, guided: bool) -> Result<(Option<Instant>, Option<String>), Failed> {
    // A new connection for each answer: errors of a lost one do not count.
    let (_connection, manager) = manager().await?;
    let message = ("user", Fields::from([("content", Variant::from(question))]));
    let mut options = Fields::from([("max_tokens", Variant::from(TOKENS))]);
    if guided {
        options.insert("json_schema", Variant::from(SCHEMA));
        options.insert("max_tokens", Variant::from(GUIDED_TOKENS));
    }
    let (_, stream): (_, OwnedFd) = manager.generate(&[message], options).await?;
    let mut lines = BufReader::new(Receiver::from_owned_fd(stream.into())?).lines();
    let (mut first, mut text) = (None, String::new());
    while let Some(line) = lines.next_line().await? {
        match Frame::from_line(&line)? {
            Frame::Text { text: more, .. } => {
                first.get_or_insert_with(Instant::now);
                text.push_str(&more);
            }
            Frame::Reasoning { .. } | Frame::ToolCall { .. } => {}
            Frame::Done {
                finish_reason,
                error,
                ..
            } => {
                if let Some(error) = error {
                    return Err(error.into());
                }
                let whole = matches!(finish_reason.name(), "stop" | "length" | "context");
                return if whole {
                    Ok((first, Some(text)))
                } else {
                    Err(finish_reason.name().into())
                };
            }
        }
    }
    Ok((first, None))
}

/// Pings one after the other, on the existing connection if there is one.
async fn ping(whom: [&str; 4], until: Instant) -> Seen {
    let mut seen = Seen::default();
    let mut connection = None;
    while Instant::now() < until {
        let begun = Instant::now();
        let answer = timeout_at((until + LATE).into(), ping_once(whom, &mut connection)).await;
        match answer {
            Ok(Ok(())) => seen.pings.push(begun.elapsed()),
            Ok(Err(error)) => {
                connection = None;
                *seen
                    .errors
                    .entry(short(&format!("ping: {error}")))
                    .or_default() += 1;
            }
            Err(_) => {
                seen.pings.push(begun.elapsed());
                seen.unanswered += 1;
            }
        }
        sleep(PAUSE).await;
    }
    seen
}

async fn ping_once(
    [name, path, interface, member]: [&str; 4],
    connection: &mut Option<Connection>,
) -> zbus::Result<()> {
    if connection.is_none() {
        *connection = Some(reach().await?);
    }
    let Some(connection) = connection else {
        return Ok(());
    };
    connection
        .call_method(Some(name), path, Some(interface), member, &())
        .await
        .map(drop)
}

/// Returns the relevant part of an error.
fn short(error: &str) -> String {
    error.chars().take(80).collect()
}
