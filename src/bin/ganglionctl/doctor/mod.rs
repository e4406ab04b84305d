//! `ganglionctl doctor`: finds the reasons why the daemon does not work or does not work well on this machine, and the
//! remedies. As root it checks the device as the service's user within the unit's sandbox, otherwise as the present
//! user.
//! Not here: changes of the machine.

mod account;
mod board;
mod bus;
mod driver;
mod finding;
mod http;
mod machine;
mod model;
mod nodes;
mod tree;
pub(crate) mod unit;

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use clap::Parser;
use ganglion::config::{self, Config, ConfigError};
use ganglion::load::{Backend, Target};

use crate::failure::{Exit, Failure, OrFail as _, Outcome};
use crate::view;
use account::Account;
use finding::Findings;
pub(crate) use machine::Machine;
use tree::Tree;

/// The template of the results for people.
const TEMPLATE: &str = include_str!("findings.txt");

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    /// The daemon's configuration file
    #[arg(long, value_name = "FILE", default_value = config::DEFAULT_FILE)]
    config: PathBuf,
    /// Read files below DIR (dev, etc, proc, sys, ...) instead of this machine's
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Also write the results, all files read, and the journal's last entries to FILE for a bug report
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Check the device only, as doctor does within the unit's sandbox
    #[arg(long, hide = true, conflicts_with_all = ["root", "report"])]
    inside: bool,
}

pub(crate) fn run(address: Option<String>, arguments: &Arguments) -> Outcome {
    let machine = Machine::new(arguments.root.as_deref());
    let file = if machine.is_live() {
        std::path::absolute(&arguments.config).or_fail(Exit::Usage, "--config")?
    } else {
        arguments.config.clone()
    };
    let config = read(&machine.tree, &file);
    let mut found = Findings::default();
    if arguments.inside {
        machine.check_inside(&config, &mut found);
    } else {
        machine.check_all(&config, address, &file, &mut found);
    }
    view::print(arguments.json, TEMPLATE, &found.0)?;
    if let Some(file) = &arguments.report {
        let report = report(&machine.tree, &found)?;
        write_private(file, &report).or_fail(Exit::Failed, file.display())?;
    }
    found
        .failed()
        .map_or(Ok(()), |_| Err(Failure::quiet(Exit::Failed)))
}

fn read(tree: &Tree, file: &Path) -> Result<Config, ConfigError> {
    let file = tree.path(file);
    let read = Config::read(&file);
    for file in config::drop_ins(&file).into_iter().flatten().chain([file]) {
        // Reading records the file for the report.
        let _ = tree.read(file);
    }
    read
}

fn backend(config: &Result<Config, ConfigError>) -> Backend {
    let config = config.as_ref();
    config.map_or(Backend::Auto, |config| config.backend)
}

impl Machine {
    /// Runs the checks of a process of the service.
    fn check_inside(&self, config: &Result<Config, ConfigError>, found: &mut Findings) {
        let backend = backend(config);
        let expected = backend != Backend::Cpu && !self.nodes().is_empty();
        if expected {
            self.open_nodes(&Account::caller(&self.tree).user, found);
        }
        driver::open(backend, expected, found);
        match config {
            Ok(Config { model, .. }) => {
                if let Some(path) = &model.path {
                    model::read_inside(path, found);
                }
            }
            // The service may not have root's permissions.
            Err(error @ (ConfigError::Unreadable { .. } | ConfigError::DropIn { .. })) => {
                let what = format!("the service cannot read its configuration: {error}");
                let remedy = "sudo chmod a+r it, and a+rx its folder";
                found.fail("sandbox", what, remedy);
            }
            // Other errors of the configuration are reported outside of the sandbox.
            Err(_) => {}
        }
    }

    fn check_all(
        &self,
        config: &Result<Config, ConfigError>,
        address: Option<String>,
        file: &Path,
        found: &mut Findings,
    ) {
        let (tree, unit) = (&self.tree, self.unit());
        let caller = Account::caller(tree);
        self.board.check(found);
        unit.check(tree, found);

        let backend = backend(config);
        let mut site = self.assumed(backend);
        let mut answer = Findings::default();
        let mut loaded = None;
        if self.is_live() {
            let mut driver = Findings::default();
            let expected = !self.nodes().is_empty();
            site = driver::open(backend, expected, &mut driver).unwrap_or(site);
            match unit::run_inside(tree, file) {
                Ok(inside) => found.0.extend(inside),
                Err(why) => {
                    let user = &caller.user;
                    let what =
                        format!("the device was checked as {user}, not as the service: {why}");
                    found.warn("sandbox", what, "sudo ganglionctl doctor");
                    self.open_nodes(user, found);
                    found.0.extend(driver.0);
                }
            }
            loaded = bus::call(address, &caller, &mut answer);
        } else {
            let account = unit.account(tree).unwrap_or(caller);
            self.check_nodes(&account, found);
        }
        match config {
            Ok(config) => self.check_configured(config, file, (site, loaded), found),
            Err(error) => found.error("configuration", error),
        }
        self.board.check_speed(tree, found);
        bus::files(tree, found);
        http::check(tree, unit, config, found);
        found.0.extend(answer.0);
    }

    /// Checks the files that the configuration names.
    fn check_configured(
        &self,
        config: &Config,
        file: &Path,
        memory: (Target, Option<u64>),
        found: &mut Findings,
    ) {
        let path = match config.model_path(file) {
            Ok(path) => path,
            Err(error) => {
                let remedy = "ganglionctl pull fetches a model, ganglionctl setup writes the key";
                return found.fail("configuration", error, remedy);
            }
        };
        found.ok("configuration", file.display());
        if let Some((what, remedy)) = self.unit().hides(path) {
            found.fail("sandbox", what, remedy);
        }
        let path = &self.unit().outside(path);
        let template = config.model.chat_template.as_deref();
        let template = template.map(|file| self.unit().outside(file));
        if let Some(checkpoint) = model::open(&self.tree, path, template.as_deref(), found) {
            model::checksums(&self.tree, path, found);
            if memory.1.is_none() {
                model::check_kv(&checkpoint, config, found);
            }
            self.check_memory(path, (&checkpoint, config), memory, found);
        }
    }
}

/// Returns all results and files for a bug report. It contains no prompts or answers: the journal never has them, and
/// no other file that is read could.
fn report(tree: &Tree, found: &Findings) -> Outcome<String> {
    let journal = format!("journalctl -u {} -o json -n 500 --no-pager", unit::NAME);
    let _ = tree.command("journalctl", &journal);
    let _ = tree.command("uname", "uname -a");
    let _ = tree.command("systemctl-version", "systemctl --version");
    let heading = format!(
        "ganglionctl {} doctor --report, {}\nIt holds no prompt and no answer.\n",
        env!("CARGO_PKG_VERSION"),
        jiff::Timestamp::now()
    );
    let found = [("findings".to_owned(), view::text(TEMPLATE, &found.0)?)];
    let parts = found.into_iter().chain(tree.seen.take());
    let parts = parts.map(|(name, content)| {
        let content = content.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        format!("\n==> {name}\n{content}\n")
    });
    Ok(heading + &parts.collect::<String>())
}

/// Writes a file that only its owner may read.
fn write_private(file: &Path, text: &str) -> io::Result<()> {
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(file)?;
    // An existing file keeps its mode; other kinds of files are not changed.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    file.write_all(text.as_bytes())
}
