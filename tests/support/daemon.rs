//! The bus interfaces over the scripted engine, on a private bus.

use std::time::Duration;

use ganglion::bus::proxy::{ManagerProxy, RequestProxy, SessionProxy};
use ganglion::bus::{Bus, BusConfig, serve};
use ganglion::engine::sim::{self, Script};
use ganglion::engine::{Handle, Limits, Share, State, UserLimits, channel};
use ganglion::front::{self, Front};
use zbus::proxy::CacheProperties;
use zbus::{Connection, OwnedObjectPath};

use super::private_bus::PrivateBus;

/// An in-process daemon and its bus.
pub(crate) struct Daemon {
    pub(crate) bus: PrivateBus,
    pub(crate) engine: Handle,
    front: Front,
    served: Bus,
}

/// Settings of the bus, and of all front ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) bus: BusConfig,
    pub(crate) front: front::Config,
}

impl From<BusConfig> for Settings {
    fn from(bus: BusConfig) -> Self {
        Self {
            bus,
            ..Self::default()
        }
    }
}

impl From<front::Config> for Settings {
    fn from(front: front::Config) -> Self {
        Self {
            front,
            ..Self::default()
        }
    }
}

/// Limits for tests, where one user may use everything.
pub(crate) const LIMITS: Limits = Limits {
    requests: 256,
    queue: 8,
    sessions: 4,
    prefill: Share {
        slice: Duration::from_millis(20),
        percent: 50,
    },
    grammar: ganglion::guide::Limits::USUAL,
    user: UserLimits {
        requests: 256,
        sessions: 4,
        queue_percent: 100,
        kv_percent: 100,
    },
};

/// A longer wait means that the awaited event never happens. No test depends on the exact value.
pub(crate) const EVENTUALLY: Duration = Duration::from_secs(180);

impl Daemon {
    /// Starts it with `script` and a queue of 8.
    pub(crate) async fn start(script: &str) -> Self {
        Self::with(script, 8, BusConfig::default()).await
    }

    pub(crate) async fn with(script: &str, queue: usize, settings: impl Into<Settings>) -> Self {
        let bus = PrivateBus::start();
        let script: Script = script.parse().expect("the script is valid");
        let (engine, inbox) = channel(Limits { queue, ..LIMITS });
        let front = Front::new(engine.clone());
        let served = serve(&bus.address(), front.clone())
            .await
            .expect("the name is free");
        let settings = settings.into();
        front.configure(settings.front);
        served.configure(settings.bus);
        let loads = !script.load.is_zero() || script.load_error.is_some();
        std::thread::spawn(move || sim::run(&inbox, &script));
        if !loads {
            let mut status = engine.status();
            let ready = status.wait_for(|status| status.state == State::Ready);
            eventually(ready).await.expect("the engine lives");
        }
        Self {
            bus,
            engine,
            front,
            served,
        }
    }

    /// Returns what all front ends share.
    pub(crate) fn front(&self) -> &Front {
        &self.front
    }

    /// Applies another configuration.
    pub(crate) fn configure(&self, settings: impl Into<Settings>) {
        let settings = settings.into();
        self.front.configure(settings.front);
        self.served.configure(settings.bus);
    }

    /// Connects a new client.
    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.bus).await
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.engine.cancel_all();
        self.engine.close();
    }
}

/// A client connection to the daemon.
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) manager: ManagerProxy<'static>,
}

impl Client {
    pub(crate) async fn connect(bus: &PrivateBus) -> Self {
        Self::on(bus.connect().await).await
    }

    pub(crate) async fn on(connection: Connection) -> Self {
        let manager = ManagerProxy::builder(&connection)
            .cache_properties(CacheProperties::No)
            .build()
            .await
            .expect("the proxy is built");
        Self {
            connection,
            manager,
        }
    }

    pub(crate) async fn session(&self, path: OwnedObjectPath) -> SessionProxy<'static> {
        SessionProxy::new(&self.connection, path)
            .await
            .expect("the proxy is built")
    }

    pub(crate) async fn request(&self, path: OwnedObjectPath) -> RequestProxy<'static> {
        RequestProxy::new(&self.connection, path)
            .await
            .expect("the proxy is built")
    }
}

/// Awaits a future that must complete.
pub(crate) async fn eventually<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(EVENTUALLY, future)
        .await
        .expect("it comes")
}

/// Polls until `check` returns true.
pub(crate) async fn until(mut check: impl AsyncFnMut() -> bool) {
    eventually(async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
