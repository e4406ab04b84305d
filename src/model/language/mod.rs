//! A model's language: what a conversation is in tokens, and what tokens are in text.
//!
//! A special token in a prompt was written by the chat template, never by a user (`chat::guard`).

mod prompt;
mod templates;
mod words;

pub use prompt::{Prompt, Rendered};
pub use words::{Part, Words};

use std::sync::Arc;

use super::chat::{Guard, Manner};
use super::checkpoint::LanguageSource;
use super::language_error::LanguageError;
use super::tokenizer::{Class, Decoder, Piece, Special, Tokenizer};
use super::{Call, Message, Role};
use prompt::{Segment, Segments};
use templates::Templates;

/// Tokenizer and chat templates.
#[derive(Debug)]
pub struct Language {
    tokenizer: Arc<Tokenizer>,
    templates: Templates,
}

impl Language {
    /// Reads and checks a model's tokenizer and chat template. A model may lack a template: its
    /// tokenizer still works.
    ///
    /// # Errors
    /// If a file is missing, contradicts itself, or holds what is not supported; if the template cannot be
    /// compiled, or has to be stopped.
    pub fn load(source: &LanguageSource) -> Result<Self, LanguageError> {
        let template = match source {
            LanguageSource::Gguf(vocabulary) => &vocabulary.chat_template,
            LanguageSource::HuggingFace(files) => &files.chat_template,
        };
        let tokenizer = Arc::new(Tokenizer::load(source)?);
        let templates = Templates::load(template.as_ref(), tokenizer.names())?;
        Ok(Self {
            tokenizer,
            templates,
        })
    }

    /// A conversation, and the beginning of the answer to it. `thinking` is the template's
    /// `enable_thinking`, where it has one.
    ///
    /// # Errors
    /// If there is no chat template, or it refuses the conversation, or has to be stopped.
    pub fn prompt(
        &self,
        messages: &[Message],
        thinking: Option<bool>,
    ) -> Result<Prompt, LanguageError> {
        Ok(self.encode(self.render(
            messages,
            Manner {
                thinking,
                tools: None,
            },
        )?))
    }

    /// The prompt of a conversation's next turn: `messages` are those of `previous`, the answer to it
    /// and what follows. `previous.tokens`, then the tokens of the `answer`, are a prefix of its tokens wherever the
    /// template leaves the rendered past unchanged; otherwise the whole conversation is encoded anew.
    ///
    /// # Errors
    /// If there is no chat template, or it refuses the conversation, or has to be stopped.
    pub fn continue_prompt(
        &self,
        previous: &Prompt,
        answer: &[u32],
        messages: &[Message],
        thinking: Option<bool>,
    ) -> Result<Prompt, LanguageError> {
        let rendered = self.render(
            messages,
            Manner {
                thinking,
                tools: None,
            },
        )?;
        Ok(self.encode_next(previous, answer, rendered))
    }

    /// What `prompt` makes tokens of: that can cost many times as much.
    ///
    /// # Errors
    /// If there is no chat template, or it refuses the conversation.
    pub fn render(
        &self,
        messages: &[Message],
        manner: Manner<'_>,
    ) -> Result<Rendered, LanguageError> {
        self.segments(messages, manner).map(Rendered)
    }

    /// The prompt of a rendered conversation.
    #[must_use]
    pub fn encode(&self, Rendered(segments): Rendered) -> Prompt {
        let mut tokens = Vec::new();
        self.append(&segments, &mut tokens);
        Prompt { tokens, segments }
    }

    /// The same of a conversation's next turn, as `continue_prompt`.
    #[must_use]
    pub fn encode_next(
        &self,
        previous: &Prompt,
        answer: &[u32],
        Rendered(segments): Rendered,
    ) -> Prompt {
        let mut past = previous.segments.clone();
        past.append(&self.answer(answer));
        let mut tokens = Vec::new();
        if let Some(news) = segments.after(&past) {
            tokens.extend_from_slice(&previous.tokens);
            tokens.extend_from_slice(answer);
            self.append(&news, &mut tokens);
        } else {
            self.append(&segments, &mut tokens);
        }
        Prompt { tokens, segments }
    }

    /// The prompt of a rendered conversation that was once these tokens; `None` unless they say the same.
    #[must_use]
    pub fn recognize(&self, tokens: &[u32], Rendered(segments): Rendered) -> Option<Prompt> {
        let known = tokens.iter().all(|id| (*id as usize) < self.vocabulary());
        (known && self.say_the_same(&self.answer(tokens), &segments)).then(|| Prompt {
            tokens: tokens.to_vec(),
            segments,
        })
    }

    /// Whether a model is told the same by both. A tokenizer may compose what a user has decomposed: that is not read as it was
    /// written.
    fn say_the_same(&self, one: &Segments, other: &Segments) -> bool {
        let composed = |text: &str| -> Vec<u8> {
            let ids = self.encode_plain(text);
            let bytes = ids.iter().flat_map(|id| self.tokenizer.bytes(*id));
            bytes.copied().collect()
        };
        one.iter().count() == other.iter().count()
            && one.iter().zip(other.iter()).all(|pair| match pair {
                (Segment::Text(one), Segment::Text(other)) => {
                    one == other || composed(one) == composed(other)
                }
                (one, other) => one == other,
            })
    }

