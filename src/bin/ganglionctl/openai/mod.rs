//! `ganglionctl openai`: prints the lines that a client of OpenAI's API needs, and reports whether this user may open the
//! socket. It sends no request and does not start the daemon.

pub(crate) mod socket;

use std::path::{Path, PathBuf};

use clap::Parser;
use serde_json::json;

use crate::client::membership;
use crate::failure::{Exit, OrFail as _, Outcome, bail};
use crate::view;
use socket::{Access, SOCKET, Unit};

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The socket: that of the system's daemon, or of gangliond --http
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let socket = std::path::absolute(&arguments.socket).or_fail(Exit::Usage, "--socket")?;
    let unit = Unit::read();
    let is_of_system = socket == Path::new(SOCKET);
    let tcp = if is_of_system && unit.is_active() {
        unit.tcp()
    } else {
        Vec::new()
    };
    let access = socket::access(&socket);
    // The keys are stable: scripts read them.
    let values = json!({
        // A client needs some host. The socket decides where its requests go.
        "base_url": "http://localhost/v1",
        "socket": socket,
        "model": "ganglion",
        "tcp": tcp.iter().map(|at| format!("http://{at}/v1")).collect::<Vec<_>>(),
        "usable": access == Access::Usable,
    });
    view::print(arguments.json, include_str!("lines.txt"), &values)?;
    let shown = socket.display();
    match access {
        Access::Usable => Ok(()),
        Access::Missing if is_of_system => {
            bail!(Unavailable: "{shown} does not exist: {}", unit.remedy())
        }
        Access::Missing => {
            bail!(Unavailable: "{shown} does not exist: start gangliond --http {shown}")
        }
        Access::NotASocket => bail!(Unavailable: "{shown} is not a socket: give another --socket"),
        Access::Denied => match membership::outsider() {
            Some(remedy) if is_of_system => bail!(Forbidden: "you may not open {shown}: {remedy}"),
            _ => bail!(Forbidden: "you may not open {shown}: ls -ld shows whom it belongs to"),
        },
    }
}
