//! Messages between the daemon and the processes of guides.
//!
//! A message is JSON on a UNIX stream socket, with optional bytes and descriptors. Masks are not in messages: they are
//! in memory that both sides share (`Masks`).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use parking_lot::Mutex;
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::grammar::{Grammar, GrammarError};
use super::guide_error::GuideError;
use super::limits::Limits;
use crate::sampler::Mask;

/// The most bytes of one message: the longest grammar that a configuration allows fits.
const LONGEST: usize = 64 << 20;
/// The most descriptors of one message: a socket, and the memory of masks.
const DESCRIPTORS: usize = 2;
/// Bytes of one read.
const PART: usize = 4096;

/// A vocabulary. The bytes of its tokens follow as the message's own bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Vocabulary {
    /// Tokens that end an answer, ascending.
    pub(super) ends: Vec<u32>,
    /// Special tokens and their spellings.
    pub(super) specials: Vec<(u32, String)>,
    /// (vocabulary): the number of bytes of each token.
    pub(super) lengths: Vec<u32>,
}

/// To the process that holds the vocabulary.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToKeeper {
    /// The first message.
    Vocabulary(Vocabulary),
    /// Starts a process; its socket and the memory of its masks are the message's descriptors.
    Fork,
    /// Kills a process, and reports how it ended.
    End(i32),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromKeeper {
    /// Whether grammars can be compiled: a vocabulary without an end cannot bound an answer.
    Ready(bool),
    /// A process's exit status, as wait(2) returns it; `None` if there is no such process.
    Ended(Option<i32>),
}

/// To the process of one grammar.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToProcess {
    /// With `idle` the process computes only while the processor is otherwise idle.
    Compile {
        grammar: Grammar,
        limits: Limits,
        idle: bool,
    },
    /// Finds the first invalid one of these schemas, each with a name. The flag says whether they are lenient.
    Find(Vec<(String, String)>, bool, Limits),
    /// Asks whether these tokens are an answer, however their text is tokenized.
    Fit(Vec<u32>),
    /// Begins an answer. With `forced`, tokens that must come are reported before a mask is computed. Reports name
    /// `question`.
    Begin { question: u32, forced: bool },
    /// The answer's next tokens: each was chosen under the mask after those before it, or had to come.
    Take { question: u32, tokens: Vec<u32> },
    /// Asks for the masks after guesses of the answer's next tokens, in order. The guesses follow the first `after` tokens that
    /// were reported to come next. The process reports them as `number`, and then `Guessed::End`.
    Guess {
        number: u32,
        after: usize,
        tokens: Vec<u32>,
    },
    /// The answer has ended.
    End,
    /// Starts a process with the same grammar; descriptors as in `ToKeeper::Fork`.
    Fork,
    /// The tokens of the text that was to be encoded.
    Encoded(Vec<u32>),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromProcess {
    /// The first message: the process's id.
    Hello(i32),
    /// Asks for a text's tokens.
    Encode(String),
    /// The grammar is wrong; a more precise report may follow.
    Wrong(Why),
    /// The grammar can be used. The number is the bytes that the process shares with no other; the texts are JSON pointers to
    /// keywords that it leaves unchecked.
    Compiled(usize, Vec<String>),
    Refused(Why),
    /// The first schema that is wrong, by its name, and the reason.
    Found(Option<(String, String)>),
    /// Whether the tokens are allowed, and whether an answer may end after them.
    Fits(bool, bool),
    /// What follows, as the reply to a question.
    Follows(u32, Report),
    /// What may follow the next one of the guesses with this number.
    Guessed(u32, Guessed),
    /// The answer has ended. The number is the bytes that the process shares with no other.
    Ended(usize),
}

/// What follows in an answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// Tokens that come next, in this order. What follows them is reported next.
    Forced(Vec<u32>),
    /// The mask is in the shared memory, at `ANSWER`. The number is its processor time in microseconds.
    Mask(u64),
    /// The answer is complete.
    Over,
    Failed(GuideError),
}

/// What may follow a guess.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Guessed {
    /// This token must come.
    Forced(u32),
    /// The mask is in the shared memory, at this place.
    Mask(usize),
    /// No further mask is reported: the grammar does not allow the next guess, or the answer is complete, or it goes on.
    End,
}

/// The reason why a grammar is refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Why {
    Wrong(String),
    TooDeep(usize),
    TooWide(usize),
    NoVocabulary,
    /// The bytes that the compiled grammar needs.
    TooLarge(usize),
}

impl Why {
    pub(super) fn of(error: GrammarError) -> Self {
        match error {
            GrammarError::TooDeep { depth, .. } => Self::TooDeep(depth),
            GrammarError::TooWide { members, .. } => Self::TooWide(members),
            GrammarError::NoVocabulary => Self::NoVocabulary,
            GrammarError::Wrong { why, .. } => Self::Wrong(why),
            error => Self::Wrong(error.to_string()),
        }
    }

    pub(super) fn error(self, grammar: &Grammar) -> GrammarError {
        let option = grammar.option();
        match self {
            Self::Wrong(why) => GrammarError::Wrong { option, why },
            Self::TooDeep(depth) => GrammarError::TooDeep { option, depth },
            Self::TooWide(members) => GrammarError::TooWide { option, members },
            Self::NoVocabulary => GrammarError::NoVocabulary,
            Self::TooLarge(bytes) => GrammarError::TooLarge {
                option,
                mib: bytes.div_ceil(1 << 20),
            },
        }
    }
}

/// A message with its bytes.
pub(super) struct Received<T> {
    pub(super) message: T,
    pub(super) bytes: Vec<u8>,
}

