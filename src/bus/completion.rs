//! `Complete`: a whole answer within one call, and within the time that callers wait for a reply.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};
use zbus::Connection;

use super::authorize::Owner;
use super::proxy::Info;
use super::shared::Shared;
use super::{Error, error, info};
use crate::engine::{Event, FinishReason, Message, Options, Outcome, Ticket, Usage};

/// What the engine gets to notice a cancellation: a step of a slow model, not a whole prefill.
const GRACE: Duration = Duration::from_secs(2);

/// Answers `messages`, or as much as there is at the deadline.
pub(super) async fn complete(
    shared: &Arc<Shared>,
    connection: &Connection,
    Owner { caller, client }: &Owner,
    messages: Vec<Message>,
    options: Options,
) -> Result<(String, Info), Error> {
    let _place = shared.admit(client)?;
    let deadline = Instant::now() + shared.config().await.complete_timeout;
    let Ticket {
        id,
        mut events,
        cancel,
    } = shared
        .engine
        .generate(client.clone(), messages, options)
        .await
        .map_err(|refusal| shared.refused(client, refusal))?;
    shared.own_request(connection, caller, id, &cancel);
    let mut text = String::new();
    let collected = timeout_at(deadline, collect(&mut events, &mut text)).await;
    let late = collected.is_err();
    let outcome = if let Ok(outcome) = collected {
        outcome
    } else {
        shared.engine.cancel(id, &cancel);
        let rest = timeout_at(deadline + GRACE, collect(&mut events, &mut text)).await;
        rest.unwrap_or_else(|_| unanswered())
    };
    shared.owned.remove_request(caller, id);
    // It has no object, and its caller waits: nobody else cancels it.
    if outcome.reason == FinishReason::Cancelled && !late {
        let message = "the daemon is stopping; ask again when it has started";
        return Err(Error::Cancelled(message.to_owned()));
    }
    let mut info = info::outcome(&outcome);
    info.insert("timeout".to_owned(), late.into());
    outcome
        .error
        .map_or(Ok((text, info)), |error| Err(error.into()))
}

async fn collect(events: &mut UnboundedReceiver<Event>, text: &mut String) -> Outcome {
    loop {
        match events.recv().await {
            Some(Event::Text(more)) => text.push_str(&more),
            Some(Event::Done(outcome)) => return outcome,
            None => return error::engine_gone(),
        }
    }
}

/// Of a request that the engine was too busy to end.
fn unanswered() -> Outcome {
    Outcome {
        reason: FinishReason::Cancelled,
        usage: Usage::default(),
        error: None,
    }
}
