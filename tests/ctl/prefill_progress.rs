//! The progress of `ask` while a long prompt is prefilled.

use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{ctl, run};
use crate::support::daemon::{Daemon, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn ask_reports_the_progress_of_the_prefill() {
    let daemon = Daemon::start("first=3600s").await;
    let mut child = ctl(&["--bus", daemon.bus.text(), "ask", "one two three"])
        .spawn()
        .expect("ganglionctl runs");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let line = eventually(lines.next_line()).await.expect("it is text");
    assert_eq!(line.as_deref(), Some("ganglionctl: reading: 0 of 3 tokens"));
    child.kill().await.expect("it runs");

    // Without a receipt there is no progress either.
    let daemon = Daemon::start("first=1500ms").await;
    let quiet = run(&["--bus", daemon.bus.text(), "ask", "-q", "one two three"]).await;
    assert_eq!((quiet.code, &*quiet.stderr), (Some(0), ""));
    assert_eq!(quiet.stdout, "sim: one two three\n");
}
