//! Starts the parts, each in a process with a time limit: within the unit's sandbox where that is possible.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::arguments::Arguments;
use super::checks::SANDBOX;
use super::found::{Line, Results};
use super::part::Part;
use crate::doctor::Machine;

/// The longest time of a part, and of the benchmark.
const LIMIT: Duration = Duration::from_secs(300);
/// The time in which systemd ends a process that exceeds its limit.
const GRACE: Duration = Duration::from_secs(10);

/// How parts run here.
pub(super) struct Runs<'a> {
    machine: &'a Machine,
    config: PathBuf,
    pub(super) sms: Option<u32>,
    every: NonZeroUsize,
    /// The model as the process sees it.
    pub(super) model: Option<PathBuf>,
    /// The reason why parts run outside of the sandbox.
    outside: Option<String>,
}

/// A process that has ended.
pub(super) struct Ended {
    pub(super) written: String,
    /// The reason of an early end.
    pub(super) failure: Option<String>,
}

impl Ended {
    fn early(failure: String) -> Self {
        Self {
            written: String::new(),
            failure: Some(failure),
        }
    }
}

impl<'a> Runs<'a> {
    pub(super) fn new(machine: &'a Machine, arguments: &Arguments, model: Option<&Path>) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.into());
        let model = model.map(absolute);
        let hidden = model.as_deref().and_then(|model| machine.hides(model));
        let outside = match machine.command_inside(&[]) {
            Ok(_) => hidden,
            Err(why) => Some(why),
        };
        let model = model.map(|model| match outside {
            Some(_) => machine.outside(&model),
            None => model,
        });
        Self {
            machine,
            config: absolute(&arguments.config),
            sms: arguments.sms,
            every: arguments.every,
            model,
            outside,
        }
    }

    /// Runs a part and adds its results. A check without a result has failed if the process ended early.
    pub(super) async fn part(&self, part: Part, results: &mut Results) {
        use ganglion::choice::Choice as _;

        if part.needs_model() && self.model.is_none() {
            for check in part.checks() {
                results.not_run(
                    check,
                    "no model is configured: sudo ganglionctl pull, or --model",
                );
            }
            return;
        }
        let mut arguments = vec!["verify".to_owned(), "--part".into(), part.name().into()];
        arguments.push(format!("--config={}", self.config.display()));
        arguments.push(format!("--every={}", self.every));
        arguments.extend(self.sms.map(|sms| format!("--sms={sms}")));
        let model = self.model.iter();
        arguments.extend(model.map(|model| format!("--model={}", model.display())));
        let ended = self.output(&arguments).await;
        for line in ended.written.lines() {
            if let Ok(line) = serde_json::from_str::<Line>(line) {
                results.take(line);
            }
        }
        let why = ended.failure.as_deref();
        let why = why.unwrap_or("its process wrote no result");
        for check in part.checks() {
            if !results.has(check) {
                results.fail(check, why);
            }
        }
        if let (Part::Device, Some(outside)) = (part, &self.outside) {
            results.not_run(SANDBOX, outside);
        }
    }

    /// Runs this program with arguments, and waits for its end.
    pub(super) async fn output(&self, arguments: &[String]) -> Ended {
        let command = match &self.outside {
            None => {
                let limit = format!("RuntimeMaxSec={}", LIMIT.as_secs());
                self.machine.command_inside(&[limit])
            }
            Some(_) => std::env::current_exe()
                .map(std::process::Command::new)
                .map_err(|error| error.to_string()),
        };
        let child = command.and_then(|command| {
            let mut command = Command::from(command);
            command
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true);
            command.spawn().map_err(|error| error.to_string())
        });
        let child = match child {
            Ok(child) => child,
            Err(why) => return Ended::early(why),
        };
        let ended = match timeout(LIMIT + GRACE, child.wait_with_output()).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => return Ended::early(error.to_string()),
            Err(_) => return Ended::early(format!("it did not end within {} s", LIMIT.as_secs())),
        };
        let said = String::from_utf8_lossy(&ended.stderr);
        let last = said.lines().last().unwrap_or("it wrote no message");
        let failure = format!("its process ended with {}: {last}", ended.status);
        Ended {
            written: String::from_utf8_lossy(&ended.stdout).into_owned(),
            failure: (!ended.status.success()).then_some(failure),
        }
    }
}
