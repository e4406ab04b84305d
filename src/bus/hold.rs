//! `Manager.Hold` and `HoldAll`: requests stay off the device until the caller closes a descriptor, leaves the bus, or
//! `hold.max_seconds` have passed.

use std::time::Duration;

use tokio::net::unix::pipe::{Receiver, pipe};
use tokio::sync::oneshot;
use tokio::time::timeout;
use zbus::message::Header;

use super::accounts::Load;
use super::error::Error;
use super::owner::ObjectOwner;
use super::returned_answers;
use super::shared::Shared;
use crate::engine::Held;
use crate::front::Forbidden;

/// Characters of a reason that are kept.
const REASON: usize = 200;

impl Shared {
    /// Begins a hold for a caller; returns the descriptor whose closing ends it.
    pub(super) async fn hold(
        &self,
        owner: &ObjectOwner,
        header: &Header<'_>,
        held: Held,
        reason: &str,
    ) -> Result<zbus::OwnedFd, Error> {
        if self.accounts.is_without_descriptors(owner.caller.name()) {
            return Err(returned_answers::error_of_hold());
        }
        let one = Load {
            bytes: 0,
            descriptors: 1,
        };
        self.accounts.room(owner, header, one).await?;
        if held == Held::All {
            let refused = |forbidden: Forbidden| {
                Error::NotSupported(format!(
                    "HoldAll is for {forbidden}; Hold holds background requests"
                ))
            };
            let admitted = self.front.admit_realtime(owner.client.user).await;
            admitted.map_err(refused)?;
        }
        let longest = self.front_config().await.hold_longest;
        let refused = |error| {
            let why = format!("no pipe could be made ({error}); try again");
            Error::Busy(why)
        };
        let (theirs, ours) = pipe().map_err(refused)?;
        let theirs = theirs.into_blocking_fd().map_err(refused)?;
        let (end, ended) = oneshot::channel();
        {
            let mut holds = self.holds.lock();
            if holds.contains_key(&owner.caller) {
                let why = "this connection has a hold already; close its descriptor first";
                return Err(Error::Busy(why.to_owned()));
            }
            holds.insert(owner.caller.clone(), end);
        }
        let reason = reason.chars().take(REASON).collect();
        let active = self
            .engine
            .hold(owner.client.clone(), held, reason, longest);
        let holds = self.holds.clone();
        let caller = owner.caller.clone();
        tokio::spawn(async move {
            wait_for_end(ours, ended, longest).await;
            drop(active);
            holds.leave(&caller);
        });
        Ok(theirs.into())
    }
}

/// Returns when the other end of the pipe is closed, its owner has left, or the time is over.
async fn wait_for_end(pipe: Receiver, left: oneshot::Receiver<()>, longest: Duration) {
    let closed = async {
        let mut ignored = [0; 64];
        loop {
            // Bytes that the caller writes mean nothing.
            match pipe.readable().await {
                Ok(()) => match pipe.try_read(&mut ignored) {
                    Ok(0) => return,
                    Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
                    Ok(_) | Err(_) => {}
                },
                Err(_) => return,
            }
        }
    };
    let ends = async {
        tokio::select! {
            () = closed => {}
            _ = left => {}
        }
    };
    // The timeout ends the hold as well.
    let _ = timeout(longest, ends).await;
}
