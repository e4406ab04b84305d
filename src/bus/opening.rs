//! Brings a session from `OpenSession` to its owner: the engine's session first, then its object.

use std::sync::Arc;

use zbus::{Connection, OwnedObjectPath};

use super::authorize::Owner;
use super::options::{self, Beginnings, Opening};
use super::session::{Claim, Session};
use super::shared::Shared;
use super::{BusConfig, Error};
use crate::engine::{self, Refusal};

/// Opens what was asked for.
pub(super) async fn open(
    shared: &Arc<Shared>,
    connection: &Connection,
    owner: Owner,
    config: &BusConfig,
    opening: Opening,
) -> Result<OwnedObjectPath, Error> {
    let Opening {
        name,
        persistent,
        take,
        messages,
        options,
    } = opening;
    let given = options::given(&options, config)?;
    admit(shared, &owner, &given).await?;
    if given.tools.is_some() {
        let takes = shared.engine.takes_tools();
        takes.map_err(|refusal| shared.refused(&owner.client, refusal))?;
    }
    let client = owner.client.clone();
    let follows = shared
        .engine
        .admit_beginning(&client, &messages, given.tools.clone());
    let follows = follows.await;
    follows.map_err(|refusal| shared.refused(&client, refusal))?;
    let Some(name) = name else {
        let opened = shared.engine.open_session(client, messages);
        let id = opened.map_err(|refusal| shared.refused(&owner.client, refusal))?;
        let lease = shared.engine.lease(id).ok_or(Refusal::SessionClosed)?;
        return Session::serve(connection, Claim::new(shared, owner, lease), given).await;
    };
    let refused = |refusal| shared.refused(&owner.client, refusal);
    let asked = shared.engine.ask_named(engine::Opening {
        client,
        name,
        persistent,
        take,
        messages,
        options,
    });
    let asked = asked.await.map_err(refused)?;
    // What it had before may be more than was given now. Whether this model calls the tools that it has is
    // asked by each turn: what was said can be read with any model.
    let mut given = options::given(asked.options(), config)?;
    if admit(shared, &owner, &given).await.is_err() {
        // A priority that its user may not ask for any more: its turns have that of all others.
        let mut options = asked.options().clone();
        options.remove("priority");
        given = options::given(&options, config)?;
    }
    // From here on a connection that holds the session loses it.
    let opened = asked.take().await.map_err(refused)?;
    let claim = Claim::new(shared, owner.clone(), opened.lease);
    if let Some((before, _)) = opened.before {
        shared.registry.lose_session(before);
        Session::remove(connection, before).await;
    }
    Session::serve(connection, claim, given).await
}

/// Whether a caller may have its turns start from that.
async fn admit(shared: &Shared, owner: &Owner, given: &Beginnings) -> Result<(), Error> {
    shared.admit_priority(&owner.client, given.priority).await
}
