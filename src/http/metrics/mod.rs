//! `/metrics`: counts and times as Prometheus reads them (text format 0.0.4), since the start of the daemon.
//!
//! Root and the members of group `ganglion-admin` may read them, by the user id of the caller: that of its UNIX socket's
//! peer, of its container's socket, or of its key. These are the users who may read the costs of the last request on
//! D-Bus too. Root may, although it has only a member's rights over HTTP otherwise: the figures are of all users
//! together, so that the root of a container learns no more than how busy the daemon is. A scraper over TCP needs a key
//! of a user in that group.
//!
//! The engine and the front ends count; nothing here does. All requests count, those on D-Bus too.

mod board;
mod machine;
mod page;
mod table;
mod text;

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};

pub use table::{Kind, METRICS, Metric};

use super::error::Error;
use super::shared::Shared;
use crate::engine::Client;
use crate::front::Front;
use machine::Machine;

/// Returns all metrics to a user who may read them.
pub(super) async fn metrics(
    State(shared): State<Shared>,
    Extension(client): Extension<Client>,
) -> Result<Response, Error> {
    if !may_read(&shared.front, client.user).await {
        return Err(forbidden(client.user));
    }
    // The files of a sleeping sensor can make their reader wait. Without them the other figures are still there.
    let engine = shared.front.engine().clone();
    let machine = tokio::task::spawn_blocking(move || Machine::read(engine.board()));
    let machine = machine.await.unwrap_or_default();
    let text = page::page(&shared, &machine);
    let headers = [
        (header::CONTENT_TYPE, text::CONTENT_TYPE),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, text).into_response())
}

async fn may_read(front: &Front, user: u32) -> bool {
    user == 0 || front.is_operator(user).await
}

fn forbidden(user: u32) -> Error {
    Error {
        status: StatusCode::FORBIDDEN,
        kind: "permission_error",
        code: Some("insufficient_permissions"),
        param: None,
        message: format!(
            "/metrics is for root and the members of group ganglion-admin, and user {user} is neither; add the user to that \
             group, or use a key of such a user"
        ),
        retry_after: None,
    }
}

#[cfg(test)]
mod tests;
