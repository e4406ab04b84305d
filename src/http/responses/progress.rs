//! An answer from its first event to its end: its items, and the events of a stream, written into one buffer.
//!
//! A whole answer has the same items; then nothing is written before the end.

use serde::Serialize;

use super::super::answer::heading::Heading;
use super::super::answer::sse;
use super::super::answer::stream::Writer;
use super::super::answer::whole;
use super::super::chain::Keeper;
use super::super::error::Error;
use super::super::terms;
use super::events::{Delta, Numbered, OfItem, OfPart, OfResponse, Place, Whole};
use super::items::{Content, Item, Status, logprobs};
use super::response::{Response, is_partial};
use super::settings::Settings;
use crate::engine::{Event, Likelihood, Outcome};
use crate::tools::Piece;

/// The beginning of the id of a response.
pub(super) const PREFIX: &str = "resp_";

/// An answer so far.
#[derive(Debug)]
pub(super) struct Progress {
    heading: Heading,
    settings: Settings,
    items: Vec<Item>,
    /// Whether the last item may grow.
    is_open: bool,
    /// Probabilities of tokens whose text has not arrived.
    likelihoods: Vec<Likelihood>,
    /// Keeps the response, if it is stored.
    keeper: Option<Keeper>,
    events: Events,
    has_begun: bool,
}

/// The events that are not sent yet.
#[derive(Debug)]
struct Events {
    /// Whether there is a stream.
    is_stream: bool,
    next: u64,
    unsent: Vec<u8>,
}

impl Events {
    fn write(&mut self, kind: &'static str, of: impl Serialize) {
        if !self.is_stream {
            return;
        }
        let event = Numbered {
            kind,
            sequence_number: self.next,
            of,
        };
        self.next += 1;
        sse::write_named(&mut self.unsent, kind, &event);
    }
}

impl Progress {
    pub(super) fn new(heading: Heading, settings: Settings, is_stream: bool) -> Self {
        Self {
            heading,
            settings,
            items: Vec::new(),
            is_open: false,
            likelihoods: Vec::new(),
            keeper: None,
            events: Events {
                is_stream,
                next: 0,
                unsent: Vec::new(),
            },
            has_begun: false,
        }
    }

    /// Returns the answer whose response a keeper gets.
    pub(super) fn kept_by(self, keeper: Option<Keeper>) -> Self {
        Self { keeper, ..self }
    }

    fn begin(&mut self) {
        self.has_begun = true;
        for kind in ["response.created", "response.in_progress"] {
            let response = Response::in_progress(&self.heading, &self.settings);
            self.events.write(kind, OfResponse { response });
        }
    }

    fn say(&mut self, text: &str) {
        if !matches!(self.open_content(), Some(Content::Text { .. })) {
            self.open(Content::Text {
                text: String::new(),
                likelihoods: Vec::new(),
            });
        }
        let news = std::mem::take(&mut self.likelihoods);
        if let Some((item, index)) = last(&mut self.items)
            && let Content::Text {
                text: whole,
                likelihoods,
            } = &mut item.content
        {
            whole.push_str(text);
            let delta = Delta {
                place: place(&item.id, index, Some(0)),
                more: text,
                logprobs: Some(logprobs(&news)),
            };
            self.events.write("response.output_text.delta", delta);
            likelihoods.extend(news);
        }
    }

    fn think(&mut self, text: &str) {
        // Only the tokens of the text have probabilities in the answer.
        self.likelihoods.clear();
        if !matches!(self.open_content(), Some(Content::Thoughts(_))) {
            self.open(Content::Thoughts(String::new()));
        }
        if let Some((item, index)) = last(&mut self.items)
            && let Content::Thoughts(whole) = &mut item.content
        {
            whole.push_str(text);
            let delta = Delta {
                place: place(&item.id, index, Some(0)),
                more: text,
                logprobs: None,
            };
            self.events.write("response.reasoning_text.delta", delta);
        }
    }

    fn call(&mut self, piece: Piece) {
        self.likelihoods.clear();
        // The first piece of a call has its id.
        if let Some(id) = piece.id {
            self.open(Content::Call {
                id,
                name: piece.name.unwrap_or_default(),
                arguments: String::new(),
            });
        }
        if let Some((item, index)) = last(&mut self.items)
            && let Content::Call { arguments, .. } = &mut item.content
            && !piece.arguments.is_empty()
        {
            arguments.push_str(&piece.arguments);
            let delta = Delta {
                place: place(&item.id, index, None),
                more: &piece.arguments,
                logprobs: None,
            };
            let kind = "response.function_call_arguments.delta";
            self.events.write(kind, delta);
        }
    }

    fn open_content(&self) -> Option<&Content> {
        let item = self.items.last().filter(|_| self.is_open)?;
        Some(&item.content)
    }

