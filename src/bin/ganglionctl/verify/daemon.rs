//! Checks that ask the running daemon over D-Bus, with a question of this program.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ganglion::bus::proxy::{Fields, ManagerProxy};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe::Receiver;
use tokio::time::{sleep, timeout};
use zbus::Connection;

use super::checks::{ANSWER, HOLD, RELEASE};
use super::found::Results;
use crate::client::{self, MANAGER, object, text};
use crate::failure::{Exit, Failure, OrFail as _, Outcome, failure};

const QUESTION: &str = "Name three sensors of a robot.";
const STORY: &str = "Count from one to one thousand in words.";
/// Tokens of an answer that is compared.
const TOKENS: u32 = 16;
/// The longest time of an answer whose model is loaded first.
const ANSWERED: Duration = Duration::from_secs(300);
/// The longest time of a load at the daemon's start.
const READY: Duration = Duration::from_secs(240);
/// The interval of queries.
const LOOK: Duration = Duration::from_millis(200);
/// The number of holds that are timed, and the time for them.
const HOLDS: usize = 50;
const HOLDING: Duration = Duration::from_secs(20);
/// What a message takes over the bus, at most.
const BUS_MS: f64 = 5.0;

/// The daemon on its bus.
pub(super) struct Daemon {
    connection: Connection,
}

/// The lines of an answer.
type Stream = Lines<BufReader<Receiver>>;

/// The times of holds, in milliseconds.
#[derive(Debug)]
struct Holds {
    /// From each call to the last token after it.
    quiet: Vec<f64>,
    /// The longest time between two tokens, of a few.
    step: f64,
}

impl Daemon {
    /// Connects to a running daemon, and waits until its model is loaded.
    ///
    /// # Errors
    /// The reason why it cannot be asked.
    pub(super) async fn find(bus: Option<String>) -> Result<Self, String> {
        let connection = match client::running(bus).await {
            Ok(Some(connection)) => connection,
            Ok(None) => return Err("gangliond does not run".into()),
            Err(failure) => return Err(failure.message),
        };
        let daemon = Self { connection };
        daemon.ready().await?;
        Ok(daemon)
    }

    /// Waits until it is ready, or its model is unloaded.
    pub(super) async fn ready(&self) -> Result<(), String> {
        let ready = async {
            loop {
                let manager = client::at_once(client::properties(&self.connection, MANAGER)).await;
                match manager {
                    Ok(manager) => match text(&manager["State"]) {
                        "ready" | "idle" => return Ok(()),
                        "failed" => {
                            let detail = text(&manager["StateDetail"]);
                            return Err(format!("the daemon's model cannot be loaded: {detail}"));
                        }
                        _ => {}
                    },
                    // It may be starting.
                    Err(Failure {
                        exit: Exit::Unavailable,
                        ..
                    }) => {}
                    Err(failure) => return Err(failure.message),
                }
                sleep(LOOK).await;
            }
        };
        let waited = timeout(READY, ready).await;
        waited.unwrap_or_else(|_| Err(format!("it was not ready after {} s", READY.as_secs())))
    }

    /// Asks for an answer of at most `tokens` tokens; returns it with the facts of the request.
    pub(super) async fn ask(&self, prompt: &str, tokens: u32) -> Outcome<(String, Value)> {
        let manager = ManagerProxy::new(&self.connection).await?;
        let asked = timeout(ANSWERED, manager.complete(prompt, options(tokens))).await;
        let waited = failure!(Unavailable: "no answer within {} s", ANSWERED.as_secs());
        let (answer, info) = asked.map_err(|_| waited)??;
        Ok((answer, object(&info)))
    }

    /// Asks for a long answer, and returns the number of its tokens.
    pub(super) async fn story(&self, tokens: u32) -> Outcome<u64> {
        let (_, info) = self.ask(STORY, tokens).await?;
        Ok(info["completion_tokens"].as_u64().unwrap_or(0))
    }

    /// Asks the question whose answer is compared later.
    pub(super) async fn question(&self) -> Outcome<String> {
        Ok(self.ask(QUESTION, TOKENS).await?.0)
    }

    /// Checks that a question is answered, and returns the answer.
    pub(super) async fn answer(&self, results: &mut Results) -> Option<String> {
        match self.ask(QUESTION, TOKENS).await {
            Ok((answer, info)) => {
                let tokens = info["completion_tokens"].as_u64().unwrap_or(0);
                let first = info["first_token_us"].as_u64().unwrap_or(0);
                let observed = format!("{tokens} tokens, the first after {} ms", first / 1000);
                results.judge(ANSWER, tokens > 0, observed);
                Some(answer)
            }
            Err(failure) => {
                unless_refused(ANSWER, failure, results);
                None
            }
        }
    }

    /// Times holds of all requests while an answer runs.
    pub(super) async fn hold(&self, results: &mut Results) {
        let Holds { quiet, step } = match self.time_holds().await {
            Ok(holds) if !holds.quiet.is_empty() => holds,
            Ok(_) => return results.not_run(HOLD, "no answer ran long enough"),
            Err(failure) => return unless_refused(HOLD, failure, results),
        };
        let [p50, p99] = [50, 99].map(|percent| percentile(&quiet, percent));
        let count = quiet.len();
        let observed = format!(
            "p50 {p50:.1} ms, p99 {p99:.1} ms of {count} calls; a step takes {step:.1} ms at most"
        );
        results.judge(HOLD, p99 <= step + BUS_MS, observed);
        for (name, value) in [
            ("hold p50 ms", p50),
            ("hold p99 ms", p99),
            ("token ms", step),
        ] {
            results.figure(name, value);
        }
    }

