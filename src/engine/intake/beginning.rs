//! Checks whether any turn can follow the messages that a session is to begin with.

use std::sync::Arc;

use super::registration::Registration;
use crate::engine::caller::client::Client;
use crate::engine::caller::handle::Handle;
use crate::engine::caller::request::{Options, Refusal, check_calls};
use crate::engine::prompt::encoder::{Encoder, Rules};
use crate::engine::prompt::workers::Interest;
use crate::model::{Message, Role};
use crate::sampler::Parameters;
use crate::tools::Tools;

impl Handle {
    /// Refuses messages that no turn of a session could follow. Without a model, the session's turns are refused instead.
    ///
    /// # Errors
    /// `InvalidMessages`, `ContextFull`, `PromptBytes`, `NotReady`.
    pub async fn admit_beginning(
        &self,
        client: &Client,
        messages: &[Message],
        tools: Option<Arc<Tools>>,
    ) -> Result<(), Refusal> {
        check_calls(messages)?;
        let encoder = self.shared.encoder().clone();
        let Some(encoder) = encoder.filter(|_| !messages.is_empty()) else {
            return Ok(());
        };
        encoder.admit(messages)?;
        let rules = self.shared.rules(client.user);
        let registration = Registration::new(&self.shared);
        let messages = messages.to_vec();
        let encode = move |_: &Interest| follows(&encoder, &messages, tools, &rules);
        let encoders = &self.shared.encoders;
        let checked = encoders.run(registration.id(), client.clone(), encode);
        let gone = || Refusal::NotReady("the messages were not encoded; call again".into());
        checked.await.ok().flatten().ok_or_else(gone)?
    }
}

/// Encodes the conversation with the shortest turns that could follow, one after the other, until one can.
fn follows(
    encoder: &Encoder,
    messages: &[Message],
    tools: Option<Arc<Tools>>,
    rules: &Rules,
) -> Result<(), Refusal> {
    let options = Options {
        tools,
        ..Options::new(1, Parameters::default())
    };
    let mut refused = Ok(());
    for turn in turns(messages) {
        let whole = [messages, &turn].concat();
        match encoder.prompt(&whole, None, &options, rules) {
            Err(refusal @ Refusal::InvalidMessages(_)) => {
                // The template may accept another turn. The first refusal is that of the usual one.
                refused = refused.and(Err(refusal));
            }
            prompt => return prompt.map(drop),
        }
    }
    refused
}

/// Returns the turns that could follow: the results of pending calls, or a user's text. A conversation that ends with a
/// question gets an answer before it.
fn turns(messages: &[Message]) -> Vec<Vec<Message>> {
    let user = || Message::new(Role::User, ".");
    let mut turns = Vec::new();
    if let Some(last) = messages.last().filter(|last| !last.calls.is_empty()) {
        let result = |id: &String| Message {
            call_id: Some(id.clone()),
            ..Message::new(Role::Tool, ".")
        };
        turns.push(last.calls.iter().map(|call| result(&call.id)).collect());
    }
    turns.push(vec![user()]);
    turns.push(vec![Message::new(Role::Assistant, "."), user()]);
    turns
}
