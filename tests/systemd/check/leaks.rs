//! The daemon's resources before and after heavy use.

use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::Failed;
use crate::attacks::bus;
use crate::leaks::{Held, cancelled, reloads, sessions};

/// The time in which threads end and memory is returned.
const SETTLE: Duration = Duration::from_secs(10);

/// Overwrites `file`, a drop-in of the configuration.
pub(crate) fn run(process: &str, file: &str, counts: [&str; 3]) -> Result<(), Failed> {
    let process = process.parse()?;
    let [reloaded, asked, opened] = counts;
    let bus = bus();
    let show = |when: &str| -> Result<(), Failed> {
        thread::sleep(SETTLE);
        println!("{when}: {}", Held::by(process)?);
        Ok(())
    };
    sessions(&bus, 100)?;
    show("before")?;
    reloads(&bus, reloaded.parse()?, Path::new(file), "")?;
    show(&format!("after {reloaded} reloads"))?;
    cancelled(&bus, asked.parse()?)?;
    show(&format!("after {asked} cancelled requests"))?;
    sessions(&bus, opened.parse()?)?;
    show(&format!("after {opened} sessions"))
}
