//! `/v1/chat/completions`: from its JSON to a request of the engine, and from its events to JSON.
//!
//! `fields` is the table of fields. `request` decodes a body, with `messages`, `images` and `options`. `whole` and
//! `chunks` write answers in the form of `answer`, and `stream` sends chunks.

mod answer;
mod chunks;
pub(super) mod fields;
mod images;
mod messages;
mod options;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod whole;

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::error::Error;
use super::models;
use super::running::Running;
use super::session;
use super::shared::Shared;
use crate::engine::{Client, Event};
use crate::front;
use answer::Heading;
use chunks::Chunks;
use request::Asked;
use stream::Stream;
use whole::Collected;

/// Bodies with more bytes are decoded on a thread that may be busy for long.
const LARGE: usize = 64 << 10;

/// Answers one conversation.
pub(super) async fn completions(
    State(shared): State<Shared>,
    Extension(client): Extension<Client>,
    body: Bytes,
) -> Result<Response, Error> {
    let front = &shared.front;
    let permit = front.admit(&client)?;
    let status = models::ready(&shared)?;
    let asked = decode(body).await?;
    if let Some(model) = &asked.model {
        models::check(&status.model, model)?;
    }
    let Asked {
        messages,
        options,
        stream,
        include_usage,
        ..
    } = asked;
    let heading = Heading {
        id: id()?,
        created: seconds(),
        model: status.model.name.clone(),
    };
    let in_terms = |error| Error::of_front(error, &options.fields);
    let config = front.config().await;
    let (session, config, messages) = match options.session.clone() {
        None => (None, config, messages),
        Some(name) => {
            let opened = session::open(front, &client, &heading.id, name, messages).await?;
            let (session, config, messages) = opened;
            (Some(session), config.into(), messages)
        }
    };
    let read = front::request(&options.given, &config).map_err(in_terms)?;
    let admitted = front.admit_priority(&client, read.priority).await;
    admitted.map_err(in_terms)?;
    let queued = match &session {
        None => front.generate(client.clone(), messages, read).await,
        Some(of) => front.reply(&of.client, of.lease, messages, read).await,
    };
    let ticket = queued.map_err(|refusal| in_terms(front.refused(&client, refusal)))?;
    let mut running = Running::new(front.engine().clone(), ticket, permit, session);
    // An error that comes before all text has a status.
    let first = running.next().await;
    if let Event::Done(outcome) = &first
        && let Some(error) = Error::of_outcome(outcome)
    {
        return Err(error);
    }
    if stream {
        let chunks = Chunks::new(heading, include_usage);
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        let body = Body::new(Stream::new(running, chunks, first));
        return Ok((headers, body).into_response());
    }
    let mut collected = Collected::default();
    let mut event = first;
    let outcome = loop {
        if let Some(outcome) = collected.push(event) {
            break outcome;
        }
        event = running.next().await;
    };
    let json = collected.json(&heading, &outcome)?;
    let kind = [(header::CONTENT_TYPE, "application/json")];
    Ok((kind, running.body(json)).into_response())
}

async fn decode(body: Bytes) -> Result<Asked, Error> {
    if body.len() <= LARGE {
        return Asked::read(&body);
    }
    let decoded = tokio::task::spawn_blocking(move || Asked::read(&body));
    decoded.await.unwrap_or_else(|_| {
        let why = "the body could not be decoded; report this";
        Err(Error::invalid(None, why))
    })
}

/// Returns a new id of an answer.
fn id() -> Result<String, Error> {
    let random = || getrandom::u64().map_err(|error| front::Error::NoRandomness(error.to_string()));
    Ok(format!("chatcmpl-{:016x}{:016x}", random()?, random()?))
}

fn seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
