//! Changes of the cache leave nothing behind.

use ganglion::fault::{Call, Fault};
use ganglion::graph::{Event, InvalidationReason, Mode, State};
use ganglion::kv::Owner;
use ganglion::runner::Runner;
use ganglion::sampler::Parameters;
use ganglion::trial::refusals::{HOW, same, turn};

use super::spoilt::{eager, failed};
use super::{Outcome, RECORDING, Subject};

const TURNS: u64 = 200;
const ROUNDS: usize = 1000;
const CHANGES: u64 = 10_000;

/// Bytes of host memory that the allocator may keep.
const SLACK: u64 = 8 << 20;

/// Two conversations take turns, each in its own slot: no replay finds a moved address, and nothing is recorded again.
/// On a CPU each slot has its own addresses, so there is one conversation.
pub(super) fn no_false_alarm(runner: &mut Runner) -> Outcome {
    let (mut replays, cpu) = (0, runner.backend() == "cpu");
    for mode in RECORDING {
        runner.set_graph_mode(mode);
        let was = runner.graph().counters();
        runner.take_graph_events();
        for index in 0..TURNS {
            let other = !cpu && index % 2 == 1;
            short_turn(runner, Owner(1 + u64::from(other)), 4)?;
            for event in runner.take_graph_events() {
                if let Event::Invalidated {
                    reason: reason @ InvalidationReason::Moved(_),
                    ..
                } = event
                {
                    return Err(format!("{} turn {index}: {reason}", mode.name()));
                }
            }
        }
        let now = runner.graph().counters();
        same(mode.name(), now.recordings - was.recordings, 1)?;
        replays += now.launches - was.launches;
    }
    Ok(format!("{replays} replays verified"))
}

/// Rounds of a change, a recording, and every other time a refused call.
pub(super) fn nothing_leaks(on: &mut Subject) -> Outcome {
    let mut said = Vec::new();
    let eager = eager(&mut on.plain)?;
    for mode in RECORDING {
        on.plain.set_graph_mode(mode);
        let was = on.plain.graph().counters().failures;
        let mut early = 0;
        for round in 0..ROUNDS {
            if round % 50 == 0 {
                on.plain.reset_graph();
            }
            let fault = (round % 2 == 0).then(|| Fault {
                call: Call::ALL[round / 2 % Call::ALL.len()],
                skip: u32::try_from(round % 5).unwrap_or(0),
                how: HOW[round / 2 / Call::ALL.len() % HOW.len()],
            });
            let text = turn(&mut on.plain, true, |runner, tokens| {
                if let (1, Some(fault)) = (tokens, fault) {
                    runner.executor().faults().arm(fault);
                }
            });
            on.plain.executor().faults().disarm();
            on.plain.take_graph_events();
            same("the text", text.map_err(failed)?, eager.clone())?;
            if round == 9 {
                early = free(on)?;
            }
        }
        let what = format!("{}: bytes of the device that are free", mode.name());
        same(&what, free(on)?, early)?;
        let failures = on.plain.graph().counters().failures - was;
        said.push(format!("{} {failures}", mode.name()));
    }
    Ok(format!("calls refused: {}", said.join(", ")))
}

/// Very short turns: after each, the executable graph equals the recorded one.
pub(super) fn many(on: &mut Subject) -> Outcome {
    on.plain.set_graph_mode(Mode::FullDecodeOnly);
    let (mut device, mut host, mut was) = (0, 0, on.plain.graph().counters());
    for change in 0..CHANGES {
        short_turn(&mut on.plain, Owner(1), 2)?;
        on.plain.take_graph_events();
        if change == 99 {
            (device, host) = (free(on)?, resident()?);
            was = on.plain.graph().counters();
        }
    }
    let now = on.plain.graph().counters();
    same("state", on.plain.graph().state(), State::Valid)?;
    let verified = now.verified - was.verified;
    // A rewind and the next turn are a change each, and one check covers both.
    same("verified", verified, CHANGES - 100)?;
    same("recordings", now.recordings, was.recordings)?;
    same("bytes of the device that are free", free(on)?, device)?;
    let grown = resident()?.saturating_sub(host);
    let said = format!("{} KiB of host memory more than after 100", grown >> 10);
    if grown > SLACK {
        return Err(said);
    }
    Ok(said)
}

/// A turn from an empty slot: its prompt is one token, so each of its tokens is a step.
pub(super) fn short_turn(runner: &mut Runner, owner: Owner, tokens: usize) -> Result<(), String> {
    runner.rewind(owner, 0).map_err(failed)?;
    let begun = runner.begin(Some(owner), 0, &[3], Parameters::default());
    begun.map_err(failed)?;
    runner.prefill_all(&[3]).map_err(failed)?;
    for left in (0..tokens - 1).rev() {
        runner.step(left > 0).map_err(failed)?;
    }
    Ok(())
}

/// 0 without a device.
fn free(on: &Subject) -> Result<u64, String> {
    let free = on.context.as_ref().map(|context| context.free_memory());
    free.unwrap_or(Ok(0)).map_err(|error| error.to_string())
}

/// Bytes of this process in memory.
fn resident() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let kilobytes = kilobytes.ok_or("/proc/self/status has no VmRSS")?;
    Ok(kilobytes << 10)
}
