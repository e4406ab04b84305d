//! `ganglion.session`: a request that continues a named session of the caller's user. It has only the new messages; the
//! session is held until the answer is complete, so that programs with the same name take turns.

use crate::engine::{Client, Handle, Lease, Message, Name, Opening, Role};
use crate::front::{Config, Front, GivenMessages, SessionDefaults};

use super::error::Error;
use super::terms::Terms;

/// A session that a request holds; dropping it releases the session.
#[derive(Debug)]
pub(super) struct HeldSession {
    engine: Handle,
    pub(super) client: Client,
    pub(super) lease: Lease,
}

impl Drop for HeldSession {
    fn drop(&mut self) {
        self.engine.release_session(self.lease, &self.client.name);
    }
}

/// Returns the name of a session.
///
/// # Errors
/// If it is not one.
pub(super) fn name(text: &str) -> Result<Name, Error> {
    Name::new(text).map_err(|error| {
        let why = format!("ganglion.session: {error}");
        Error::invalid(Some("ganglion.session"), why).with_code("invalid_value")
    })
}

/// Opens a session, which the system messages before all others begin if it is new. Returns it, the defaults of its turns,
/// and the other messages.
///
/// # Errors
/// If the messages have an answer, or the session cannot be opened.
pub(super) async fn open(
    front: &Front,
    client: &Client,
    request: &str,
    name: Name,
    (said, terms): (GivenMessages, &Terms),
) -> Result<(HeldSession, Config, GivenMessages), Error> {
    let (beginning, said) = split(said, terms)?;
    // Each request is a holder of its own: another one on the same connection must wait as well.
    let client = Client {
        name: format!("{}/{request}", client.name).into(),
        user: client.user,
    };
    let engine = front.engine();
    let refused = |refusal| Error::from(front.refused(&client, refusal));
    let follows = engine.admit_beginning(&client, &beginning, None).await;
    follows.map_err(refused)?;
    let opening = Opening {
        client: client.clone(),
        name,
        persistent: None,
        take: false,
        messages: beginning,
        options: serde_json::Map::new(),
    };
    let asked = engine.ask_named(opening).await.map_err(refused)?;
    let config = front.config().await;
    let config = SessionDefaults::read(asked.options(), &config)?.over(&config)?;
    let opened = asked.take().await.map_err(refused)?;
    let held = HeldSession {
        engine: engine.clone(),
        client,
        lease: opened.lease,
    };
    Ok((held, config, said))
}

/// Splits messages into those by the system before all others, and the rest.
fn split(said: GivenMessages, terms: &Terms) -> Result<(Vec<Message>, GivenMessages), Error> {
    let GivenMessages {
        mut messages,
        mut images,
    } = said;
    let answer = messages.iter().position(|one| one.role == Role::Assistant);
    if let Some(number) = answer {
        let path = if terms.is_numbered {
            format!("{}[{number}]", terms.messages)
        } else {
            terms.messages.to_owned()
        };
        let why = format!(
            "{path} is by \"assistant\": with ganglion.session the daemon has the earlier messages; send the new ones alone"
        );
        return Err(Error::invalid(Some(&path), why));
    }
    let system = messages.iter().take_while(|one| one.role == Role::System);
    let rest = messages.split_off(system.count());
    for image in &mut images {
        // Messages by the system have no images.
        image.message = image.message.saturating_sub(messages.len());
    }
    let said = GivenMessages {
        messages: rest,
        images,
    };
    Ok((messages, said))
}
