//! Hostile users on the system bus.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::Failed;
use crate::attack::{ATTACKS, Attack, Until, Who, fuzz};

/// The default of Debian and JetPack.
const SYSTEM_BUS: &str = "/run/dbus/system_bus_socket";

/// Returns the socket of the system bus, from the same variable as zbus.
pub(crate) fn bus() -> PathBuf {
    let address = std::env::var("DBUS_SYSTEM_BUS_ADDRESS").unwrap_or_default();
    let path = address.strip_prefix("unix:path=").unwrap_or(SYSTEM_BUS);
    path.split(',').next().unwrap_or(SYSTEM_BUS).into()
}

/// Prints the name of each attack, and its user.
pub(crate) fn list() {
    for attack in ATTACKS {
        let who = if attack.who == Who::Member {
            "member"
        } else {
            "stranger"
        };
        println!("{} {who}", attack.name);
    }
}

/// Runs an attack, or all attacks of "members" or "strangers" at once.
pub(crate) fn run(name: &str, seconds: &str) -> Result<(), Failed> {
    let until = Until::after(Duration::from_secs(seconds.parse()?));
    let all = |who| ATTACKS.iter().filter(|attack| attack.who == who).collect();
    let attacks: Vec<&Attack> = match name {
        "members" => all(Who::Member),
        "strangers" => all(Who::Stranger),
        _ => vec![Attack::named(name).ok_or_else(|| format!("no attack is named {name:?}"))?],
    };
    let bus = bus();
    thread::scope(|scope| {
        for attack in attacks {
            let (bus, until) = (&bus, &until);
            scope.spawn(move || attack.run(bus, until));
        }
    });
    Ok(())
}

/// Sends random frames, and prints the number of lost connections.
pub(crate) fn fuzz(seed: &str, seconds: &str) -> Result<(), Failed> {
    let until = Until::after(Duration::from_secs(seconds.parse()?));
    let hung_up = fuzz::run(&bus(), seed.parse()?, &until, u64::MAX);
    println!("connections that ended: {hung_up}");
    Ok(())
}
