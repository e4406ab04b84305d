//! `org.ganglion.Llm1.Request`: one answer being made, or made within the last minute. For its owner alone.

// The docs of an interface become introspection data: plain text.
#![allow(clippy::doc_markdown)]
// zbus hands headers over by value.
#![allow(clippy::needless_pass_by_value)]

use std::sync::Arc;

use parking_lot::Mutex;
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, OwnedObjectPath, Str, interface};

use super::accounts::Load;
use super::authorize::Owner;
use super::output::{Output, Piece};
use super::proxy::Info;
use super::registry::Kind;
use super::shared::Shared;
use super::{Error, info, objects};
use crate::engine::{Outcome, Reading, WaitEstimate};

/// A request, as its object and its delivery know it.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) id: u64,
    pub(super) owner: Owner,
    reading: Reading,
    /// Its text, if that is read by calls.
    pub(super) output: Option<Output>,
    ending: Mutex<Option<Ended>>,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// What the outcome alone does not tell.
    pub(super) note: Option<&'static str>,
}

impl Ended {
    /// What everyone may be told unasked: it is short.
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
    pub(super) fn new(id: u64, owner: Owner, reading: Reading, output: Option<Output>) -> Self {
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
        objects::path(Kind::Request, id)
    }

    /// Takes its object away. Not being there is as good: `Complete` has none, and it may have been taken away before.
    pub(super) async fn remove(connection: &Connection, id: u64) {
        let server = connection.object_server();
        let _ = server.remove::<Self, _>(Self::path(id)).await;
    }

    fn waits(&self, header: Option<Header<'_>>) -> Result<WaitEstimate, Error> {
        self.running.owner.admit_reader(header.as_ref())?;
        Ok(self.shared.engine.wait_estimate(self.running.id))
    }

    fn piece(&self, offset: u64) -> Result<Piece, Error> {
        // First: what is added after that is not looked for.
        let ended = self.running.ending().is_some();
        let output = self.running.output.as_ref().ok_or_else(|| {
            let why = "the text of this request goes through its pipe; Submit makes requests that are read by calls";
            Error::NotSupported(why.to_owned())
        })?;
        output.read(offset, ended)
    }
}

/// One answer being made, or made within the last minute. Only the connection that asked may use it.
#[interface(name = "org.ganglion.Llm1.Request")]
impl Request {
    /// The text of a request that Submit made, or one with stream="signals", from a byte on: at most 64 KiB of it, and in
    /// next where to go on. done says that nothing follows; until then there may be nothing new, and four calls a second
    /// do. The text is kept as long as this object, up to 1 MiB of it: for 60 s after its end.
    /// Error.InvalidOption if no character begins at that byte, Error.NotSupported if the text goes through a pipe.
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
        // Nothing more is put on the bus while the caller has not taken what it asked for before.
        let accounts = &self.shared.accounts;
        accounts.room(&self.running.owner, &header, need).await?;
        let Piece { text, next, done } = piece;
        Ok((text, next, done))
    }

    /// Ends the request: at once if it still waits, else at its next token. Its text ends with
    /// finish_reason "cancelled". Cancelling what has finished does nothing.
    fn cancel(&self, #[zbus(header)] header: Header<'_>) -> Result<(), Error> {
        let Running { id, owner, .. } = &*self.running;
        owner.admit(&header)?;
        self.shared.engine.cancel(*id);
        Ok(())
    }

    /// "running", from acceptance on, or "finished".
    #[zbus(property(emits_changed_signal = "false"))]
    fn state(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<String, Error> {
        self.running.owner.admit_reader(header.as_ref())?;
        let state = match self.running.ending() {
            Some(_) => "finished",
            None => "running",
        };
        Ok(state.to_owned())
    }

    /// Empty while it runs; then what Finished tells, and what the answer says besides its text: reasoning (s), what the
    /// model thought, and tool_calls (s), a JSON array of its calls as in OpenAI: {"id", "type": "function", "function":
    /// {"name", "arguments"}}, with the arguments as JSON text. With the option logprobs, unless a pipe has told them,
    /// logprobs (s): a JSON array, up to 1 MiB of it.
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
        // It is as the text of Read, which is not given while the caller has not taken what it asked for before.
        if let Some(header) = header.filter(|_| need.bytes > 0) {
            self.shared.accounts.room_now(owner, &header, need)?;
        }
        let mut info = ending.result();
        if let Some(output) = output {
            output.likelihoods().tell(&mut info);
        }
        Ok(info)
    }

    /// How far the reading of the prompt has got: tokens that are read, those in the cache among them, and all tokens of it.
    /// 0 of 0 while the request waits. No signal tells of it: to be read when a person waits, once or twice a second.
    #[zbus(property(emits_changed_signal = "false"))]
    fn reading(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<(u32, u32), Error> {
        self.running.owner.admit_reader(header.as_ref())?;
        Ok(self.running.reading.get())
    }

    /// How many other requests come before this one; 0 once it is being answered. More urgent ones that come later come
    /// before it, too. A hold that keeps this request off the device, also one that suspends its answer, counts as one more:
    /// Manager.Holds has its owner and its reason. No signal tells of it: to be read when a person waits, once or twice a
    /// second.
    #[zbus(property(emits_changed_signal = "false"))]
    fn queue_position(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<u32, Error> {
        Ok(self.waits(header)?.before)
    }

    /// In how many seconds it will probably begin, as long as others took so far: 0 once it has begun, or where nothing is
    /// known yet. While a hold keeps this request off the device, the longest time that the hold can still last is added,
    /// also after the beginning of the answer: the hold may end at any moment before.
    #[zbus(property(emits_changed_signal = "false"))]
    fn estimated_wait(&self, #[zbus(header)] header: Option<Header<'_>>) -> Result<f64, Error> {
        Ok(self.waits(header)?.seconds)
    }

    /// Only with the option stream="signals", or signals of Submit: the next piece of text. Sent to the owner only, at
    /// most every 50 ms; after 1 MiB no more is sent.
    #[zbus(signal)]
    async fn delta(emitter: &SignalEmitter<'_>, seq: u64, text: &str) -> zbus::Result<()>;

    /// The request has ended, and its stream holds all that it will. Sent to the owner only, after the
    /// reply of the call that made the request. The reason is "stop", "tool_calls" (the model calls tools and waits for
    /// what they say: Result has the calls), "length" (max_tokens), "context" (the context is full), "deadline"
    /// (deadline_ms), "cancelled" or "error"; info holds finish_reason, prompt_tokens, cached_tokens, completion_tokens (u),
    /// queue_us, first_token_us, seed (t), tokens_per_second, gigabytes_per_second (d), and where they apply sampling (a{sv}),
    /// what the answer was sampled with: temperature, top_p, min_p, repetition_penalty (d), top_k (u), restored (u),
    /// tokens that came back from the disk, reread_tokens (u), those that the cache had held and that were read again, as
    /// their pages had gone to others or the daemon had been restarted, repeated_steps (u), those that ran again as what the
    /// answer may say next was not known in time, dropped_turns (u), turns of the session that it goes on without
    /// (context_overflow), unchecked (as), JSON pointers to keywords of schemas that the answer was not held to, incomplete (b),
    /// true if the answer was to fit something, or could call tools, and is only the beginning of such an answer, and error (a
    /// D-Bus error name) and message.
    #[zbus(signal)]
    async fn finished(emitter: &SignalEmitter<'_>, reason: &str, info: Info) -> zbus::Result<()>;
}
