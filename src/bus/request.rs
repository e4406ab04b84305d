//! `org.ganglion.Llm1.Request`: a running request, or one that ended within the last minute, for its owner alone.
//!
//! `config/interfaces/org.ganglion.Llm1.Request.xml` describes each member.

// zbus hands headers over by value.
#![allow(clippy::needless_pass_by_value)]

use std::sync::Arc;

use parking_lot::Mutex;
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, OwnedObjectPath, Str, interface};

use super::accounts::Load;
use super::error::Error;
use super::output::{Output, Piece};
use super::owner::ObjectOwner;
use super::proxy::Info;
use super::registry::ObjectKind;
use super::shared::Shared;
use super::{info, objects};
use crate::engine::{Outcome, Reading, WaitEstimate};

/// A request, shared by its object and its delivery.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) id: u64,
    pub(super) owner: ObjectOwner,
    reading: Reading,
    /// The text, if calls read it.
    pub(super) output: Option<Output>,
    ending: Mutex<Option<Ended>>,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// A fact that the outcome does not have.
    pub(super) note: Option<&'static str>,
}

impl Ended {
    /// Returns the short facts, for the signal.
    pub(super) fn receipt(&self) -> Info {
        self.noted(info::outcome(&self.outcome))
    }

    fn result(&self) -> Info {
        self.noted(info::result(&self.outcome))
    }

    fn noted(&self, mut info: Info) -> Info {
        if let Some(note) = self.note {
            info.entry("message".to_owned())
                .or_insert_with(|| Str::from_static(note).into());
        }
        info
    }
}

impl Running {
    pub(super) fn new(
        id: u64,
        owner: ObjectOwner,
        reading: Reading,
        output: Option<Output>,
    ) -> Self {
        Self {
            id,
            owner,
            reading,
            output,
            ending: Mutex::default(),
        }
    }

    pub(super) fn end(&self, ending: Ended) {
        *self.ending.lock() = Some(ending);
    }

    pub(super) fn ending(&self) -> Option<Ended> {
        self.ending.lock().clone()
    }
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) shared: Arc<Shared>,
    pub(super) running: Arc<Running>,
}

impl Request {
    pub(super) fn path(id: u64) -> OwnedObjectPath {
        objects::path(ObjectKind::Request, id)
    }

    /// Removes the object of a request, if there is one.
    pub(super) async fn remove(connection: &Connection, id: u64) {
        let server = connection.object_server();
        let _ = server.remove::<Self, _>(Self::path(id)).await;
    }

    fn waits(&self, header: Option<Header<'_>>) -> Result<WaitEstimate, Error> {
        self.running.owner.admit_reader(header.as_ref())?;
        Ok(self.shared.engine.wait_estimate(self.running.id))
    }

    fn piece(&self, offset: u64) -> Result<Piece, Error> {
        // The end is read before the text, so that no text is missed.
        let ended = self.running.ending().is_some();
        let output = self.running.output.as_ref().ok_or_else(|| {
            let why = "the text of this request goes through its pipe; call Submit to read text by Request.Read";
            Error::NotSupported(why.to_owned())
        })?;
        output.read(offset, ended)
    }
}

/// One answer, for the connection that made the request. The XML file of the interface describes each member.
#[interface(name = "org.ganglion.Llm1.Request", introspection_docs = false)]
impl Request {
    /// Returns the text of the answer from an offset on.
    #[zbus(out_args("text", "next", "done"))]
    async fn read(
        &self,
        offset: u64,
        #[zbus(header)] header: Header<'_>,
    ) -> Result<(String, u64, bool), Error> {
        self.running.owner.admit(&header)?;
        let piece = self.piece(offset)?;
        let need = Load {
            bytes: piece.text.len(),
            descriptors: 0,
        };
        // Text waits until the caller has read earlier answers.
        let accounts = &self.shared.accounts;
        accounts.room(&self.running.owner, &header, need).await?;
        let Piece { text, next, done } = piece;
        Ok((text, next, done))
    }

    /// Cancels the request.
    fn cancel(&self, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        let Running { id, owner, .. } = &*self.running;
        owner.admit(&header)?;
        self.shared.engine.cancel(*id);
        Ok(())
    }

    /// "running" or "finished".
    #[zbus(property(emits_changed_signal = "false"))]
    fn state(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<String, Error> {
        self.running.owner.admit_reader(header.as_ref())?;
        let state = match self.running.ending() {
            Some(_) => "finished",
            None => "running",
        };
        Ok(state.to_owned())
    }

    /// The result; empty while the request runs.
    #[zbus(property(emits_changed_signal = "false"))]
    fn result(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<Info, Error> {
        let owner = &self.running.owner;
        owner.admit_reader(header.as_ref())?;
        let Some(ending) = self.running.ending() else {
            return Ok(Info::new());
        };
        let output = self.running.output.as_ref();
        let likelihoods = output.map_or(0, |output| output.likelihoods().bytes());
        let need = Load {
            bytes: info::bytes(&ending.outcome) + likelihoods,
            descriptors: 0,
        };
        // A long result is refused until the caller has read earlier answers.
        if let Some(header) = header.filter(|_| need.bytes > 0) {
            self.shared.accounts.room_now(owner, &header, need)?;
        }
        let mut info = ending.result();
        if let Some(output) = output {
            output.likelihoods().add_to(&mut info);
        }
        Ok(info)
    }

    /// Tokens of the prompt that are prefilled, and all tokens of the prompt.
    #[zbus(property(emits_changed_signal = "false"))]
    fn reading(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<(u32, u32), Error> {
        self.running.owner.admit_reader(header.as_ref())?;
        Ok(self.running.reading.get())
    }

    /// Requests that come before this one.
    #[zbus(property(emits_changed_signal = "false"))]
    fn queue_position(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<u32, Error> {
        Ok(self.waits(header)?.before)
    }

    /// The expected seconds until the answer begins.
    #[zbus(property(emits_changed_signal = "false"))]
    fn estimated_wait(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<f64, Error> {
        Ok(self.waits(header)?.seconds)
    }

    /// The next part of the text.
    #[zbus(signal)]
    async fn delta(emitter: &SignalEmitter<'_>, seq: u64, text: &str) -> zbus::Result<()>;

    /// The request has ended.
    #[zbus(signal)]
    async fn finished(emitter: &SignalEmitter<'_>, reason: &str, info: Info) -> zbus::Result<()>;
}
