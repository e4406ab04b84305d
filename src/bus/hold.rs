//! `Manager.Hold` and `HoldAll`: requests stay off the device until the caller closes a descriptor, leaves the bus, or has
//! held for `hold.max_seconds`.

use std::time::Duration;

use tokio::net::unix::pipe::{Receiver, pipe};
use tokio::sync::oneshot;
use tokio::time::timeout;
use zbus::message::Header;

use super::accounts::Load;
use super::authorize::Owner;
use super::shared::Shared;
use super::{Error, undelivered};
use crate::engine::Held;

/// Characters of a reason that are kept.
const REASON: usize = 200;

impl Shared {
    /// Holds for a caller, who gets what ends it.
    pub(super) async fn hold(
        &self,
        owner: &Owner,
        header: &Header<'_>,
        what: Held,
        reason: &str,
    ) -> Result<zbus::OwnedFd, Error> {
        if self.accounts.is_without_descriptors(owner.caller.name()) {
            return Err(undelivered::error());
        }
        let one = Load {
            bytes: 0,
            descriptors: 1,
        };
        self.accounts.room(owner, header, one).await?;
        if what == Held::All {
            let refused = |who| {
                Error::NotSupported(format!(
                    "to hold all that is asked is for {who}; Hold holds background requests"
                ))
            };
            self.admit_realtime(owner.client.user)
                .await
                .map_err(refused)?;
        }
        let longest = self.config().await.hold_longest;
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
                let why = "this connection holds already; close that descriptor first";
                return Err(Error::Busy(why.to_owned()));
            }
            holds.insert(owner.caller.clone(), end);
        }
        let reason = reason.chars().take(REASON).collect();
        let hold = self
            .engine
            .hold(owner.client.clone(), what, reason, longest);
        let holds = self.holds.clone();
        let caller = owner.caller.clone();
        tokio::spawn(async move {
            last(ours, ended, longest).await;
            drop(hold);
            holds.leave(&caller);
        });
        Ok(theirs.into())
    }
}

/// Returns when the other end is closed, its owner has left, or the time is over.
async fn last(pipe: Receiver, left: oneshot::Receiver<()>, longest: Duration) {
    let closed = async {
        let mut nothing = [0; 64];
        loop {
            // What is written there means nothing.
            match pipe.readable().await {
                Ok(()) => match pipe.try_read(&mut nothing) {
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
    // Too late is over, too.
    let _ = timeout(longest, ends).await;
}