    /// Begins an item, after the end of the one before it.
    fn open(&mut self, content: Content) {
        self.close(Status::Completed);
        let index = self.items.len();
        let digits = self.heading.id.trim_start_matches(PREFIX);
        let item = Item::new(digits, index, content);
        let added = OfItem {
            output_index: index,
            item: item.begun(),
        };
        self.events.write("response.output_item.added", added);
        if let Some(part) = item.begun_part() {
            let place = place(&item.id, index, Some(0));
            let added = OfPart { place, part };
            self.events.write("response.content_part.added", added);
        }
        self.items.push(item);
        self.is_open = true;
    }

    /// Ends the last item, if it is open.
    fn close(&mut self, status: Status) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let Some((item, index)) = last(&mut self.items) else {
            return;
        };
        item.status = status;
        let place = |content_index| place(&item.id, index, content_index);
        let whole = Whole {
            place: place(Some(0)),
            text: None,
            arguments: None,
            logprobs: None,
        };
        let (kind, done) = match &item.content {
            Content::Thoughts(text) => {
                let text = Some(&**text);
                ("response.reasoning_text.done", Whole { text, ..whole })
            }
            Content::Text { text, likelihoods } => {
                let done = Whole {
                    text: Some(text),
                    logprobs: Some(logprobs(likelihoods)),
                    ..whole
                };
                ("response.output_text.done", done)
            }
            Content::Call { arguments, .. } => {
                let done = Whole {
                    place: place(None),
                    arguments: Some(arguments),
                    ..whole
                };
                ("response.function_call_arguments.done", done)
            }
        };
        self.events.write(kind, done);
        if let Some(part) = item.part() {
            let place = place(Some(0));
            self.events
                .write("response.content_part.done", OfPart { place, part });
        }
        let done = OfItem {
            output_index: index,
            item: item.json(),
        };
        self.events.write("response.output_item.done", done);
    }

    fn end(&mut self, outcome: &Outcome) {
        if let Some(error) = Error::of_outcome(outcome, &terms::RESPONSES) {
            self.close(Status::Incomplete);
            let response = Response::in_progress(&self.heading, &self.settings);
            let response = response.failed(&self.items, &error);
            self.events
                .write("response.failed", OfResponse { response });
            return;
        }
        let is_said = |item: &Item| !matches!(item.content, Content::Thoughts(_));
        if !self.items.iter().any(is_said) {
            // An answer without text is an empty text.
            self.open(Content::Text {
                text: String::new(),
                likelihoods: Vec::new(),
            });
        }
        let partial = is_partial(outcome.reason);
        let rest = std::mem::take(&mut self.likelihoods);
        let is_whole = match self.items.last_mut().map(|item| &mut item.content) {
            Some(Content::Text { likelihoods, .. }) => {
                likelihoods.extend(rest);
                !partial
            }
            Some(Content::Call { id, .. }) => outcome.calls.iter().any(|call| call.id == *id),
            _ => !partial,
        };
        self.close(if is_whole {
            Status::Completed
        } else {
            Status::Incomplete
        });
        let response = Response::in_progress(&self.heading, &self.settings);
        let response = response.ended(&self.items, outcome);
        if let Some(keeper) = &self.keeper {
            keeper.keep(&self.heading.id, to_json(&response));
        }
        let kind = if partial {
            "response.incomplete"
        } else {
            "response.completed"
        };
        self.events.write(kind, OfResponse { response });
    }
}

impl whole::Whole for Progress {
    fn collect(&mut self, event: Event) -> Option<Outcome> {
        let outcome = match &event {
            Event::Done(outcome) => Some(outcome.clone()),
            _ => None,
        };
        self.push(event);
        outcome
    }

    fn json(&self, _: &Heading, outcome: &Outcome) -> Result<Vec<u8>, Error> {
        if let Some(error) = Error::of_outcome(outcome, &terms::RESPONSES) {
            return Err(error);
        }
        let response = Response::in_progress(&self.heading, &self.settings);
        let response = response.ended(&self.items, outcome);
        Ok(to_json(&response))
    }
}

impl Writer for Progress {
    fn push(&mut self, event: Event) {
        if !self.has_begun {
            self.begin();
        }
        match event {
            Event::Likelihood(likelihood) => self.likelihoods.push(likelihood),
            Event::Text(text) => self.say(&text),
            Event::Reasoning(text) => self.think(&text),
            Event::Call(piece) => self.call(piece),
            Event::Done(outcome) => self.end(&outcome),
        }
    }

    fn ping(&mut self) {
        if self.has_begun {
            sse::write_comment(&mut self.events.unsent);
        } else {
            self.begin();
        }
    }

    fn unsent(&self) -> usize {
        self.events.unsent.len()
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.events.unsent)
    }
}

fn to_json(response: &Response<'_>) -> Vec<u8> {
    // Serializing to memory fails only for maps without text keys.
    serde_json::to_vec(response).unwrap_or_default()
}

/// Returns the last item, and its index.
fn last(items: &mut [Item]) -> Option<(&mut Item, usize)> {
    let index = items.len().checked_sub(1)?;
    Some((items.get_mut(index)?, index))
}

fn place(item_id: &str, output_index: usize, content_index: Option<usize>) -> Place<'_> {
    Place {
        item_id,
        output_index,
        content_index,
    }
}
