//! `ganglionctl reload`, as systemd runs it.

use super::run;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_of_reload_says_whether_the_configuration_is_applied() {
    let bus = PrivateBus::start();
    let reload = ["--bus", bus.text(), "reload"];
    assert_eq!(run(&reload).await.code, Some(69), "no daemon runs");

    let daemon = Process::start(&bus, "", "limits.sessions = 1\n").await;
    let done = run(&reload).await;
    assert_eq!((done.code, &*done.stderr), (Some(0), ""));

    daemon.configure("limits.sessions = 0\n");
    let refused = run(&reload).await;
    assert_eq!(refused.code, Some(78), "{refused:?}");
    let why = "gangliond.toml:1:19: limits.sessions = 0: it must be a whole number from 1";
    assert!(refused.stderr.contains(why), "{refused:?}");
}
