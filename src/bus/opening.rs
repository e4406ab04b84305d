//! Brings a session from `OpenSession` to its owner: the engine's session first, then its object.

use std::sync::Arc;

use zbus::{Connection, OwnedObjectPath};

use super::authorize::Owner;
use super::options::{self, Beginnings, Opening};
use super::session::Session;
use super::shared::Shared;
use super::{BusConfig, Error};
use crate::engine;

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
    let Some(name) = name else {
        let opened = shared.engine.open_session(client, messages);
        let id = opened.map_err(|refusal| shared.refused(&owner.client, refusal))?;
        return Session::serve(shared, connection, owner, (id, given)).await;
    };
    let opened = shared.engine.open_named(engine::Opening {
        client,
        name,
        persistent,
        take,
        messages,
        options,
    });
    let opened = opened.await;
    let opened = opened.map_err(|refusal| shared.refused(&owner.client, refusal))?;
    let id = opened.id;
    // What it had before may be more than was given now. Whether this model calls the tools that it has is
    // asked by each turn: what was said can be read with any model.
    let mut given = options::given(&opened.options, config);
    if let Ok(before) = &given
        && admit(shared, &owner, before).await.is_err()
    {
        // A priority that its user may not ask for any more: its turns have that of all others.
        let mut options = opened.options;
        options.remove("priority");
        given = options::given(&options, config);
    }
    if opened.before.is_some() {
        shared.registry.lose_session(id);
        Session::remove(connection, id).await;
    }
    match given {
        Ok(given) => Session::serve(shared, connection, owner, (id, given)).await,
        Err(error) => {
            shared.engine.let_go(id, owner.caller.name());
            Err(error)
        }
    }
}

/// Whether a caller may have its turns start from that.
async fn admit(shared: &Shared, owner: &Owner, given: &Beginnings) -> Result<(), Error> {
    shared.admit_priority(&owner.client, given.priority).await
}
