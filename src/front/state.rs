//! State that all front ends share: the engine, the configuration, permits, and the log of refusals.

use std::sync::Arc;

use super::config::Config;
use super::error::{Error, OptionError};
use super::images::Images;
use super::messages::GivenMessages;
use super::permits::{Permit, Permits};
use super::refusal_log::RefusalLog;
use super::rights::{self, Forbidden, Root};
use super::setting::Setting;
use crate::engine::{Client, Handle, Lease, Message, Options, Priority, Ticket};

/// The shared state; its clones are the same state.
#[derive(Clone, Debug)]
pub struct Front {
    engine: Handle,
    config: Setting<Config>,
    permits: Permits,
    images: Images,
    refusals: Arc<RefusalLog>,
    root: Root,
}

impl Front {
    #[must_use]
    pub fn new(engine: Handle) -> Self {
        Self {
            images: Images::new(engine.clone()),
            engine,
            config: Setting::default(),
            permits: Permits::default(),
            refusals: Arc::default(),
            root: Root::Privileged,
        }
    }

    /// Returns the same state for a front end where root has no more rights than other users, because its caller may be root
    /// of a container only.
    #[must_use]
    pub fn without_root(mut self) -> Self {
        self.root = Root::Ordinary;
        self
    }

    /// Returns the engine that answers.
    #[must_use]
    pub fn engine(&self) -> &Handle {
        &self.engine
    }

    /// Returns the configuration; waits until there is one.
    pub async fn config(&self) -> Arc<Config> {
        self.config.get().await
    }

    /// Applies a configuration: the first, or one that replaces it.
    pub fn configure(&self, config: Config) {
        self.config.set(config);
    }

    /// Takes a permit for one more request. A front end takes it before all other work on a request, so that a refusal
    /// costs little.
    pub fn admit(&self, client: &Client) -> Result<Permit, Error> {
        let permit = self.permits.take(client.user, &self.engine.limits());
        permit.map_err(|refusal| self.refused(client, refusal))
    }

    /// Returns when all permits have been given back: every request has been delivered.
    pub async fn delivered(&self) {
        self.permits.all_returned().await;
    }

    /// Returns the error of a refusal, and reports a reached limit to the journal.
    #[must_use]
    pub fn refused(&self, client: &Client, refusal: impl Into<Error>) -> Error {
        let error = refusal.into();
        if let Error::Refused(refusal) = &error
            && let Some(limit) = refusal.limit()
        {
            self.refusals.report(client, limit);
        }
        error
    }

    /// Returns the number of refusals by each limit since the start, by the key that sets the limit.
    #[must_use]
    pub fn refusals(&self) -> Vec<(&'static str, u64)> {
        self.refusals.counts()
    }

    /// Returns the messages of a call with their images, which are read and checked. A model that takes none refuses them
    /// before anything is read.
    pub async fn open_images(
        &self,
        client: &Client,
        said: GivenMessages,
    ) -> Result<Vec<Message>, Error> {
        let GivenMessages {
            mut messages,
            images,
        } = said;
        if images.is_empty() {
            return Ok(messages);
        }
        self.engine.takes_images()?;
        let limits = self.config().await.images;
        for opened in self.images.open(client.user, images, limits).await? {
            if let Some(message) = messages.get_mut(opened.message) {
                message.images.push(opened.image);
            }
        }
        Ok(messages)
    }

    /// Queues a request without a session.
    pub async fn generate(
        &self,
        client: Client,
        said: GivenMessages,
        options: Options,
    ) -> Result<Ticket, Error> {
        let messages = self.open_images(&client, said).await?;
        Ok(self.engine.generate(client, messages, options).await?)
    }

    /// Queues the next turn of a session of `client`.
    pub async fn reply(
        &self,
        client: &Client,
        session: Lease,
        said: GivenMessages,
        options: Options,
    ) -> Result<Ticket, Error> {
        let messages = self.open_images(client, said).await?;
        Ok(self.engine.reply(session, messages, options).await?)
    }

    /// Adds messages to a session of `client` without an answer.
    pub async fn append(
        &self,
        client: &Client,
        session: Lease,
        said: GivenMessages,
    ) -> Result<(), Error> {
        let messages = self.open_images(client, said).await?;
        Ok(self.engine.append(session, messages).await?)
    }

    /// Refuses a priority that the client's user may not use.
    pub async fn admit_priority(&self, client: &Client, priority: Priority) -> Result<(), Error> {
        if priority != Priority::Realtime {
            return Ok(());
        }
        let refused = |forbidden: Forbidden| OptionError::Unusable {
            option: "priority",
            why: format!("option \"priority\" is \"realtime\", which is for {forbidden}"),
        };
        Ok(self.admit_realtime(client.user).await.map_err(refused)?)
    }

    /// Refuses a user who may neither use priority realtime nor hold all requests.
    pub async fn admit_realtime(&self, user: u32) -> Result<(), Forbidden> {
        let group = self.config().await.realtime_group.clone();
        rights::admit_realtime(user, self.root, group).await
    }

    /// Whether a user may see the token counts and times of requests of other users: members of group `ganglion-admin`
    /// may, and root on most front ends.
    pub async fn is_operator(&self, user: u32) -> bool {
        rights::is_operator(user, self.root).await
    }
}

impl From<Handle> for Front {
    fn from(engine: Handle) -> Self {
        Self::new(engine)
    }
}
