//! `ganglionctl verify`: checks on a board what no other machine can check, and writes one file to send.
//!
//! Checks of the device run in processes of this program, as the service's user within the sandbox where that is possible.
//! They free the memory of the daemon's model first, and the daemon is restarted. Not here: remedies (`doctor`), and the
//! checks of the library (`ganglion::trial`, `ganglion::check`).

mod arguments;
mod checks;
mod compare;
mod daemon;
mod device;
mod device_nodes;
mod found;
mod heat;
mod in_process;
mod life_cycle;
mod machine;
mod part;
mod parts;
mod power;
mod record;
mod speed;

use ganglion::config::Config;
use nix::unistd::Uid;

pub(crate) use self::arguments::Arguments;
use self::checks::CHECKS;
use self::daemon::Daemon;
use self::found::Results;
use self::part::Part;
use self::parts::Runs;
use self::power::Watch;
use self::record::Record;
use crate::client;
use crate::doctor::Machine;
use crate::failure::{Exit, Failure, Outcome};
use crate::output;

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    if let [first, second] = &arguments.compare[..] {
        return compare(&Record::read(first)?, &Record::read(second)?);
    }
    if let Some(part) = arguments.part {
        in_process::run(part, arguments);
        return Ok(());
    }
    let before = arguments.compare.first().map(|file| Record::read(file));
    let before = before.transpose()?;
    let machine = Machine::new(arguments.root.as_deref());
    let mut results = Results::default();
    let samples = if machine.is_live() {
        client::block_on(all(bus, arguments, &machine, &mut results))?
    } else {
        of_files(&machine, &mut results);
        Vec::new()
    };
    let record = Record::new(&results, samples)?;
    output::print(&record.text)?;
    record.write(&arguments.output)?;
    if let Some(before) = before {
        compare(&before, &record)?;
    }
    output::note(&format!(
        "ganglionctl: written to {}",
        arguments.output.display()
    ));
    if record.failed() {
        return Err(Failure::quiet(Exit::Failed));
    }
    Ok(())
}

fn compare(first: &Record, second: &Record) -> Outcome {
    output::print(&compare::text(first, second)?)
}

/// Reads what the files of another machine say. Nothing runs.
fn of_files(machine: &Machine, results: &mut Results) {
    machine::facts(machine, results);
    for check in CHECKS {
        results.not_run(check.name, "the files are of another machine (--root)");
    }
    speed::project(machine, None, results);
}

/// Runs all checks. Returns the readings of the long run.
async fn all(
    bus: Option<String>,
    arguments: &Arguments,
    machine: &Machine,
    results: &mut Results,
) -> Outcome<Vec<heat::Sample>> {
    let config = Config::read(&arguments.config);
    let model = arguments.model.clone().or_else(|| {
        let config = config.as_ref().ok()?;
        config.model.path.clone()
    });
    machine::facts(machine, results);
    device_nodes::check(machine, results);
    let power = Watch::begin();
    let daemon = Daemon::find(bus).await;
    let mut answer = None;
    match &daemon {
        Ok(daemon) => {
            say("asks the daemon");
            answer = daemon.answer(results).await;
            daemon.hold(results).await;
            daemon.free_memory().await;
        }
        Err(why) => {
            for check in [
                checks::ANSWER,
                checks::HOLD,
                checks::RELEASE,
                checks::HEATED,
            ] {
                results.not_run(check, why);
            }
        }
    }
    let runs = Runs::new(machine, arguments, model.as_deref());
    if let Some(model) = &runs.model {
        results.hide(model);
    }
    for part in Part::IN_ORDER {
        say(part.about());
        runs.part(*part, results).await;
    }
    say("measures the speed");
    speed::measure(&runs, machine, &config, results).await;
    match (&daemon, &answer) {
        (Ok(daemon), Some(answer)) => {
            say("lets the daemon load its model again");
            daemon.release(answer, results).await;
        }
        (Ok(_), None) => results.not_run(checks::RELEASE, "the daemon did not answer before"),
        (Err(_), _) => {}
    }
    life_cycle::check(machine, daemon.as_ref().ok(), answer.as_deref(), results).await;
    let mut samples = Vec::new();
    match (arguments.long, &daemon) {
        (None, _) => results.not_run(checks::HEATED, "not asked for: ganglionctl verify --long"),
        (Some(time), Ok(daemon)) => {
            say("keeps answers running");
            samples = heat::run(daemon, time, results).await;
        }
        (Some(_), Err(_)) => {}
    }
    power.end(results);
    if !Uid::effective().is_root() {
        results.fact(
            "user",
            "not root: checks of the sandbox and of the life cycle did not run",
        );
    }
    Ok(samples)
}

/// Prints what is being done.
fn say(what: &str) {
    output::note(&format!("ganglionctl: {what}"));
}
