//! Clients that read their answers, and clients that never do.

use std::collections::BTreeMap;
use std::future::pending;

use futures_util::future::join_all;
use ganglion::bus::Frame;
use ganglion::bus::proxy::{Fields, ManagerProxy, SessionProxy};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;
use zbus::proxy::CacheProperties;
use zbus::{Connection, OwnedFd, Variant};

use crate::Failed;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn ask(count: &str, text: &str, times: &str) -> Result<(), Failed> {
    let manager = manager().await?;
    let count: usize = count.parse()?;
    let mut endings: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..times.parse()? {
        let answers = join_all((0..count).map(|_| async {
            match generate(&manager, text).await {
                Ok(stream) => ending(stream).await,
                Err(error) => Ok(error.to_string()),
            }
        }));
        for ending in answers.await {
            *endings.entry(ending?).or_default() += 1;
        }
    }
    for (ending, count) in endings {
        println!("{count} {ending}");
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn reload(times: &str) -> Result<(), Failed> {
    let manager = manager().await?;
    for _ in 0..times.parse()? {
        manager.reload().await?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn hold(count: &str, text: &str) -> Result<(), Failed> {
    let manager = manager().await?;
    let mut streams = Vec::new();
    for _ in 0..count.parse()? {
        streams.push(generate(&manager, text).await?);
    }
    println!("holding {}", streams.len());
    pending().await
}

/// Sends these texts in the session of that name. Prints the outcome or the error of each, then the number of turns.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn talk(name: &str, texts: &[&str]) -> Result<(), Failed> {
    let manager = manager().await?;
    let named = Fields::from([("name", Variant::from(name)), ("max_tokens", 4u32.into())]);
    let path = match manager.open_session(named).await {
        Ok(path) => path,
        Err(error) => {
            println!("not opened: {error}");
            return Ok(());
        }
    };
    let session = SessionProxy::builder(manager.inner().connection())
        .path(path)
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    for text in texts {
        match session.send(text, Fields::new()).await {
            Ok((_, stream)) => println!("{}", ending(stream).await?),
            Err(error) => println!("{error}"),
        }
    }
    println!("{} turns", session.turns().await?);
    Ok(session.close().await?)
}

async fn manager() -> zbus::Result<ManagerProxy<'static>> {
    let connection = Connection::system().await?;
    ManagerProxy::builder(&connection)
        .cache_properties(CacheProperties::No)
        .build()
        .await
}

async fn generate(manager: &ManagerProxy<'_>, text: &str) -> Result<OwnedFd, Failed> {
    let message = ("user", Fields::from([("content", Variant::from(text))]));
    let (_, stream) = manager.generate(&[message], Fields::new()).await?;
    Ok(stream)
}

/// Returns the finish reason with its message, or "lost" if the stream ends without a last frame.
async fn ending(stream: OwnedFd) -> Result<String, Failed> {
    let mut lines = BufReader::new(Receiver::from_owned_fd(stream.into())?).lines();
    while let Some(line) = lines.next_line().await? {
        if let Frame::Done {
            finish_reason,
            message,
            ..
        } = Frame::from_line(&line)?
        {
            let said = message.map_or_else(String::new, |message| format!(": {message}"));
            return Ok(format!("{}{said}", finish_reason.name()));
        }
    }
    Ok("lost".to_owned())
}
