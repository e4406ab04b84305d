//! A vocabulary as llguidance needs it. Special tokens are marked: no text of a grammar becomes one of them.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::guide::frame::{self, Channel, FromProcess, ToProcess};

/// The daemon's end of a process's socket.
pub(super) struct Daemon {
    pub(super) channel: Channel,
    /// Messages that arrived while a text was being encoded.
    waiting: Mutex<VecDeque<ToProcess>>,
}

impl Daemon {
    pub(super) fn new(channel: Channel) -> Arc<Self> {
        Arc::new(Self {
            channel,
            waiting: Mutex::default(),
        })
    }

    /// Returns the next message.
    pub(super) fn receive(&self) -> io::Result<ToProcess> {
        let waiting = self.waiting().pop_front();
        waiting.map_or_else(|| self.next(), Ok)
    }

    /// Whether a message waits, or some of it has arrived.
    pub(super) fn has_arrival(&self) -> bool {
        !self.waiting().is_empty() || self.channel.has_arrival()
    }

    fn next(&self) -> io::Result<ToProcess> {
        loop {
            if let Some(received) = self.channel.receive()? {
                return Ok(received.message);
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<ToProcess>> {
        self.waiting.lock()
    }

    /// Returns the tokens of a text.
    fn encode(&self, text: &str) -> io::Result<Vec<u32>> {
        self.channel.send(&FromProcess::Encode(text.to_owned()))?;
        loop {
            match self.next()? {
                ToProcess::Encoded(tokens) => return Ok(tokens),
                message => self.waiting().push_back(message),
            }
        }
    }
}

/// The tokens of a vocabulary.
pub(super) struct Words {
    ends: Vec<u32>,
    specials: Vec<(u32, String)>,
    bytes: Vec<u8>,
    /// The beginning of each token in `bytes`, and the end of the last.
    starts: Vec<usize>,
    /// The daemon, which has the tokenizer and encodes texts. Each process has its own connection.
    daemon: Mutex<Option<Arc<Daemon>>>,
}

impl Words {
    pub(super) fn new(table: frame::Vocabulary, bytes: Vec<u8>) -> Self {
        let mut end = 0;
        let mut starts = vec![0];
        starts.extend(table.lengths.iter().map(|length| {
            end += *length as usize;
            end
        }));
        Self {
            ends: table.ends,
            specials: table.specials,
            bytes,
            starts,
            daemon: Mutex::new(None),
        }
    }

    /// Returns one more than the largest id.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.starts.len() - 1).unwrap_or(u32::MAX)
    }

    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let ends = self.starts.get(id).zip(self.starts.get(id + 1));
        ends.and_then(|(start, end)| self.bytes.get(*start..*end))
            .unwrap_or_default()
    }

    pub(super) fn specials(&self) -> HashSet<u32> {
        self.specials.iter().map(|(special, _)| *special).collect()
    }

    /// Sets the daemon that encodes texts.
    pub(super) fn ask(&self, daemon: Arc<Daemon>) {
        *self.daemon.lock() = Some(daemon);
    }

    /// Returns the canonical tokens of a text; none if the daemon is gone, and then this process ends.
    fn encode(&self, text: &str) -> Vec<u32> {
        let daemon = self.daemon.lock();
        let daemon = daemon.as_ref();
        daemon
            .and_then(|daemon| daemon.encode(text).ok())
            .unwrap_or_default()
    }
}

struct Vocabulary {
    trie: TokTrie,
    words: Arc<Words>,
}

/// Returns the trie of all tokens; `None` for a vocabulary in which no token ends an answer.
pub(super) fn environment(words: &Arc<Words>) -> Option<TokEnv> {
    let end = *words.ends.first()?;
    let mut tokens: Vec<Vec<u8>> = (0..words.count())
        .map(|id| words.bytes(id).to_vec())
        .collect();
    for (id, spelling) in &words.specials {
        if let Some(token) = tokens.get_mut(*id as usize) {
            *token = [&[TokTrie::SPECIAL_TOKEN_MARKER], spelling.as_bytes()].concat();
        }
    }
    let trie = TokTrie::from(&TokRxInfo::new(words.count(), end), &tokens);
    Some(Arc::new(Vocabulary {
        trie: trie.with_eos_tokens(&words.ends),
        words: words.clone(),
    }))
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    /// Returns the tokens of the model's own tokenizer, unless they spell other bytes: a tokenizer may compose
    /// decomposed characters, and a grammar accepts only the bytes that it names.
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let encode = |text: &str| self.words.encode(text);
        let tokens = self.trie.tokenize_with_greedy_fallback(bytes, encode);
        let said = tokens.iter().flat_map(|id| self.words.bytes(*id));
        if bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER) || said.eq(bytes) {
            tokens
        } else {
            self.trie.greedy_tokenize(bytes)
        }
    }
}
