//! Reloads, restarts and kills the service. Only root can, and only where systemd runs it.

use std::future::Future;
use std::time::Instant;

use nix::unistd::Uid;
use tokio::process::Command;

use super::checks::{KILL, RELOAD, RESTART};
use super::daemon::Daemon;
use super::found::Results;
use crate::doctor::Machine;
use crate::doctor::unit::NAME;

pub(super) async fn check(
    machine: &Machine,
    daemon: Option<&Daemon>,
    answer: Option<&str>,
    results: &mut Results,
) {
    let why = match (daemon, answer) {
        _ if !Uid::effective().is_root() => "only root may restart the service",
        _ if !machine.unit().runs() => "systemd does not run the service here",
        (Some(_), Some(_)) => "",
        _ => "the daemon did not answer before",
    };
    let (Some(daemon), Some(answer), "") = (daemon, answer, why) else {
        for check in [RELOAD, RESTART, KILL] {
            results.not_run(check, why);
        }
        return;
    };
    // Starts of the last minutes do not count.
    let _ = systemctl(&["reset-failed", NAME]).await;
    let reload = systemctl(&["reload", NAME]);
    time(RELOAD, reload, daemon, answer, results).await;
    let restart = systemctl(&["restart", NAME]);
    time(RESTART, restart, daemon, answer, results).await;
    time(KILL, kill(), daemon, answer, results).await;
}

/// Awaits `act` and the daemon's readiness, and compares its next answer.
async fn time(
    check: &str,
    act: impl Future<Output = Result<(), String>>,
    daemon: &Daemon,
    answer: &str,
    results: &mut Results,
) {
    let start = Instant::now();
    let ready = async {
        act.await?;
        daemon.ready().await
    };
    if let Err(why) = ready.await {
        return results.fail(check, why);
    }
    let seconds = start.elapsed().as_secs_f64();
    match daemon.question().await {
        Ok(again) => {
            let same = again == answer;
            let said = if same { "the same" } else { "another" };
            let observed = format!("ready after {seconds:.1} s, then {said} answer");
            results.judge(check, same, observed);
            results.figure(&format!("{check}: ready s"), seconds);
        }
        Err(failure) => results.fail(check, failure.message),
    }
}

/// Kills the daemon, and waits until systemd has started another process.
async fn kill() -> Result<(), String> {
    let killed = process().await?;
    systemctl(&["kill", "--kill-who=main", "--signal=SIGKILL", NAME]).await?;
    for _ in 0..600 {
        let now = process().await?;
        if now != killed && now != "0" {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Err("systemd did not start it again within a minute".into())
}

async fn process() -> Result<String, String> {
    let show = ["show", "--property=MainPID", "--value", NAME];
    let shown = Command::new("systemctl").args(show).output().await;
    let shown = shown.map_err(|error| format!("systemctl: {error}"))?;
    Ok(String::from_utf8_lossy(&shown.stdout).trim().to_owned())
}

async fn systemctl(arguments: &[&str]) -> Result<(), String> {
    let done = Command::new("systemctl").args(arguments).output().await;
    let done = done.map_err(|error| format!("systemctl: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(format!(
        "systemctl {}: {}",
        arguments.join(" "),
        said.trim()
    ))
}
