//! A model's language: converts conversations to tokens, and tokens to text. Only the chat template can write special
//! tokens into a prompt, never a user (`chat::guard`). A prompt as it is written (`Manner`) spells its own.
//! Not here: the tokenizer and templates themselves (`tokenizer`, `chat`).

mod images;
mod likeness;
mod prompt;
mod templates;
mod words;

pub use likeness::VocabularyDifference;
pub use prompt::{Prompt, Rendered};
pub use words::{Part, Words};

use std::sync::Arc;

use super::chat::{ChatTemplate, Guard, Manner};
use super::checkpoint::LanguageSource;
use super::language_error::LanguageError;
use super::message::{Call, Message, Role};
use super::tokenizer::{Class, Decoder, Piece, Place, Special, Tokenizer};
use crate::kv::FIRST_IMAGE_ROW;
use images::Takes;
use prompt::{Segment, Segments};
use templates::Templates;

/// A tokenizer and chat templates.
#[derive(Debug)]
pub struct Language {
    tokenizer: Arc<Tokenizer>,
    templates: Templates,
    words: Words,
}

impl Language {
    /// Reads and checks a model's tokenizer and chat template. Without a template, the tokenizer still works.
    ///
    /// # Errors
    /// If a file is missing, contradicts itself or is not supported; if the template cannot be compiled, or exceeds a
    /// limit.
    pub fn load(source: &LanguageSource) -> Result<Self, LanguageError> {
        let template = match source {
            LanguageSource::Gguf(vocabulary) => &vocabulary.chat_template,
            LanguageSource::HuggingFace(files) => &files.chat_template,
        };
        let tokenizer = Arc::new(Tokenizer::load(source)?);
        let templates = Templates::load(template.as_ref(), tokenizer.names())?;
        let words = Words::new(tokenizer.clone(), |marks| {
            let template = templates.chosen(false)?;
            template.thoughts(tokenizer.names(), marks)
        });
        Ok(Self {
            tokenizer,
            templates,
            words,
        })
    }

    /// Encodes a conversation and the beginning of the answer to it. `thinking` is the template's `enable_thinking`.
    ///
    /// # Errors
    /// If there is no chat template, or it refuses the conversation, or exceeds a limit.
    pub fn prompt(
        &self,
        messages: &[Message],
        thinking: Option<bool>,
    ) -> Result<Prompt, LanguageError> {
        Ok(self.encode(self.render(
            messages,
            Manner {
                thinking,
                ..Manner::default()
            },
        )?))
    }

