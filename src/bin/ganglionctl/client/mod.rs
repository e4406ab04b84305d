//! The side of `ganglionctl` that talks to the daemon. It knows no model: everything comes over D-Bus.

pub(crate) mod answer;
pub(crate) mod info;
mod membership;
pub(crate) mod options;
pub(crate) mod reading;
mod refusal;
pub(crate) mod screen;
pub(crate) mod thinking;
pub(crate) mod waiting;

use std::future::Future;
use std::time::Duration;

use ganglion::bus;
use zbus::Connection;
use zbus::fdo::DBusProxy;
use zbus::names::BusName;

use crate::failure::{Exit, Failure};

pub(crate) use refusal::{exit_of, refused};

/// The environment variable that stands for `--bus`.
const VARIABLE: &str = "GANGLION_BUS";

/// Runs `future` on this thread.
///
/// # Errors
/// Those of `future`.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start: {error}")))?;
    let result = runtime.block_on(future);
    // A thread may still wait for a line that nobody will type.
    runtime.shutdown_background();
    result
}

/// Within this a daemon that lives answers what it knows.
const ANSWERED: Duration = Duration::from_secs(10);

/// The result of calls that a daemon answers at once, whatever it computes.
///
/// # Errors
/// Those of `future`, and that nothing came.
pub(crate) async fn at_once<T>(
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::time::timeout(ANSWERED, future)
        .await
        .unwrap_or_else(|_| {
            let seconds = ANSWERED.as_secs();
            let message = format!(
                "gangliond has not answered for {seconds} s: systemctl status gangliond, or sudo systemctl restart \
                 gangliond"
            );
            Err(Failure::new(Exit::Unavailable, message))
        })
}

/// Connects to the bus that `--bus`, or else the environment, names.
///
/// # Errors
/// `Exit::Usage` if the address is none, `Exit::Unavailable` if nobody answers there.
pub(crate) async fn connect(bus: Option<String>) -> Result<Connection, Failure> {
    let bus = bus
        .or_else(|| std::env::var(VARIABLE).ok().filter(|bus| !bus.is_empty()))
        .unwrap_or_else(|| "system".into());
    let Ok(address) = bus.parse::<bus::Address>();
    address.connect().await.map_err(|error| match error {
        zbus::Error::Address(why) => Failure::new(
            Exit::Usage,
            format!(
                "--bus {bus}: {why}; give system, session, or an address such as unix:path=/run/bus"
            ),
        ),
        error => Failure::new(
            Exit::Unavailable,
            format!("bus {bus:?}: {error}; is dbus running, and is this the right --bus?"),
        ),
    })
}

/// The object that every client starts from.
///
/// # Errors
/// As `refused`.
pub(crate) async fn manager(
    connection: &Connection,
) -> Result<bus::proxy::ManagerProxy<'static>, Failure> {
    bus::proxy::ManagerProxy::new(connection)
        .await
        .map_err(|error| refused(error.into()))
}

/// What tells of the engine.
///
/// # Errors
/// As `refused`.
pub(crate) async fn diagnostics(
    connection: &Connection,
) -> Result<bus::proxy::DiagnosticsProxy<'static>, Failure> {
    bus::proxy::DiagnosticsProxy::new(connection)
        .await
        .map_err(|error| refused(error.into()))
}

/// Whether there is a daemon; none is started.
///
/// # Errors
/// If the bus does not answer.
pub(crate) async fn is_there(connection: &Connection) -> Result<bool, Failure> {
    let asked = async {
        let name = BusName::try_from(bus::NAME)?;
        let bus = DBusProxy::new(connection).await?;
        bus.name_has_owner(name).await.map_err(zbus::Error::from)
    };
    asked.await.map_err(|error| refused(error.into()))
}

/// What a request that was not accepted means: a daemon whose model cannot be loaded waits for a
/// person, any other one only for time.
pub(crate) async fn not_accepted(connection: &Connection, error: bus::Error) -> Failure {
    if !matches!(error, bus::Error::NotReady(_)) {
        return refused(error);
    }
    let state = async { manager(connection).await.ok()?.state().await.ok() };
    let failed = state.await.is_some_and(|state| state == "failed");
    let Failure { exit, message } = refused(error);
    Failure {
        exit: if failed { Exit::Config } else { exit },
        message,
    }
}
