//! A client in Rust with zbus. zbus-xmlgen makes its proxies from the shipped interfaces: `zbus-xmlgen file
//! org.ganglion.Llm1.Manager.xml --output manager.rs`, and so on.
//!
//! client generate | session | cancel | complete | signals | reconnect

#[allow(dead_code)]
#[rustfmt::skip]
mod manager;
#[allow(dead_code)]
#[rustfmt::skip]
mod request;
#[allow(dead_code)]
#[rustfmt::skip]
mod session;

use std::collections::HashMap;
use std::error::Error;

use futures_util::StreamExt;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;
use zbus::proxy::{CacheProperties, Defaults, ProxyImpl};
use zbus::{Connection, OwnedFd, Variant};

use manager::ManagerProxy;
use request::RequestProxy;
use session::SessionProxy;

type Done<T = ()> = Result<T, Box<dyn Error>>;
const NAME: &str = "org.ganglion.Llm1";
const ROOT: &str = "/org/ganglion/Llm1";

/// Returns a proxy of a generated type. Most properties signal no changes, so none is cached.
async fn proxy<T>(bus: &Connection, path: &str) -> Done<T>
where
    T: ProxyImpl<'static> + Defaults + From<zbus::Proxy<'static>>,
{
    let proxy = T::builder(bus).destination(NAME).path(path.to_owned());
    Ok(proxy.cache_properties(CacheProperties::No).build().await?)
}

/// Prints the frames of a stream and returns the last. The pipe is closed when it is dropped.
async fn show(stream: OwnedFd) -> Done<String> {
    let mut lines = BufReader::new(Receiver::from_owned_fd(stream.into())?).lines();
    let mut last = String::new();
    while let Some(line) = lines.next_line().await? {
        println!("{line}");
        last = line;
    }
    Ok(last)
}

fn ends(last: &str, reason: &str) -> Done {
    let wanted = format!("\"finish_reason\":\"{reason}\"");
    if last.contains(&wanted) {
        Ok(())
    } else {
        Err(format!("not {reason}: {last}").into())
    }
}

async fn generate(bus: &Connection, most: u32) -> Done<(RequestProxy<'static>, OwnedFd)> {
    let (content, most) = (Variant::from("hello"), Variant::from(most));
    let message = ("user", HashMap::from([("content", &content)]));
    let manager: ManagerProxy<'_> = proxy(bus, ROOT).await?;
    let options = HashMap::from([("max_tokens", &most)]);
    let (path, stream) = manager.generate(&[&message], options).await?;
    Ok((proxy(bus, &path).await?, stream))
}

async fn send(session: &SessionProxy<'_>, text: &str) -> Done {
    let most = Variant::from(10u32);
    let (_, stream) = session
        .send(text, HashMap::from([("max_tokens", &most)]))
        .await?;
    ends(&show(stream).await?, "length")
}

async fn open(bus: &Connection) -> Done<SessionProxy<'static>> {
    let system = Variant::from("Be brief.");
    let manager: ManagerProxy<'_> = proxy(bus, ROOT).await?;
    let path = manager
        .open_session(HashMap::from([("system", &system)]))
        .await?;
    proxy(bus, &path).await
}

async fn converse(bus: &Connection) -> Done {
    let session = open(bus).await?;
    send(&session, "hello").await?;
    send(&session, "and again").await?;
    assert_eq!(
        (session.turns().await?, session.messages().await?.len()),
        (2, 5)
    );
    Ok(session.close().await?)
}

async fn cancel(bus: &Connection) -> Done {
    let (request, stream) = generate(bus, 400).await?;
    request.cancel().await?;
    ends(&show(stream).await?, "cancelled")
}

async fn complete(bus: &Connection) -> Done {
    let most = Variant::from(10u32);
    let manager: ManagerProxy<'_> = proxy(bus, ROOT).await?;
    let (text, info) = manager
        .complete("hello", HashMap::from([("max_tokens", &most)]))
        .await?;
    println!("{text} {:?}", info["finish_reason"]);
    Ok(())
}

async fn signals(bus: &Connection) -> Done {
    let (content, most, wanted) = (
        Variant::from("hello"),
        Variant::from(20u32),
        Variant::from(true),
    );
    let message = ("user", HashMap::from([("content", &content)]));
    let options = HashMap::from([("max_tokens", &most), ("signals", &wanted)]);
    let manager: ManagerProxy<'_> = proxy(bus, ROOT).await?;
    let path = manager.submit(&[&message], options).await?;
    let request: RequestProxy<'_> = proxy(bus, &path).await?;
    let (mut deltas, mut finished) = (
        request.receive_delta().await?,
        request.receive_finished().await?,
    );
    // The request may have ended before the subscription.
    while request.result().await?.is_empty() {
        tokio::select! {
            Some(delta) = deltas.next() => print!("{}", delta.args()?.text),
            _ = finished.next() => break,
        }
    }
    println!();
    Ok(())
}

/// A restarted daemon forgets its sessions, so the client opens another.
async fn reconnect(bus: &Connection) -> Done {
    let names = zbus::fdo::DBusProxy::new(bus).await?;
    let mut changes = names
        .receive_name_owner_changed_with_args(&[(0, NAME)])
        .await?;
    let session = open(bus).await?;
    send(&session, "hello").await?;
    println!("restart the daemon");
    while changes
        .next()
        .await
        .ok_or("the bus has gone")?
        .args()?
        .new_owner()
        .is_none()
    {}
    let gone = session
        .clear()
        .await
        .expect_err("the session outlived its daemon");
    assert!(gone.to_string().contains("UnknownObject"), "{gone}");
    send(&open(bus).await?, "hello again").await
}

#[tokio::main]
async fn main() -> Done {
    let bus = Connection::system().await?;
    match std::env::args().nth(1).as_deref() {
        Some("generate") => ends(&show(generate(&bus, 20).await?.1).await?, "length"),
        Some("session") => converse(&bus).await,
        Some("cancel") => cancel(&bus).await,
        Some("complete") => complete(&bus).await,
        Some("signals") => signals(&bus).await,
        Some("reconnect") => reconnect(&bus).await,
        _ => Err("client generate | session | cancel | complete | signals | reconnect".into()),
    }
}
