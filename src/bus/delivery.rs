//! The life of one request: queue, object, reply, stream, `Finished`, and the end of the object.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::unix::pipe::Sender;
use tokio::sync::mpsc::UnboundedReceiver;
use zbus::message::Header;
use zbus::object_server::{ResponseDispatchListener, ResponseDispatchNotifier, SignalEmitter};
use zbus::{Connection, OwnedObjectPath};

use super::accounts::Load;
use super::error::Error;
use super::options::Stream;
use super::output::Output;
use super::owner::ObjectOwner;
use super::request::{Ended, Request, RequestSignals, Running};
use super::shared::Shared;
use super::stream::{self, Abandoned};
use super::{deltas, objects, returned_answers};
use crate::engine::{Event, FinishReason, Outcome, Ticket};
use crate::front::{self, Permit};
use crate::journal;

/// The path of the request's object; dropped when the reply has been sent, which `Finished` waits for.
pub(super) type Replied = ResponseDispatchNotifier<OwnedObjectPath>;

/// A call that makes a request, and its owner.
pub(super) struct Call<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) connection: &'a Connection,
    pub(super) header: &'a Header<'a>,
    pub(super) owner: ObjectOwner,
}

/// How text reaches the caller.
enum Channel {
    Pipe(Sender),
    Signals,
    Calls,
}

impl Call<'_> {
    /// Makes a request with a pipe. `queue` is polled only after a permit and room on the bus were found.
    pub(super) async fn stream(
        self,
        stream: Stream,
        queue: impl Future<Output = Result<Ticket, impl Into<front::Error>>>,
    ) -> Result<(Replied, zbus::OwnedFd), Error> {
        let shared = self.shared;
        let permit = shared.admit(&self.owner.client)?;
        let caller = self.owner.caller.name();
        if shared.accounts.is_without_descriptors(caller) {
            return Err(returned_answers::error());
        }
        let one = Load {
            bytes: 0,
            descriptors: 1,
        };
        shared.accounts.room(&self.owner, self.header, one).await?;
        let (pipe, reader) = stream::open().map_err(|error| {
            Error::Busy(format!(
                "no pipe could be made ({error}); try again when other requests have finished"
            ))
        })?;
        let channel = match stream {
            Stream::Pipe => Channel::Pipe(pipe),
            Stream::Signals => Channel::Signals,
        };
        let reply = self.start(permit, channel, queue).await?;
        Ok((reply, OwnedFd::from(reader).into()))
    }

    /// Makes a request whose text is read by calls, and sent by signals if `signals`.
    pub(super) async fn submit(
        self,
        signals: bool,
        queue: impl Future<Output = Result<Ticket, impl Into<front::Error>>>,
    ) -> Result<Replied, Error> {
        let permit = self.shared.admit(&self.owner.client)?;
        let channel = if signals {
            Channel::Signals
        } else {
            Channel::Calls
        };
        self.start(permit, channel, queue).await
    }

    async fn start(
        self,
        permit: Permit,
        channel: Channel,
        queue: impl Future<Output = Result<Ticket, impl Into<front::Error>>>,
    ) -> Result<Replied, Error> {
        let Self {
            shared,
            connection,
            header,
            owner,
        } = self;
        let Ticket {
            id,
            events,
            reading,
        } = queue
            .await
            .map_err(|refusal| shared.refused(&owner.client, refusal))?;
        let output = match channel {
            Channel::Pipe(_) => None,
            Channel::Signals | Channel::Calls => Some(Output::default()),
        };
        let running = Arc::new(Running::new(id, owner, reading, output));
        let path = Request::path(id);
        let object = Request {
            shared: shared.clone(),
            running: running.clone(),
        };
        if let Err(error) = objects::put(connection, &path, object).await {
            shared.engine.cancel(id);
            return Err(error);
        }
        if !shared.registry.add_request(&running.owner, id, header) {
            shared.engine.cancel(id);
        }
        let (reply, replied) = ResponseDispatchNotifier::new(path);
        let delivery = Delivery {
            shared: shared.clone(),
            connection: connection.clone(),
            running,
            events,
            replied,
            permit,
        };
        tokio::spawn(delivery.run(channel));
        Ok(reply)
    }
}

struct Delivery {
    shared: Arc<Shared>,
    connection: Connection,
    running: Arc<Running>,
    events: UnboundedReceiver<Event>,
    replied: ResponseDispatchListener,
    permit: Permit,
}

impl Delivery {
    async fn run(mut self, channel: Channel) {
        let Running {
            id, owner, output, ..
        } = &*self.running;
        let path = Request::path(*id);
        let emitter = SignalEmitter::from_parts(self.connection.clone(), path.into_inner())
            .set_destination(owner.caller.bus_name());
        let end = |outcome| {
            self.running.end(Ended {
                outcome,
                note: None,
            });
        };
        if let Channel::Pipe(pipe) = channel {
            let stall = self.shared.bus_config().await.stream_stall;
            let written = stream::write(&mut self.events, &pipe, stall, end).await;
            if let Err(abandoned) = written {
                abandon(&self.shared, &self.running, self.events, abandoned).await;
            }
            self.replied.await;
            // The permit stays taken until the reader has everything.
            tokio::spawn(stream::drained(pipe, self.permit));
        } else if let Some(output) = output {
            self.replied.await;
            let truncated = if let Channel::Signals = channel {
                let stall = self.shared.bus_config().await.stream_stall;
                let flow = self.shared.accounts.signal_flow(&owner.caller, stall);
                deltas::emit(&mut self.events, output, &emitter, &flow, end).await
            } else {
                deltas::store(&mut self.events, output, end).await
            };
            if truncated {
                annotate(
                    &self.running,
                    "the text exceeds 1 MiB, or its signals were not read; both stop there",
                );
            }
        }
        if let Some(ending) = self.running.ending() {
            // `departures` notices an owner that has left.
            let reason = ending.outcome.reason.name();
            let _ = emitter.finished(reason, ending.receipt()).await;
        }
        let linger = self.shared.bus_config().await.finished_linger;
        let until = std::time::Instant::now() + linger;
        if let Some(oldest) = self.shared.registry.finish_request(owner, *id, until) {
            Request::remove(&self.connection, oldest).await;
        }
    }
}

/// Cancels a request whose stream is not read, and waits for its end.
async fn abandon(
    shared: &Shared,
    running: &Running,
    mut events: UnboundedReceiver<Event>,
    abandoned: Abandoned,
) {
    if abandoned == Abandoned::Stalled {
        let client = &running.owner.client;
        let stall = shared.bus_config().await.stream_stall.as_secs_f32();
        journal::slow_reader(running.id, client.name.as_str(), client.user, stall);
    }
    shared.engine.cancel(running.id);
    let mut usage = running.ending().map(|ending| ending.outcome.usage);
    while let Some(event) = events.recv().await {
        if let Event::Done(outcome) = event {
            usage = Some(outcome.usage);
        }
    }
    running.end(Ended {
        outcome: Outcome::new(FinishReason::Cancelled, usage.unwrap_or_default(), None),
        note: Some(match abandoned {
            Abandoned::Closed => "the reader closed its end of the stream",
            Abandoned::Stalled => "the reader read nothing for stream.stall_seconds",
        }),
    });
}

fn annotate(running: &Running, note: &'static str) {
    if let Some(ending) = running.ending() {
        running.end(Ended {
            note: Some(note),
            ..ending
        });
    }
}
