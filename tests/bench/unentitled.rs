//! A client that requests `realtime` repeatedly without the right to it, over its own bus, next to the measured engine.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use ganglion::bus::proxy::ManagerProxy;
use ganglion::bus::{Address, Bus, BusConfig, Error, serve};
use ganglion::engine::Handle;
use ganglion::front::{self, Front};
use nix::unistd::geteuid;
use tokio::task::JoinHandle;

/// The engine on a bus where no group may use `realtime`.
pub(crate) struct Unentitled {
    daemon: Child,
    address: Address,
    _served: Bus,
}

impl Unentitled {
    /// Returns `None` and prints why if every user has the right or no bus can start.
    pub(crate) async fn new(engine: &Handle) -> Option<Self> {
        if geteuid().is_root() {
            println!("SKIPPED: clients without the right to realtime: root has the right");
            return None;
        }
        let daemon = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--print-address"])
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut daemon) = daemon else {
            println!(
                "SKIPPED: clients without the right to realtime: dbus-daemon is not installed"
            );
            return None;
        };
        let printed = daemon.stdout.take().expect("it is piped");
        let mut address = String::new();
        BufReader::new(printed)
            .read_line(&mut address)
            .expect("it prints its address");
        let address = Address::Other(address.trim().to_owned());
        let front = Front::new(engine.clone());
        front.configure(front::Config::default());
        let served = serve(&address, front).await;
        let served = served.expect("the name is free");
        served.configure(BusConfig::default());
        Some(Self {
            daemon,
            address,
            _served: served,
        })
    }

    /// Sends requests in sequence until it is aborted.
    pub(crate) fn asks(&self) -> JoinHandle<()> {
        tokio::spawn(ask(self.address.clone()))
    }
}

impl Drop for Unentitled {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

async fn ask(address: Address) {
    let connection = address.connect().await.expect("the bus takes a connection");
    let manager = ManagerProxy::new(&connection).await;
    let manager = manager.expect("the proxy is built");
    loop {
        let long = "Tell me a long story about myself.";
        let message = ("user", HashMap::from([("content", long.into())]));
        let options = HashMap::from([("priority", "realtime".into())]);
        let answer = manager.generate(&[message], options).await;
        let refused = matches!(&answer, Err(Error::InvalidOption(_)));
        assert!(refused, "it was not refused: {answer:?}");
    }
}
