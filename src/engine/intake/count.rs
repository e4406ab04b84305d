//! Counts the tokens of a prompt without queueing it.

use super::accept::unstarted;
use super::registration::Registration;
use crate::engine::caller::client::Client;
use crate::engine::caller::handle::Handle;
use crate::engine::caller::request::{Options, Refusal, check_calls};
use crate::engine::prompt::workers::Interest;
use crate::model::Message;

impl Handle {
    /// Returns the number of tokens of the prompt that a conversation would have.
    ///
    /// # Errors
    /// `NotReady`, `InvalidMessages`, `ContextFull`, `PromptBytes`, `NotSupported`.
    pub async fn count_tokens(
        &self,
        client: &Client,
        messages: Vec<Message>,
        options: Options,
    ) -> Result<usize, Refusal> {
        self.loaded()?;
        check_calls(&messages)?;
        let encoder = self.shared.encoder().clone();
        let gone = || Refusal::NotReady("the messages were not encoded; call again".into());
        let encoder = encoder.ok_or_else(gone)?;
        encoder.admit(&messages)?;
        let rules = self.shared.rules(client.user);
        let registration = Registration::new(&self.shared);
        let encode = move |_: &Interest| encoder.prompt(&messages, None, &options, &rules);
        let encoders = &self.shared.encoders;
        let run = encoders.run(registration.id(), client.clone(), encode);
        let result = run.await.map_err(|error| unstarted(&error))?;
        let (request, _) = result.ok_or_else(gone)??;
        Ok(request.prompt.tokens.len())
    }
}
