//! Conversations that are cleared after a long turn: when it has ended, while a step may be ahead, or while pages are saved.
//! The next prompt begins with the same few tokens, whose pages have left the windows.

use std::ops::Range;

use super::sequences::{AT_ONCE, Cold, Model, Place, Said, keep_in_host, kept};

/// The number of words of a long message, whose turn has more than `LONG` tokens.
const WORDS: Range<usize> = 100..101;
const LONG: u32 = 256;

/// Compares the first answers after each of some clears with a cold engine's.
pub(crate) async fn answers(model: &Model) {
    let (place, cold) = (Place::new(model), Cold::start(model).await);
    let mut daemon = place.start(AT_ONCE).await;
    let session = daemon.open().await;
    let mut random = fastrand::Rng::with_seed(54);
    for in_host in [true, false] {
        keep_in_host(&daemon, in_host);
        for (is_partial, is_saved) in [(true, false), (false, false), (false, true)] {
            let long = Said::some(&mut random, WORDS);
            // Files that are written from now on are of this turn.
            daemon.pages.delete(&kept());
            if is_partial {
                daemon.cancel(daemon.send(session, &long).await).await;
            } else {
                daemon.say(session, &long).await;
            }
            assert!(daemon.used(session) > LONG);
            if is_saved {
                daemon.has(&kept()).await;
            }
            // Otherwise the pages are being saved, which begins when a turn ends.
            let cleared = daemon.handle.clear_session(session);
            cleared.await.expect("it is idle");
            let short = Said::some(&mut random, 1..4);
            let expected = cold.answer(&place, &short).await;
            let answer = daemon.say(session, &short).await;
            answer.assert_equals(&expected, &short);
            let usage = answer.usage;
            assert_eq!((usage.cached_tokens, usage.restored), (0, 0), "{usage:?}");
        }
    }
    daemon.stop().await;
    cold.stop().await;
}
