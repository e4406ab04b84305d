//! The bus connection is lost: the process survives, keeps its model, and owns its name again.

use std::collections::HashMap;

use super::gangliond::{Gangliond, ask, client};
use crate::support::daemon::until;
use crate::support::private_bus::PrivateBus;
use crate::support::stream::Reader;

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_reconnects_to_the_bus_with_the_loaded_model() {
    let mut bus = PrivateBus::start();
    let mut daemon = Gangliond::scripted(&bus, "load=300ms", "");
    daemon.await_notification("READY=1").await;
    for _ in 0..3 {
        let process = daemon.process();
        let before = client(&bus).await;
        let session = before.open_session(HashMap::new()).await.unwrap();
        assert_eq!(before.sessions().await.unwrap(), 1);
        daemon.pending_notifications().await;

        bus.restart();
        daemon.await_line("the connection to the bus is lost").await;
        let after = client(&bus).await;
        until(async || after.state().await.is_ok_and(|state| state == "ready")).await;
        let stream = ask(&after, "one two").await.unwrap();
        assert_eq!(Reader::new(stream).rest().await, "sim: one two");
        assert_eq!(after.sessions().await.unwrap(), 0, "{session:?} is gone");
        assert_eq!(daemon.process(), process);
        let sent = daemon.pending_notifications().await;
        assert!(
            !sent.iter().any(|line| line.contains("loading")),
            "{sent:?}"
        );
    }
}
