//! `OpenSession`: opens the session in the engine first, then registers its object.

use std::sync::Arc;

use zbus::{Connection, OwnedObjectPath};

use super::error::Error;
use super::owner::ObjectOwner;
use super::session::{Claim, Session};
use super::shared::Shared;
use crate::engine::{Opening, Refusal};
use crate::front::{Config, NewSession, SessionDefaults};

/// Opens a session, and returns the path of its object.
pub(super) async fn open(
    shared: &Arc<Shared>,
    connection: &Connection,
    owner: ObjectOwner,
    config: &Config,
    session: NewSession,
) -> Result<OwnedObjectPath, Error> {
    let NewSession {
        name,
        persistent,
        take,
        messages,
        options,
    } = session;
    let defaults = SessionDefaults::read(&options, config)?;
    admit(shared, &owner, &defaults).await?;
    if defaults.tools.is_some() {
        let takes = shared.engine.takes_tools();
        takes.map_err(|refusal| shared.refused(&owner.client, refusal))?;
    }
    let client = owner.client.clone();
    let opened = shared.front.open_images(&client, messages).await;
    let messages = opened.map_err(|error| shared.refused(&client, error))?;
    let follows = shared
        .engine
        .admit_beginning(&client, &messages, defaults.tools.clone());
    let follows = follows.await;
    follows.map_err(|refusal| shared.refused(&client, refusal))?;
    let Some(name) = name else {
        let opened = shared.engine.open_session(client, messages);
        let id = opened.map_err(|refusal| shared.refused(&owner.client, refusal))?;
        let lease = shared.engine.lease(id).ok_or(Refusal::SessionClosed)?;
        return Session::serve(connection, Claim::new(shared, owner, lease), defaults).await;
    };
    let refused = |refusal| shared.refused(&owner.client, refusal);
    let asked = shared.engine.ask_named(Opening {
        client,
        name,
        persistent,
        take,
        messages,
        options,
    });
    let asked = asked.await.map_err(refused)?;
    // A session that exists may have more options than this call gives. Each turn checks that the model can call the
    // session's tools: its messages can be read with any model.
    let mut defaults = SessionDefaults::read(asked.options(), config)?;
    if admit(shared, &owner, &defaults).await.is_err() {
        // The user may not use the stored priority any more: the turns have the configured one.
        let mut options = asked.options().clone();
        options.remove("priority");
        defaults = SessionDefaults::read(&options, config)?;
    }
    // At this point, another connection that holds the session loses it.
    let opened = asked.take().await.map_err(refused)?;
    let claim = Claim::new(shared, owner.clone(), opened.lease);
    if let Some((before, _)) = opened.before {
        shared.registry.lose_session(before);
        Session::remove(connection, before).await;
    }
    Session::serve(connection, claim, defaults).await
}

/// Refuses defaults that the caller's user may not use.
async fn admit(
    shared: &Shared,
    owner: &ObjectOwner,
    defaults: &SessionDefaults,
) -> Result<(), Error> {
    shared
        .admit_priority(&owner.client, defaults.priority)
        .await
}
