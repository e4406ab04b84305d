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
use ganglion::config::{self, Backend, Config, ConfigError};
use ganglion::engine::Site;

use crate::failure::{Exit, Failure};
use crate::output;
use account::Account;
use board::Board;
use finding::{Finding, Mark};
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

pub(crate) fn run(address: Option<String>, arguments: &Arguments) -> Result<Exit, Failure> {
    let tree = Tree::new(arguments.root.as_deref());
    let file = if tree.is_live() {
        let file = std::path::absolute(&arguments.config);
        file.map_err(|error| Failure::new(Exit::Usage, format!("--config: {error}")))?
    } else {
        arguments.config.clone()
    };
    let config = read(&tree, &file);
    let findings = if arguments.inside {
        inside(&tree, &config)
    } else {
        all(&tree, &config, address, &file)
    };
    if arguments.json {
        output::print_json(&findings)?;
    } else {
        output::print(&findings.iter().map(Finding::line).collect::<String>())?;
    }
    if let Some(file) = &arguments.report {
        report::write(&tree, &findings, file)?;
    }
    let failed = findings.iter().any(|finding| finding.mark == Mark::Fail);
    Ok(if failed { Exit::Failed } else { Exit::Ok })
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
fn inside(tree: &Tree, config: &Result<Config, ConfigError>) -> Vec<Finding> {
    let is_jetson = Board::read(tree).is_jetson;
    let backend = backend(config);
    let expected = backend != Backend::Cpu && nodes::expected(tree, is_jetson);
    let mut findings = Vec::new();
    if expected {
        findings.extend(nodes::open(tree, is_jetson, &Account::caller(tree)));
    }
    findings.extend(driver::open(backend, expected).findings);
    match config {
        Ok(config) => findings.extend(config.model.path.as_deref().map(model::read_inside)),
        // What root may read the service may not, perhaps.
        Err(error @ (ConfigError::Unreadable { .. } | ConfigError::DropIn { .. })) => findings
            .push(Finding::fail(
                "sandbox",
                format!("the service cannot read its configuration: {error}"),
                "sudo chmod a+r it, and a+rx its folder",
            )),
        // What is wrong in it is told outside.
        Err(_) => {}
    }
    findings
}

fn backend(config: &Result<Config, ConfigError>) -> Backend {
    config
        .as_ref()
        .map_or(Backend::Auto, |config| config.backend)
}

fn all(
    tree: &Tree,
    config: &Result<Config, ConfigError>,
    address: Option<String>,
    file: &Path,
) -> Vec<Finding> {
    let board = Board::read(tree);
    let unit = Unit::read(tree);
    let caller = Account::caller(tree);
    let mut findings = vec![board.check()];
    findings.extend(unit.check(tree));

    let backend = backend(config);
    let expected = nodes::expected(tree, board.is_jetson);
    let mut site = assumed(backend, board.is_jetson);
    if tree.is_live() {
        let opened = driver::open(backend, expected);
        site = opened.site.unwrap_or(site);
        match sandbox::run(tree, file) {
            Ok(inside) => findings.extend(inside),
            Err(why) => {
                let user = &caller.user;
                findings.push(Finding::warn(
                    "sandbox",
                    format!("the device was checked as {user}, not as the service: {why}"),
                    "sudo ganglionctl doctor",
                ));
                findings.extend(nodes::open(tree, board.is_jetson, &caller));
                findings.extend(opened.findings);
            }
        }
    } else {
        let account = unit.account(tree).unwrap_or(caller.clone());
        findings.extend(nodes::check(tree, board.is_jetson, &account));
    }

    let answer = if tree.is_live() {
        bus::call(address, &caller)
    } else {
        bus::Answer::default()
    };
    match config {
        Ok(config) => findings.extend(configured(tree, config, file, &unit, site, answer.loaded)),
        Err(error) => findings.push(Finding::new(Mark::Fail, "configuration", error.to_string())),
    }
    findings.extend(power::check(tree, board.is_jetson));
    findings.extend(heat::check(tree));
    findings.extend(bus::files(tree));
    findings.extend(answer.findings);
    findings
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
    config: &Config,
    file: &Path,
    unit: &Unit,
    site: Site,
    loaded: Option<u64>,
) -> Vec<Finding> {
    let mut findings = vec![Finding::ok("configuration", file.display().to_string())];
    let path = match config.model_path(file) {
        Ok(path) => path,
        Err(error) => {
            let remedy = "ganglionctl pull fetches a model, ganglionctl setup writes the key";
            return vec![Finding::fail("configuration", error.to_string(), remedy)];
        }
    };
    findings.extend(model::reach(unit, path));
    let path = &unit.outside(path);
    let checkpoint = model::open(tree, path, &mut findings);
    if let Some(checkpoint) = checkpoint {
        findings.push(model::checksums(tree, path));
        findings.push(match loaded {
            Some(bytes) => memory::loaded(tree, bytes, config),
            None => memory::check(tree, path, &checkpoint, config, site),
        });
    }
    findings
}
