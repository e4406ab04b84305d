//! The D-Bus side of `ganglionctl`: connections, answers, options and errors. Not here: opening a model.

mod answer;
pub(crate) mod calls;
pub(crate) mod images;
mod info;
pub(crate) mod membership;
pub(crate) mod messages;
mod opening;
mod options;
mod refusal;
mod screen;
mod waiting;

use std::future::Future;
use std::time::Duration;

use ganglion::bus;
use ganglion::bus::proxy::ManagerProxy;
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::signal::unix::Signal;
use tokio::time::timeout;
use zbus::Connection;
use zbus::fdo::{DBusProxy, PropertiesProxy};
use zbus::names::{BusName, InterfaceName};

use crate::failure::{Exit, Failure, OrFail as _, Outcome, bail, failure};
use crate::output;

pub(crate) use answer::{Answer, Ended};
pub(crate) use images::Image;
pub(crate) use info::{megabytes, object, plain, text};
pub(crate) use opening::{Opening, OpeningArguments, Overflow, is_gone, listed};
pub(crate) use options::Options;
pub(crate) use screen::Screen;
pub(crate) use waiting::{Ask, Waiting};

pub(crate) const MANAGER: &str = "org.ganglion.Llm1.Manager";
pub(crate) const DIAGNOSTICS: &str = "org.ganglion.Llm1.Diagnostics";

/// The environment variable that replaces `--bus`.
const VARIABLE: &str = "GANGLION_BUS";

/// Runs `future` on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.or_fail(Exit::Failed, "cannot start")?;
    let result = runtime.block_on(future);
    // Another thread may still wait for a line of input.
    runtime.shutdown_background();
    result
}

/// The longest time that a healthy daemon takes to answer simple calls.
const ANSWERED: Duration = Duration::from_secs(10);

/// Awaits a call that a daemon answers at once, even while it computes.
pub(crate) async fn at_once<T, E>(future: impl Future<Output = Result<T, E>>) -> Outcome<T>
where
    Failure: From<E>,
{
    match timeout(ANSWERED, future).await {
        Ok(answered) => Ok(answered?),
        Err(_) => bail!(
            Unavailable: "gangliond has not answered for {} s: systemctl status gangliond, or sudo systemctl restart gangliond",
            ANSWERED.as_secs()
        ),
    }
}

/// Connects to the bus that `--bus`, or else the environment, names.
///
/// # Errors
/// `Exit::Usage` if the address is invalid, `Exit::Unavailable` if nothing answers there.
pub(crate) async fn connect(bus: Option<String>) -> Outcome<Connection> {
    let set = || std::env::var(VARIABLE).ok().filter(|bus| !bus.is_empty());
    let bus = bus.or_else(set).unwrap_or_else(|| "system".into());
    let Ok(address) = bus.parse::<bus::Address>();
    address.connect().await.map_err(|error| match error {
        zbus::Error::Address(why) => failure!(
            Usage: "--bus {bus}: {why}; give system, session, or an address such as unix:path=/run/bus"
        ),
        error => failure!(Unavailable: "bus {bus:?}: {error}; is dbus running, and is this the right --bus?"),
    })
}

/// Awaits `future`, unless Ctrl-C comes first.
pub(crate) async fn unless_interrupted<T>(
    interrupt: &mut Signal,
    future: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    tokio::select! {
        done = future => done,
        _ = interrupt.recv() => Err(Failure::quiet(Exit::Interrupted)),
    }
}

/// Reads all properties of one of the daemon's interfaces.
pub(crate) async fn properties(connection: &Connection, interface: &'static str) -> Outcome<Value> {
    let proxy = PropertiesProxy::new(connection, bus::NAME, bus::PATH).await?;
    let interface = InterfaceName::from_static_str_unchecked(interface);
    Ok(object(&proxy.get_all(interface).await?))
}

/// Whether the daemon runs; it is not started.
pub(crate) async fn is_there(connection: &Connection) -> Outcome<bool> {
    let name = BusName::from_static_str(bus::NAME)?;
    let driver = DBusProxy::new(connection).await?;
    Ok(driver.name_has_owner(name).await?)
}

/// Connects to the daemon if it runs. It is not started, and a missing bus is not an error.
pub(crate) async fn running(bus: Option<String>) -> Outcome<Option<Connection>> {
    let connection = match connect(bus).await {
        Err(failure) if failure.exit == Exit::Unavailable => return Ok(None),
        connected => connected?,
    };
    let is_there = is_there(&connection).await?;
    Ok(is_there.then_some(connection))
}

/// Converts the error of a request that was not accepted. A daemon whose model cannot be loaded needs a person;
/// otherwise the request may succeed later.
pub(crate) async fn not_accepted(connection: &Connection, error: bus::Error) -> Failure {
    let not_ready = matches!(error, bus::Error::NotReady(_));
    let mut failure = Failure::from(error);
    let state = async { ManagerProxy::new(connection).await.ok()?.state().await.ok() };
    if not_ready && state.await.is_some_and(|state| state == "failed") {
        failure.exit = Exit::Config;
    }
    failure
}

/// Warns on standard error if the user asked a model to think that cannot. Returns whether that is known, which it is
/// once the model is loaded.
pub(crate) async fn warn_if_it_cannot_think(manager: &ManagerProxy<'_>) -> bool {
    let model = manager.model().await.map(|model| object(&model));
    let model = model.unwrap_or_default();
    match (text(&model["name"]), model["thinking"].as_bool()) {
        // Before the load, and with an older daemon, nothing is known.
        ("", _) | (_, None) => return false,
        (name, Some(false)) => output::note(&format!(
            "ganglionctl: {name} cannot think before it answers: thinking changes nothing"
        )),
        (_, Some(true)) => {}
    }
    true
}