    /// Encodes a conversation's next turn: `messages` are those of `previous`, the answer to it and the messages after
    /// it. The new tokens begin with `previous.tokens` and the tokens of the `answer` if the template renders the past
    /// unchanged. Otherwise the whole conversation is encoded again.
    ///
    /// # Errors
    /// If there is no chat template, or it refuses the conversation, or exceeds a limit.
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
                ..Manner::default()
            },
        )?;
        Ok(self.encode_next(previous, answer, rendered))
    }

    /// Renders a conversation without encoding it, which can cost many times as much.
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

    /// Encodes a rendered conversation.
    #[must_use]
    pub fn encode(&self, Rendered(segments): Rendered) -> Prompt {
        let mut tokens = Vec::new();
        self.append(&segments, Place::Start, &mut tokens);
        Prompt { tokens, segments }
    }

    /// Encodes the next turn of a rendered conversation, as `continue_prompt`.
    #[must_use]
    pub fn encode_next(
        &self,
        previous: &Prompt,
        answer: &[u32],
        Rendered(segments): Rendered,
    ) -> Prompt {
        let mut past = previous.segments.clone();
        self.push_tokens(&mut past, answer);
        let mut tokens = Vec::new();
        if let Some(news) = segments.after(&past) {
            tokens.extend_from_slice(&previous.tokens);
            tokens.extend_from_slice(answer);
            self.append(&news, past.end(), &mut tokens);
        } else {
            self.append(&segments, Place::Start, &mut tokens);
        }
        Prompt { tokens, segments }
    }

    /// Returns the prompt of a rendered conversation with these known tokens; `None` if the tokens spell another text.
    /// Numbers that stand for rows of images become those of the rendered images.
    #[must_use]
    pub fn recognize(&self, tokens: &[u32], Rendered(segments): Rendered) -> Option<Prompt> {
        let mut rows = segments.rows();
        let token = |id: &u32| match *id {
            FIRST_IMAGE_ROW.. => rows.next(),
            id => ((id as usize) < self.vocabulary()).then_some(id),
        };
        let tokens = tokens.iter().map(token).collect::<Option<Vec<_>>>()?;
        drop(rows);
        let mut spelled = segments.beginning();
        self.push_tokens(&mut spelled, &tokens);
        self.are_equivalent(&spelled, &segments)
            .then_some(Prompt { tokens, segments })
    }

    /// Whether both have the same meaning to the model. A tokenizer may compose decomposed characters, so their text
    /// may differ.
    fn are_equivalent(&self, one: &Segments, other: &Segments) -> bool {
        let composed = |text: &str, place| -> Vec<u8> {
            let mut ids = Vec::new();
            self.tokenizer.encode(text, place, &mut ids);
            let bytes = ids.iter().flat_map(|id| self.tokenizer.bytes(*id));
            bytes.copied().collect()
        };
        one.iter().count() == other.iter().count()
            && (one.placed(Place::Start).zip(other.iter())).all(|((place, one), other)| {
                match (one, other) {
                    (Segment::Text(one), Segment::Text(other)) => {
                        one == other || composed(one, place) == composed(other, place)
                    }
                    (one, other) => one == other,
                }
            })
    }

    /// Returns an answer as text in which special tokens are spelled.
    #[must_use]
    pub fn spelled(&self, answer: &[u32]) -> String {
        let mut segments = Segments::default();
        self.push_tokens(&mut segments, answer);
        segments.text()
    }

    /// Encodes plain text at the beginning of a prompt: no token is put before it, and no control token matches in it.
    #[must_use]
    pub fn encode_plain(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.tokenizer.encode(text, Place::Start, &mut ids);
        ids
    }

    /// Returns notes on parts of the model's files that the tokenizer skips, one sentence each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.tokenizer.notes()
    }

    /// Whether a token ends a turn or a text.
    #[must_use]
    pub fn is_end(&self, token: u32) -> bool {
        self.tokenizer.is_end(token)
    }

    /// Returns the template of conversations with tools.
    #[must_use]
    pub fn template(&self) -> Option<&str> {
        self.templates.chosen(true).map(ChatTemplate::source)
    }

    /// Returns the file or key of the chat templates; empty if there are none.
    #[must_use]
    pub fn template_origin(&self) -> &str {
        self.templates.origin()
    }

    /// Whether the template uses `enable_thinking`.
    #[must_use]
    pub fn can_think(&self) -> bool {
        let template = self.templates.chosen(false);
        template.is_some_and(ChatTemplate::uses_thinking)
    }

    /// Returns a decoder of an answer, which turns tokens into text one by one. Many vocabularies begin an answer with a
    /// space that is not text, and the decoder leaves it out.
    #[must_use]
    pub fn decoder(&self) -> Decoder {
        self.tokenizer.decoder()
    }

    /// Returns the single tokens, from which guides choose the allowed ones.
    #[must_use]
    pub fn words(&self) -> Words {
        self.words.clone()
    }

    /// Returns one more than the largest id, which is the least number of rows of the model's embedding.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.tokenizer.len() as usize
    }

    /// Returns the most bytes of text of one token.
    #[must_use]
    pub fn longest_token(&self) -> usize {
        self.tokenizer.longest()
    }

    fn segments(
        &self,
        messages: &[Message],
        manner: Manner<'_>,
    ) -> Result<Segments, LanguageError> {
        if manner.is_as_written {
            let texts: String = messages.iter().map(|one| &*one.content).collect();
            return Ok(self.begun(self.cut(&texts)));
        }
        let template = self.templates.of(manner.tools.is_some())?;
        let specials = self.tokenizer.specials();
        let names = self.tokenizer.names();
        let guard = template.guard(specials, messages, manner)?;
        let has_images = messages.iter().any(|message| !message.images.is_empty());
        let images = manner.images.filter(|_| has_images);
        let takes = match images {
            None => Takes::Nothing,
            Some(texts) if template.writes_images(names, texts.placeholder)? => Takes::Parts(texts),
            Some(texts) => Takes::Text(texts),
        };
        let guarded: Vec<_> = messages
            .iter()
            .map(|message| guarded(&guard, message, template, takes))
            .collect();
        let tools = manner.tools.map(|tools| guard.mark_json(tools));
        let manner = Manner {
            tools: tools.as_ref(),
            ..manner
        };
        let text = template.render(&guarded, names, manner, Some(guard.mark_character()))?;
        let unmarked = |text: &str| self.cut(text).map_text(|text| guard.unmark(text));
        let segments = match images {
            None => unmarked(&text),
            Some(texts) => {
                let expanded = images::expanded(&text, messages, texts, &guard)?;
                unmarked(&expanded.text).with_rows(expanded.mark, expanded.rows)
            }
        };
        Ok(self.begun(segments))
    }

    /// Puts the token that begins every text before segments that do not begin with it.
    fn begun(&self, mut segments: Segments) -> Segments {
        if let Some(begin) = self.tokenizer.begin()
            && segments.first_id() != Some(begin)
            && let Some(special) = self.tokenizer.specials().with_id(begin)
        {
            segments.insert_first(begin, special.spelling.clone());
        }
        segments
    }

    /// Appends tokens as text and special tokens, so that `append` encodes them again.
    fn push_tokens(&self, segments: &mut Segments, tokens: &[u32]) {
        let mut decoder = self.tokenizer.text_decoder(segments.end());
        for token in tokens {
            if *token >= FIRST_IMAGE_ROW {
                segments.push_text(&decoder.finish());
                segments.push_rows(*token..token.saturating_add(1));
                decoder = self.tokenizer.text_decoder(segments.end());
            } else if let Some(special) = self.tokenizer.specials().with_id(*token) {
                segments.push_text(&decoder.finish());
                segments.push_special(special.id, &special.spelling);
                decoder = self.tokenizer.text_decoder(segments.end());
            } else {
                segments.push_text(&decoder.push(*token));
            }
        }
        segments.push_text(&decoder.finish());
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

    /// Appends the tokens of segments, of which the first is at a place.
    fn append(&self, segments: &Segments, first: Place, tokens: &mut Vec<u32>) {
        for (place, segment) in segments.placed(first) {
            match segment {
                Segment::Special { id, .. } => tokens.push(*id),
                Segment::Text(text) => self.tokenizer.encode(text, place, tokens),
                Segment::Rows(rows) => tokens.extend(rows.clone()),
            }
        }
    }
}

/// Returns a message in which special tokens are broken, except those that an answer may contain. Arguments of calls
/// stay text if the template takes text.
fn guarded(
    guard: &Guard<'_>,
    message: &Message,
    template: &ChatTemplate,
    takes: Takes<'_>,
) -> Message {
    let whole = |text: &String| guard.mark(text, |_| true);
    let calls = message.calls.iter().map(|call| {
        let arguments = if template.takes_text() {
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
    let (content, images) = images::guarded(message, takes, |text| {
        guard.mark(text, |special| {
            message.role != Role::Assistant || !is_answerable(special, template)
        })
    });
    Message {
        role: message.role,
        content,
        images,
        reasoning: whole(&message.reasoning),
        calls: calls.collect(),
        call_id: message.call_id.as_ref().map(whole),
        spelled: None,
    }
}

/// Whether an answer's text may contain the token. Templates look for such tokens in past answers (Qwen3's cuts at
/// `</think>`). If a template does not write calls, they are in the text of past answers, with the tokens around them.
fn is_answerable(special: &Special, template: &ChatTemplate) -> bool {
    let is_of_call = !template.writes_calls() && special.spelling.contains("tool_call");
    special.class != Class::Control || is_of_call
}