    /// An answer as text in which special tokens are spelled.
    #[must_use]
    pub fn spelled(&self, answer: &[u32]) -> String {
        self.answer(answer).text()
    }

    /// The ids of plain text: no token is put before it, and no control token matches in it.
    #[must_use]
    pub fn encode_plain(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.tokenizer.encode(text, &mut ids);
        ids
    }

    /// What the model's files say and the tokenizer skips, one sentence each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.tokenizer.notes()
    }

    /// Whether a token ends a turn or a text.
    #[must_use]
    pub fn is_end(&self, token: u32) -> bool {
        self.tokenizer.is_end(token)
    }

    /// The program that writes conversations with tools.
    #[must_use]
    pub fn template(&self) -> Option<&str> {
        self.templates
            .chosen(true)
            .map(super::chat::ChatTemplate::source)
    }

    /// The file or key that the chat templates come from; empty if there are none.
    #[must_use]
    pub fn template_origin(&self) -> &str {
        self.templates.origin()
    }

    /// Whether `thinking` makes a difference.
    #[must_use]
    pub fn can_think(&self) -> bool {
        let template = self.templates.chosen(false);
        template.is_some_and(super::chat::ChatTemplate::knows_thinking)
    }

    /// Turns tokens into text as they come.
    #[must_use]
    pub fn decoder(&self) -> Decoder {
        self.tokenizer.decoder()
    }

    /// The tokens, one by one, for whoever says which of them may come next.
    #[must_use]
    pub fn words(&self) -> Words {
        Words(self.tokenizer.clone())
    }

    /// One more than the largest id. The model's embedding must have as many rows at least.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.tokenizer.len() as usize
    }

    /// The most bytes of text that one token can be.
    #[must_use]
    pub fn longest_token(&self) -> usize {
        self.tokenizer.longest()
    }

    fn segments(
        &self,
        messages: &[Message],
        manner: Manner<'_>,
    ) -> Result<Segments, LanguageError> {
        let template = self.templates.of(manner.tools.is_some())?;
        let specials = self.tokenizer.specials();
        let guard = template.guard(specials, messages, manner.tools)?;
        let guarded: Vec<_> = messages
            .iter()
            .map(|message| guarded(&guard, message, template.takes_text()))
            .collect();
        let tools = manner.tools.map(|tools| guard.mark_json(tools));
        let manner = Manner {
            tools: tools.as_ref(),
            ..manner
        };
        let names = self.tokenizer.names();
        let text = template.render(&guarded, names, manner, Some(guard.mark_character()))?;
        let mut segments = self.cut(&text).map_text(|text| guard.unmark(text));
        if let Some(begin) = self.tokenizer.begin()
            && segments.first_id() != Some(begin)
            && let Some(special) = specials.with_id(begin)
        {
            segments.insert_first(begin, special.spelling.clone());
        }
        Ok(segments)
    }

    /// The text of an answer, and the special tokens in it.
    fn answer(&self, answer: &[u32]) -> Segments {
        let mut segments = Segments::default();
        let mut decoder = self.decoder();
        for token in answer {
            if let Some(special) = self.tokenizer.specials().with_id(*token) {
                let rest = std::mem::replace(&mut decoder, self.decoder()).finish();
                segments.push_text(&rest);
                segments.push_special(special.id, &special.spelling);
            } else {
                segments.push_text(&decoder.push(*token));
            }
        }
        segments.push_text(&decoder.finish());
        segments
    }

    fn cut(&self, text: &str) -> Segments {
        let mut segments = Segments::default();
        for piece in self.tokenizer.cut(text) {
            match piece {
                Piece::Special(special, _) => {
                    segments.push_special(special.id, &special.spelling);
                }
                Piece::Plain(text) => segments.push_text(text),
            }
        }
        segments
    }

    fn append(&self, segments: &Segments, tokens: &mut Vec<u32>) {
        for segment in segments.iter() {
            match segment {
                Segment::Special { id, .. } => tokens.push(*id),
                Segment::Text(text) => self.tokenizer.encode(text, tokens),
            }
        }
    }
}

/// A message in which no special token is spelled but those that an answer may mean.
/// Arguments of calls stay the text that they are if the template takes text.
fn guarded(guard: &Guard<'_>, message: &Message, takes_text: bool) -> Message {
    let whole = |text: &String| guard.mark(text, |_| true);
    let calls = message.calls.iter().map(|call| {
        let arguments = if takes_text {
            whole(&call.arguments)
        } else {
            let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
            guard.mark_json(&arguments).to_string()
        };
        Call {
            id: whole(&call.id),
            name: whole(&call.name),
            arguments,
        }
    });
    Message {
        role: message.role,
        content: guard.mark(&message.content, |special| {
            message.role != Role::Assistant || !is_answerable(special)
        }),
        reasoning: whole(&message.reasoning),
        calls: calls.collect(),
        call_id: message.call_id.as_ref().map(whole),
        spelled: None,
    }
}

/// Whether the text of an answer may mean it. Templates look for such tokens in past answers, so they
/// must stay as they are (Qwen3's cuts at `</think>`).
fn is_answerable(special: &Special) -> bool {
    special.class != Class::Control
}
