//! A session in use, while another connection of the same user tries to take it with invalid options.

use std::time::{Duration, Instant};

use ganglion::bus::proxy::{Fields, ManagerProxy, SessionProxy};
use tokio::time::{sleep, timeout};
use zbus::Variant;
use zbus::proxy::CacheProperties;

use crate::Failed;
use crate::outcomes::{Outcome, Outcomes, ending, manager};

const NAME: &str = "held";
const LATE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// Prints FAILED if the attempts change an answer or the session of its holder.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(seconds: &str) -> Result<(), Failed> {
    let until = Instant::now() + Duration::from_secs(seconds.parse()?);
    let manager = manager().await?;
    let session = hold(&manager).await?;
    let (held, taken) = tokio::join!(talk(&session, until), take(until));
    match held {
        Ok(outcomes) => print!("holder: {outcomes}"),
        Err(error) => println!("holder: FAILED: {error}"),
    }
    print!("taker: {taken}");
    // Both calls fail if the session was lost.
    let _ = session.close().await;
    let _ = manager.delete_session(NAME).await;
    Ok(())
}

async fn hold(manager: &ManagerProxy<'_>) -> Result<SessionProxy<'static>, Failed> {
    let named = Fields::from([
        ("name", Variant::from(NAME)),
        ("system", Variant::from("Be brief.")),
        ("context_overflow", Variant::from("truncate_oldest")),
        ("max_tokens", 4_u32.into()),
    ]);
    let path = manager.open_session(named).await?;
    let session = SessionProxy::builder(manager.inner().connection())
        .path(path)
        .cache_properties(CacheProperties::No);
    Ok(session.build().await?)
}

/// Runs turn after turn in the session. Each must be complete.
async fn talk(session: &SessionProxy<'_>, until: Instant) -> Result<Outcomes, Failed> {
    let mut outcomes = Outcomes::default();
    while Instant::now() < until {
        let (_, stream) = session.send("And now?", Fields::new()).await?;
        let Ok(outcome) = timeout(LATE, ending(stream)).await else {
            return Err("a turn has no end".into());
        };
        let outcome = outcome?;
        if !matches!(&*outcome.name, "stop" | "length") {
            return Err(format!("a turn ended with {}", outcome.name).into());
        }
        outcomes.add(outcome);
    }
    Ok(outcomes)
}

/// Tries to take the session with other initial messages, which is refused for an existing session, repeatedly on one connection.
async fn take(until: Instant) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let mut connected = None;
    while Instant::now() < until {
        if connected.is_none() {
            connected = manager().await.ok();
        }
        let Some(manager) = &connected else {
            outcomes.add(Outcome::new("disconnected", ""));
            sleep(PAUSE).await;
            continue;
        };
        let taking = Fields::from([
            ("name", Variant::from(NAME)),
            ("take", Variant::from(true)),
            ("system", Variant::from("Be long.")),
        ]);
        outcomes.add(match manager.open_session(taking).await {
            Ok(_) => Outcome::new("taken", ""),
            Err(error) => error.into(),
        });
    }
    outcomes
}
