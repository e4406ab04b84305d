//! The resources of a process once they no longer change.

use std::time::Duration;

use super::leaks::Held;

const PAUSE: Duration = Duration::from_millis(100);

/// Returns the figures once they are stable for longer than tokio keeps an idle blocking thread, or after two minutes.
pub(crate) async fn at_rest(process: u32) -> Held {
    let mut held = Held::by(process).unwrap();
    let mut same = 0;
    for _ in 0..1200 {
        if same == 120 {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        let now = Held::by(process).unwrap();
        let alike = (now.descriptors, now.threads) == (held.descriptors, held.threads);
        same = if alike { same + 1 } else { 0 };
        held = now;
    }
    held
}

/// Returns the figures once they are at most `before`, or after a long time.
pub(crate) async fn settled(process: u32, before: Held) -> Held {
    let mut held = Held::by(process).unwrap();
    for _ in 0..300 {
        if held.descriptors <= before.descriptors && held.threads <= before.threads {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        held = Held::by(process).unwrap();
    }
    held
}
