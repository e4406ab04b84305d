//! From a decoded request to the response with its answer.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use tokio::time::timeout;

use super::super::chain::{self, StoredTurn};
use super::super::error::Error;
use super::super::held::Held;
use super::super::models;
use super::super::request::question::Question;
use super::super::running::Running;
use super::super::session;
use super::super::shared::Shared;
use super::super::stored::Stored;
use super::super::terms::Terms;
use super::heading::Heading;
use super::stream::{self, Writer};
use super::whole::Whole;
use crate::engine::{Client, Event, Status};
use crate::front::{self, Front, Permit};

/// A caller with a permit for one request, and the model that will answer it.
#[derive(Debug)]
pub(in crate::http) struct Admitted {
    front: Front,
    stored: Stored,
    client: Client,
    permit: Permit,
    status: Arc<Status>,
}

/// A request that the engine has accepted.
#[derive(Debug)]
pub(in crate::http) struct Begun {
    pub(in crate::http) heading: Heading,
    pub(in crate::http) running: Running,
}

impl Admitted {
    /// Takes a permit, before the request is decoded.
    ///
    /// # Errors
    /// If a limit of requests is reached, or there is no model.
    pub(in crate::http) fn new(shared: &Shared, client: Client) -> Result<Self, Error> {
        let front = shared.front.clone();
        let permit = front.admit(&client)?;
        let status = models::ready(shared)?;
        Ok(Self {
            front,
            stored: shared.stored.clone(),
            client,
            permit,
            status,
        })
    }

    /// Returns the number of tokens of a request's prompt. The messages of a session are not counted.
    ///
    /// # Errors
    /// In the `terms` of the endpoint.
    pub(in crate::http) async fn count(
        self,
        question: Question,
        terms: &Terms,
    ) -> Result<usize, Error> {
        let Self {
            front,
            client,
            permit,
            status,
            ..
        } = self;
        let Question {
            model,
            messages,
            options,
            ..
        } = question;
        if let Some(model) = &model {
            models::check(&status.model, model)?;
        }
        let in_terms = |error| Error::of_front(error, terms, &options.fields);
        let config = front.config().await;
        let read = front::request(&options.given, &config).map_err(in_terms)?;
        let opened = front.open_images(&client, messages).await;
        let messages = opened.map_err(in_terms)?;
        let counted = front.engine().count_tokens(&client, messages, read).await;
        drop(permit);
        counted.map_err(|refusal| in_terms(front.refused(&client, refusal)))
    }

    /// Queues a request.
    ///
    /// # Errors
    /// In the `terms` of the endpoint, whose ids begin with `prefix`.
    pub(in crate::http) async fn begin(
        self,
        question: Question,
        prefix: &str,
        terms: &Terms,
    ) -> Result<Begun, Error> {
        let Self {
            front,
            stored,
            client,
            permit,
            status,
        } = self;
        let Question {
            model,
            messages,
            options,
            chain,
            is_as_written,
        } = question;
        if let Some(model) = &model {
            models::check(&status.model, model)?;
        }
        let heading = Heading::new(prefix, &status.model.name)?;
        let in_terms = |error| Error::of_front(error, terms, &options.fields);
        let config = front.config().await;
        let (session, config, messages) = match options.session.clone() {
            Some(_) if chain.has_session() => {
                let field = "ganglion.session";
                let why = "a session is stored anyway; leave out ganglion.session, or store and previous_response_id";
                return Err(Error::invalid(Some(field), why));
            }
            Some(name) => {
                let said = (messages, terms);
                let opened = session::open(&front, &client, &heading.id, name, said).await?;
                let (session, config, messages) = opened;
                (Some(Held::Named(session)), config.into(), messages)
            }
            None if chain.has_session() => {
                let of = (&front, &stored);
                let opened = StoredTurn::open(of, &client, &heading.id, &chain, messages).await?;
                let (turn, messages) = opened;
                (Some(Held::Stored(turn)), config, messages)
            }
            None => (None, config, messages),
        };
        let mut read = front::request(&options.given, &config).map_err(in_terms)?;
        read.is_as_written = is_as_written;
        let admitted = front.admit_priority(&client, read.priority).await;
        admitted.map_err(in_terms)?;
        let queued = match &session {
            None => front.generate(client.clone(), messages, read).await,
            Some(of) => front.reply(of.client(), of.lease(), messages, read).await,
        };
        let ticket = queued.map_err(|refusal| {
            let error = in_terms(front.refused(&client, refusal));
            match &session {
                Some(Held::Stored(_)) => chain::of_session(error),
                _ => error,
            }
        })?;
        let running = Running::new(front.engine().clone(), ticket, permit, session);
        Ok(Begun { heading, running })
    }
}

impl Begun {
    /// Returns the response with the whole answer.
    ///
    /// # Errors
    /// In the `terms` of the endpoint, if the request ends with an error.
    pub(in crate::http) async fn whole(
        mut self,
        mut whole: impl Whole,
        terms: &Terms,
    ) -> Result<Response, Error> {
        let first = self.first(terms).await?;
        let Self {
            heading,
            mut running,
        } = self;
        let outcome = running.collect(first, |event| whole.collect(event)).await;
        let json = whole.json(&heading, &outcome)?;
        Ok(running.json(json))
    }

    /// Returns the response with a streamed answer, which the result of `writer` writes. After each `silence` it has a sign of
    /// life.
    ///
    /// # Errors
    /// In the `terms` of the endpoint, if the request ends with an error before all text and within `silence`.
    pub(in crate::http) async fn streamed<W: Writer>(
        mut self,
        writer: impl FnOnce(Heading, &Running) -> W,
        silence: Duration,
        terms: &Terms,
    ) -> Result<Response, Error> {
        let first = self.first_within(silence, terms).await?;
        let writer = writer(self.heading, &self.running);
        Ok(stream::response(self.running, writer, first, silence))
    }

    /// Waits for the first event.
    ///
    /// # Errors
    /// If the request ends with an error before all text.
    async fn first(&mut self, terms: &Terms) -> Result<Event, Error> {
        let first = self.running.next().await;
        if let Event::Done(outcome) = &first
            && let Some(error) = Error::of_outcome(outcome, terms)
        {
            return Err(error);
        }
        Ok(first)
    }

    /// Waits for the first event of a stream, but not longer than `silence`; `None` if it has not arrived by then.
    ///
    /// # Errors
    /// If the request ends with an error before all text. A later error is an event of the stream.
    pub(super) async fn first_within(
        &mut self,
        silence: Duration,
        terms: &Terms,
    ) -> Result<Option<Event>, Error> {
        timeout(silence, self.first(terms)).await.ok().transpose()
    }
}