    async fn time_holds(&self) -> Outcome<Holds> {
        const MEASURED: usize = 16;
        const TRIES: usize = 20;
        let manager = ManagerProxy::new(&self.connection).await?;
        let mut stream = self.stream(&manager).await?;
        let mut between = Vec::new();
        let mut before = Instant::now();
        while between.len() < MEASURED && token(&mut stream).await? {
            between.push(milliseconds(before.elapsed()));
            before = Instant::now();
        }
        // The first token waits for the prompt.
        let step = percentile(between.get(1..).unwrap_or_default(), 100);
        let silence = Duration::from_secs_f64((4.0 * step / 1e3).max(0.05));
        let mut quiet = Vec::new();
        let start = Instant::now();
        while quiet.len() < HOLDS && start.elapsed() < HOLDING {
            let mut tries = 0;
            let (called, hold) = loop {
                let called = Instant::now();
                match manager.hold_all("ganglionctl verify").await {
                    Ok(hold) => break (called, hold),
                    // The daemon has not seen the end of the last one yet.
                    Err(ganglion::bus::Error::Busy(_)) if tries < TRIES => tries += 1,
                    Err(error) => return Err(error.into()),
                }
                sleep(Duration::from_millis(5)).await;
            };
            let mut last = called;
            let mut is_over = false;
            while let Ok(more) = timeout(silence, token(&mut stream)).await {
                if !more? {
                    is_over = true;
                    break;
                }
                last = Instant::now();
            }
            drop(hold);
            if is_over {
                stream = self.stream(&manager).await?;
            } else {
                quiet.push(milliseconds(last - called));
            }
            // The answer continues.
            if !token(&mut stream).await? {
                stream = self.stream(&manager).await?;
            }
        }
        Ok(Holds { quiet, step })
    }

    async fn stream(&self, manager: &ManagerProxy<'_>) -> Outcome<Stream> {
        const LONG: u32 = 1024;
        let content = HashMap::from([("content", STORY.into())]);
        let (_, pipe) = manager
            .generate(&[("user", content)], options(LONG))
            .await?;
        let pipe = Receiver::from_owned_fd(pipe.into()).or_fail(Exit::Unavailable, "the stream")?;
        Ok(BufReader::new(pipe).lines())
    }

    /// Releases the daemon's model, so that the device's checks have its memory. A refusal is no error: the checks then
    /// run with what is left.
    pub(super) async fn free_memory(&self) {
        if let Ok(manager) = ManagerProxy::new(&self.connection).await {
            let _ = manager.release().await;
        }
    }

    /// Releases the model, and lets the next request load it.
    pub(super) async fn release(&self, answer: &str, results: &mut Results) {
        let released = async {
            let manager = ManagerProxy::new(&self.connection).await?;
            manager.release().await?;
            let state = manager.state().await?;
            let start = Instant::now();
            let (again, info) = self.ask(QUESTION, TOKENS).await?;
            Ok::<_, Failure>((state, again == answer, start.elapsed(), info))
        };
        match released.await {
            Ok((state, same, time, info)) => {
                let first = info["first_token_us"].as_u64().unwrap_or(0);
                let seconds = time.as_secs_f64();
                let said = if same { "the same" } else { "another" };
                let observed = format!(
                    "{state}, then {said} answer after {seconds:.1} s, its first token {} ms after the load",
                    first / 1000
                );
                results.judge(RELEASE, same && state == "idle", observed);
                results.figure("answer after release s", seconds);
            }
            Err(failure) => unless_refused(RELEASE, failure, results),
        }
    }
}

/// Adds a failed call. A caller without the right, or a daemon that serves others, has not failed.
fn unless_refused(check: &str, failure: Failure, results: &mut Results) {
    let is_refusal = matches!(failure.exit, Exit::Forbidden | Exit::Busy)
        || failure.exit == Exit::Unavailable && failure.message.contains("is for");
    if is_refusal {
        results.not_run(check, failure.message);
    } else {
        results.fail(check, failure.message);
    }
}

/// Waits for a token; `false` at the end of the answer.
async fn token(stream: &mut Stream) -> Outcome<bool> {
    let next = timeout(ANSWERED, stream.next_line()).await;
    let waited = failure!(Unavailable: "no token within {} s", ANSWERED.as_secs());
    let line = next.map_err(|_| waited)?;
    let line = line.or_fail(Exit::Unavailable, "the stream")?;
    let Some(line) = line else {
        return Ok(false);
    };
    let frame: Value = serde_json::from_str(&line).or_fail(Exit::Failed, "a frame")?;
    Ok(frame.get("done").is_none())
}

/// Greedy, so that the same question has the same answer.
fn options(tokens: u32) -> Fields<'static> {
    HashMap::from([
        ("max_tokens", tokens.into()),
        ("temperature", 0.0.into()),
        ("thinking", false.into()),
    ])
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the least of `values` that so many percent do not exceed; 0 if there are none.
fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}