/// One end of a socket. Several threads may send; one receives.
#[derive(Debug)]
pub(super) struct Channel {
    socket: OwnedFd,
    sending: Mutex<()>,
    arrived: Mutex<Arrived>,
}

/// What has arrived and was not received. Only some messages have descriptors, which are in their order.
#[derive(Debug, Default)]
struct Arrived {
    bytes: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Channel {
    pub(super) fn new(socket: impl Into<OwnedFd>) -> Self {
        Self {
            socket: socket.into(),
            sending: Mutex::new(()),
            arrived: Mutex::default(),
        }
    }

    /// Takes the two descriptors of a message that starts a process: its socket, and the memory of its masks.
    pub(super) fn descriptors(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let mut arrived = self.arrived.lock();
        let mut next = || arrived.descriptors.pop_front();
        let two = next().zip(next());
        two.ok_or_else(|| ErrorKind::InvalidData.into())
    }

    /// Whether some of the next message has arrived, without waiting.
    pub(super) fn has_arrival(&self) -> bool {
        let peeks = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let arrived = || recv(&self.socket, &mut [0_u8; 1], peeks);
        !self.arrived.lock().bytes.is_empty() || retry_on_intr(arrived).is_ok()
    }

    /// Sets the time after which `receive` returns without a message.
    pub(super) fn set_timeout(&self, most: Duration) -> io::Result<()> {
        Ok(set_socket_timeout(&self.socket, Timeout::Recv, Some(most))?)
    }

    pub(super) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, &[], &[])
    }

    /// Sends a message with bytes and descriptors.
    pub(super) fn send_with(
        &self,
        message: &impl Serialize,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let json = serde_json::to_vec(message)?;
        let mut frame = Vec::with_capacity(8 + json.len() + bytes.len());
        for length in [json.len(), bytes.len()] {
            let length = u32::try_from(length).map_err(io::Error::other)?;
            frame.extend_from_slice(&length.to_le_bytes());
        }
        frame.extend_from_slice(&json);
        frame.extend_from_slice(bytes);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let _sending = self.sending.lock();
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            let sent = retry_on_intr(|| {
                let part = [IoSlice::new(rest)];
                sendmsg(&self.socket, &part, &mut ancillary, SendFlags::NOSIGNAL)
            })?;
            // Descriptors travel with the first byte.
            ancillary.clear();
            rest = rest.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// Returns the next message; `None` after the time that was set, if one was.
    ///
    /// # Errors
    /// `UnexpectedEof` if the other end is closed; `InvalidData` for anything that is not a message.
    pub(super) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<Received<T>>> {
        let mut arrived = self.arrived.lock();
        loop {
            if let Some(received) = arrived.message()? {
                return Ok(Some(received));
            }
            match arrived.read(&self.socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                read => read?,
            }
        }
    }
}

impl Arrived {
    fn message<T: DeserializeOwned>(&mut self) -> io::Result<Option<Received<T>>> {
        let Some(([json, bytes], _)) = self.bytes.as_chunks::<4>().0.split_first_chunk::<2>()
        else {
            return Ok(None);
        };
        let [json, bytes] = [json, bytes].map(|length| u32::from_le_bytes(*length) as usize);
        if json + bytes > LONGEST {
            return Err(ErrorKind::InvalidData.into());
        }
        let Some(frame) = self.bytes.get(8..8 + json + bytes) else {
            return Ok(None);
        };
        let (text, own) = frame.split_at(json);
        let (message, own) = (serde_json::from_slice(text)?, own.to_vec());
        self.bytes.drain(..8 + json + bytes);
        Ok(Some(Received {
            message,
            bytes: own,
        }))
    }

    /// Reads the available bytes of the socket, and waits for some if there are none.
    fn read(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut buffer = [0; PART];
        let read = retry_on_intr(|| {
            let mut part = [IoSliceMut::new(&mut buffer)];
            recvmsg(socket, &mut part, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                self.descriptors.extend(received);
            }
        }
        if read.bytes == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.bytes
            .extend_from_slice(buffer.get(..read.bytes).unwrap_or_default());
        Ok(())
    }
}

/// Memory that holds the masks of one answer, shared by the daemon and a process.
///
/// Both sides copy: a mapping would let a process that shrinks the memory stop the daemon with a SIGBUS.
#[derive(Debug)]
pub(super) struct Masks(File);

/// The place of the mask of an answer's next token. The places behind it are those of the masks after guesses.
pub(super) const ANSWER: usize = 0;
/// Bytes of a place, enough for 8 million tokens. Bytes that no mask has used take no memory.
const PLACE: usize = 1 << 20;

impl Masks {
    pub(super) fn new() -> io::Result<Self> {
        let memory = memfd_create(c"guide-mask", MFdFlags::MFD_CLOEXEC)?;
        Ok(Self(memory.into()))
    }

    pub(super) fn of(memory: OwnedFd) -> Self {
        Self(memory.into())
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(super) fn write(&self, place: usize, words: &[u32]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if bytes.len() > PLACE {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.0.write_all_at(&bytes, offset(place))
    }

    /// Returns the mask at a place, of a vocabulary of this number of tokens.
    pub(super) fn read(&self, place: usize, vocabulary: usize) -> io::Result<Mask> {
        let mut bytes = vec![0; 4 * Mask::words_of(vocabulary)];
        self.0.read_exact_at(&mut bytes, offset(place))?;
        let (words, _) = bytes.as_chunks::<4>();
        Ok(Mask::new(
            words.iter().map(|word| u32::from_le_bytes(*word)).collect(),
        ))
    }
}

fn offset(place: usize) -> u64 {
    place.saturating_mul(PLACE) as u64
}
