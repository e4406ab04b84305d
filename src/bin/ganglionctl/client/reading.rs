//! How far the reading of a prompt has got, for a person who waits: a long one takes a CPU minutes.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use ganglion::bus::proxy::RequestProxy;
use tokio::time::sleep;

/// What comes sooner needs no word.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// What there is to be said of it; nothing while the request waits, or once the prompt is read.
pub(crate) async fn line(request: &RequestProxy<'_>) -> Option<String> {
    let (read, of) = request.reading().await.ok()?;
    (read < of).then(|| format!("reading: {read} of {of} tokens"))
}

/// Awaits `future`, and says meanwhile on standard error how the reading goes: in a terminal in one line that vanishes,
/// elsewhere once.
pub(crate) async fn during<T>(request: &RequestProxy<'_>, future: impl Future<Output = T>) -> T {
    let mut shown = Shown {
        turns: io::stderr().is_terminal(),
        any: false,
    };
    tokio::select! {
        biased;
        result = future => result,
        never = say(request, &mut shown) => match never {},
    }
}

async fn say(request: &RequestProxy<'_>, shown: &mut Shown) -> Infallible {
    sleep(PATIENCE).await;
    loop {
        if let Some(line) = line(request).await {
            shown.show(&line);
        }
        sleep(PAUSE).await;
    }
}

/// The line, until this is dropped.
struct Shown {
    turns: bool,
    any: bool,
}

impl Shown {
    fn show(&mut self, line: &str) {
        if self.turns {
            eprint!("\r\x1b[K{line}");
        } else if !self.any {
            eprintln!("{line}");
        }
        self.any = true;
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if self.turns && self.any {
            eprint!("\r\x1b[K");
        }
    }
}
