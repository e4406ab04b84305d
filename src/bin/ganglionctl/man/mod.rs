//! `ganglionctl man PAGE`: the manual, made from what the code itself reads, so that the two cannot differ.
//!
//! The command lines come from clap, the keys from the shipped configuration, the interfaces from their XML.

mod commands;
mod configuration;
mod interfaces;
mod page;

use clap::{Parser, ValueEnum};

use crate::failure::{Exit, Failure};
use crate::output;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Which one
    page: Name,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    #[value(name = "gangliond.8")]
    Gangliond,
    #[value(name = "ganglionctl.1")]
    Ganglionctl,
    #[value(name = "gangliond.toml.5")]
    Configuration,
    #[value(name = "org.ganglion.Llm1.5")]
    Interfaces,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let page = match arguments.page {
        Name::Gangliond => commands::gangliond(),
        Name::Ganglionctl => commands::ganglionctl(),
        Name::Configuration => configuration::page(),
        Name::Interfaces => interfaces::page()?,
    };
    output::print(&page)?;
    Ok(Exit::Ok)
}
