//! `ganglionctl doctor`: what of this machine keeps the daemon from working, or from working well, and what to do.
//!
//! It changes nothing. As root it checks the device as the service's user within the unit's sandbox; else as
//! whoever runs it, and says so.

mod account;
mod board;
mod bus;
mod driver;
mod finding;
mod heat;
mod machine;
mod memory;
mod model;
mod nodes;
mod power;
mod report;
mod sandbox;
mod tree;
mod unit;

use std::path::{Path, PathBuf};

use clap::Parser;
use ganglion::config::{self, Config, ConfigError};
use ganglion::engine::Site;
use ganglion::engine::runner::Backend;

use crate::failure::{Exit, Failure, OrFail as _, Outcome};
use crate::output;
use account::Account;
use board::Board;
use finding::Findings;
pub(crate) use machine::Machine;
use tree::Tree;
use unit::Unit;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    /// The daemon's configuration file
    #[arg(long, value_name = "FILE", default_value = config::DEFAULT_FILE)]
    config: PathBuf,
    /// Look at the files below DIR (dev, etc, proc, sys, ...) instead of this machine
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Also write what was found and read, and the journal's last entries, to FILE for a bug report
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Check the device only: what doctor runs within the unit's sandbox
    #[arg(long, hide = true, conflicts_with_all = ["root", "report"])]
    inside: bool,
}

pub(crate) fn run(address: Option<String>, arguments: &Arguments) -> Outcome {
    let tree = Tree::new(arguments.root.as_deref());
    let file = if tree.is_live() {
        std::path::absolute(&arguments.config).or_fail(Exit::Usage, "--config")?
    } else {
        arguments.config.clone()
    };
    let config = read(&tree, &file);
    let mut found = Findings::default();
    if arguments.inside {
        inside(&tree, &config, &mut found);
    } else {
        all(&tree, &config, address, &file, &mut found);
    }
    if arguments.json {
        output::print_json(&found.0)?;
    } else {
        output::print(&found.text())?;
    }
    if let Some(file) = &arguments.report {
        report::write(&tree, &found, file)?;
    }
    match found.failed() {
        Some(_) => Err(Failure::quiet(Exit::Failed)),
        None => Ok(()),
    }
}

fn read(tree: &Tree, file: &Path) -> Result<Config, ConfigError> {
    let file = tree.path(file);
    let read = Config::read(&file);
    for file in config::drop_ins(&file).into_iter().flatten().chain([file]) {
        // For the report.
        let _ = tree.read(file);
    }
    read
}

/// What a process of the service finds.
fn inside(tree: &Tree, config: &Result<Config, ConfigError>, found: &mut Findings) {
    let is_jetson = Board::read(tree).is_jetson;
    let backend = backend(config);
    let expected = backend != Backend::Cpu && nodes::expected(tree, is_jetson);
    if expected {
        nodes::open(tree, is_jetson, &Account::caller(tree), found);
    }
    driver::open(backend, expected, found);
    match config {
        Ok(Config { model, .. }) => {
            if let Some(path) = &model.path {
                model::read_inside(path, found);
            }
        }
        // What root may read the service may not, perhaps.
        Err(error @ (ConfigError::Unreadable { .. } | ConfigError::DropIn { .. })) => {
            let what = format!("the service cannot read its configuration: {error}");
            let remedy = "sudo chmod a+r it, and a+rx its folder";
            found.fail("sandbox", what, remedy);
        }
        // What is wrong in it is told outside.
        Err(_) => {}
    }
}

fn backend(config: &Result<Config, ConfigError>) -> Backend {
    let config = config.as_ref();
    config.map_or(Backend::Auto, |config| config.backend)
}

fn all(
    tree: &Tree,
    config: &Result<Config, ConfigError>,
    address: Option<String>,
    file: &Path,
    found: &mut Findings,
) {
    let board = Board::read(tree);
    let unit = Unit::read(tree);
    let caller = Account::caller(tree);
    board.check(found);
    unit.check(tree, found);

    let backend = backend(config);
    let mut site = assumed(backend, board.is_jetson);
    let mut answer = Findings::default();
    let mut loaded = None;
    if tree.is_live() {
        let mut driver = Findings::default();
        let expected = nodes::expected(tree, board.is_jetson);
        site = driver::open(backend, expected, &mut driver).unwrap_or(site);
        match sandbox::run(tree, file) {
            Ok(inside) => found.0.extend(inside),
            Err(why) => {
                let user = &caller.user;
                let what = format!("the device was checked as {user}, not as the service: {why}");
                found.warn("sandbox", what, "sudo ganglionctl doctor");
                nodes::open(tree, board.is_jetson, &caller, found);
                found.0.extend(driver.0);
            }
        }
        loaded = bus::call(address, &caller, &mut answer);
    } else {
        let account = unit.account(tree).unwrap_or(caller);
        nodes::check(tree, board.is_jetson, &account, found);
    }
    match config {
        Ok(config) => configured(tree, (config, file), &unit, (site, loaded), found),
        Err(error) => found.error("configuration", error),
    }
    power::check(tree, board.is_jetson, found);
    heat::check(tree, found);
    bus::files(tree, found);
    found.0.extend(answer.0);
}

/// Where a model lies if the driver does not say.
fn assumed(backend: Backend, is_jetson: bool) -> Site {
    match backend {
        Backend::Auto | Backend::Cuda if is_jetson => Site::Integrated,
        _ => Site::Cpu,
    }
}

/// What the configuration names.
fn configured(
    tree: &Tree,
    (config, file): (&Config, &Path),
    unit: &Unit,
    memory: (Site, Option<u64>),
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
    model::reach(unit, path, found);
    let path = &unit.outside(path);
    if let Some(checkpoint) = model::open(tree, path, found) {
        model::checksums(tree, path, found);
        memory::check(tree, path, (&checkpoint, config), memory, found);
    }
}
