//! Brings one request from its call to its owner: queue, object, reply, stream, `Finished`, and the end of the object.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::unix::pipe::Sender;
use tokio::sync::mpsc::UnboundedReceiver;
use zbus::message::Header;
use zbus::object_server::{ResponseDispatchListener, ResponseDispatchNotifier, SignalEmitter};
use zbus::{Connection, OwnedObjectPath};

use super::accounts::Load;
use super::authorize::Owner;
use super::options::Stream;
use super::output::Output;
use super::permits::Permit;
use super::request::{Ended, Request, RequestSignals, Running};
use super::shared::Shared;
use super::stream::{self, Abandoned};
use super::{Error, deltas, objects, undelivered};
use crate::engine::{Event, FinishReason, Outcome, Refusal, Ticket};
use crate::journal;

/// The request's object; dropped once the reply has been sent, which `Finished` waits for.
pub(super) type Replied = ResponseDispatchNotifier<OwnedObjectPath>;

/// A call that asks, and whose it is.
pub(super) struct Call<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) connection: &'a Connection,
    pub(super) header: &'a Header<'a>,
    pub(super) owner: Owner,
}

/// How text reaches the caller.
enum Way {
    Pipe(Sender),
    Signals,
    Calls,
}

impl Call<'_> {
    /// Queues a request whose text goes through a pipe, and sees it through. `queue` is polled only once there is room
    /// for it.
    pub(super) async fn stream(
        self,
        stream: Stream,
        queue: impl Future<Output = Result<Ticket, Refusal>>,
    ) -> Result<(Replied, zbus::OwnedFd), Error> {
        let shared = self.shared;
        let permit = shared.admit(&self.owner.client)?;
        let caller = self.owner.caller.name();
        if shared.accounts.is_without_descriptors(caller) {
            return Err(undelivered::error());
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
        let way = match stream {
            Stream::Pipe => Way::Pipe(pipe),
            Stream::Signals => Way::Signals,
        };
        let reply = self.start(permit, way, queue).await?;
        Ok((reply, OwnedFd::from(reader).into()))
    }

    /// The same for a request whose text is read by calls, and sent by signals if they are wanted.
    pub(super) async fn submit(
        self,
        signals: bool,
        queue: impl Future<Output = Result<Ticket, Refusal>>,
    ) -> Result<Replied, Error> {
        let permit = self.shared.admit(&self.owner.client)?;
        let way = if signals { Way::Signals } else { Way::Calls };
        self.start(permit, way, queue).await
    }

    async fn start(
        self,
        permit: Permit,
        way: Way,
        queue: impl Future<Output = Result<Ticket, Refusal>>,
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
        let output = match way {
            Way::Pipe(_) => None,
            Way::Signals | Way::Calls => Some(Output::default()),
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
        tokio::spawn(delivery.run(way));
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
    async fn run(mut self, way: Way) {
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
        if let Way::Pipe(pipe) = way {
            let stall = self.shared.config().await.stream_stall;
            let written = stream::write(&mut self.events, &pipe, stall, end).await;
            if let Err(abandoned) = written {
                abandon(&self.shared, &self.running, self.events, abandoned).await;
            }
            self.replied.await;
            // Its permit is taken as long as there is something to read.
            tokio::spawn(stream::drained(pipe, self.permit));
        } else if let Some(output) = output {
            self.replied.await;
            let truncated = if let Way::Signals = way {
                let stall = self.shared.config().await.stream_stall;
                let taken = self.shared.accounts.taking(&owner.caller, stall);
                deltas::emit(&mut self.events, output, &emitter, &taken, end).await
            } else {
                deltas::keep(&mut self.events, output, end).await
            };
            if truncated {
                annotate(
                    &self.running,
                    "the text exceeds 1 MiB, or its signals were not read; they stopped there",
                );
            }
        }
        if let Some(ending) = self.running.ending() {
            // An owner that has left is noticed elsewhere.
            let reason = ending.outcome.reason.name();
            let _ = emitter.finished(reason, ending.receipt()).await;
        }
        let linger = self.shared.config().await.finished_linger;
        let until = std::time::Instant::now() + linger;
        if let Some(oldest) = self.shared.registry.finish_request(owner, *id, until) {
            Request::remove(&self.connection, oldest).await;
        }
    }
}

/// Cancels a request that nobody reads, and waits until the engine has let go of it.
async fn abandon(
    shared: &Shared,
    running: &Running,
    mut events: UnboundedReceiver<Event>,
    abandoned: Abandoned,
) {
    if abandoned == Abandoned::Stalled {
        let client = &running.owner.client;
        let stall = shared.config().await.stream_stall.as_secs_f32();
        journal::slow_reader(running.id, &client.name, client.user, stall);
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
