//! `Complete`: a whole answer in the reply of one call, within the time that callers wait for a reply.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

use super::accounts::Load;
use super::delivery::Call;
use super::error::Error;
use super::likelihoods::Likelihoods;
use super::owner::ObjectOwner;
use super::proxy::Info;
use super::shared::Shared;
use super::{error, info};
use crate::engine::{Event, FinishReason, Options, Outcome, State, Ticket};
use crate::front::GivenMessages;

/// Answers `messages` before the deadline.
pub(super) async fn complete(
    call: Call<'_>,
    messages: GivenMessages,
    options: Options,
) -> Result<(String, Info), Error> {
    let (shared, ObjectOwner { caller, client }) = (call.shared, &call.owner);
    let _permit = shared.admit(client)?;
    let limit = shared.bus_config().await.complete_timeout;
    let deadline = Instant::now() + limit;
    let queue = shared.front.generate(client.clone(), messages, options);
    let Ok(queued) = timeout_at(deadline, queue).await else {
        return Err(late(shared, limit, ""));
    };
    let Ticket { id, mut events, .. } =
        queued.map_err(|refusal| shared.refused(client, refusal))?;
    if !shared.registry.add_awaited(&call.owner, id, call.header) {
        shared.engine.cancel(id);
    }
    let (mut text, mut likelihoods) = (String::new(), Likelihoods::default());
    let collected = collect(&mut events, &mut text, &mut likelihoods);
    let collected = timeout_at(deadline, collected).await;
    shared.registry.remove_request(caller, id);
    let Ok(outcome) = collected else {
        shared.engine.cancel(id);
        return Err(late(shared, limit, &text));
    };
    // Only the daemon's stop cancels it: the request has no object, and its caller waits.
    if outcome.reason == FinishReason::Cancelled {
        let message = "the daemon is stopping; try again when it has started";
        return Err(Error::Cancelled(message.to_owned()));
    }
    let need = Load {
        bytes: text.len() + info::bytes(&outcome) + likelihoods.bytes(),
        descriptors: 0,
    };
    // Long answers wait until the caller has read earlier ones.
    shared.accounts.room(&call.owner, call.header, need).await?;
    let mut info = info::result(&outcome);
    likelihoods.add_to(&mut info);
    outcome
        .error
        .map_or(Ok((text, info)), |error| Err(error.into()))
}

/// Returns the error of an answer that is not complete in time.
fn late(shared: &Shared, limit: Duration, text: &str) -> Error {
    let status = shared.engine.status().borrow();
    let seconds = limit.as_secs_f32();
    Error::Timeout(if status.state == State::Loading {
        format!(
            "the model is still loading after {seconds} s ({}); try again when State is \"ready\"",
            status.detail
        )
    } else if text.is_empty() {
        format!(
            "the answer did not begin within {seconds} s: other requests came first, or the prompt is long; call \
             Generate or Submit, which do not wait"
        )
    } else {
        format!(
            "the answer was not complete within {seconds} s (it had {} bytes); lower max_tokens, or call Generate or \
             Submit, which do not wait",
            text.len()
        )
    })
}

async fn collect(
    events: &mut UnboundedReceiver<Event>,
    text: &mut String,
    likelihoods: &mut Likelihoods,
) -> Outcome {
    loop {
        match events.recv().await {
            Some(Event::Text(more)) => text.push_str(&more),
            Some(Event::Likelihood(likelihood)) => likelihoods.push(&likelihood),
            // The outcome has these.
            Some(Event::Reasoning(_) | Event::Call(_)) => {}
            Some(Event::Done(outcome)) => return outcome,
            None => return error::engine_gone(),
        }
    }
}
