//! Calls of the bus's maximum length are skipped at no cost. Calls of the daemon's maximum length are refused by name,
//! and cost little more than their bytes.

use std::collections::HashMap;

use futures_util::future::join_all;
use ganglion::bus::{Error, NAME, PATH};
use serde::Serialize;
use zbus::{DynamicType, ObjectPath, Variant};

use super::fields;
use crate::support::daemon::Client;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;

/// Slightly less than the system bus's limit.
const LONGEST: usize = 27 << 20;
/// Slightly less than the daemon's limit for one call.
const BYTES: usize = 46 << 16;
/// The memory that one call may cost: its bytes, twice as much for the allocator's layout, and the first use of its
/// threads. Decoding without a limit would cost ten times the bytes.
const COST: u64 = 3 * BYTES as u64 + (8 << 20);
const AT_ONCE: usize = 4;

type Fields<'a> = HashMap<&'a str, Variant<'a>>;

async fn call<B>(client: &Client, path: &str, method: &str, arguments: &B) -> String
where
    B: Serialize + DynamicType,
{
    let (interface, method) = method.split_once('.').expect("an interface and a method");
    let interface = format!("{NAME}.{interface}");
    let answer = client
        .connection
        .call_method(Some(NAME), path, Some(&*interface), method, arguments)
        .await;
    match answer {
        Err(zbus::Error::MethodError(name, text, _)) => {
            let text = text.unwrap_or_default();
            assert!(text.len() < 500, "{name}: {} bytes", text.len());
            format!("{}: {text}", name.rsplit('.').next().expect("a name"))
        }
        Err(zbus::Error::FDO(error)) => error.to_string(),
        other => panic!("{method}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_any_length_are_read_past() {
    let bus = PrivateBus::start();
    let mut daemon = Process::start(&bus, "", "").await;
    let clients = join_all((0..AT_ONCE).map(|_| Client::connect(&bus))).await;
    let before = daemon.peak().unwrap();
    let (text, none) = ("x".repeat(LONGEST), Fields::new());
    join_all(clients.iter().map(async |client| {
        for _ in 0..3 {
            let refused = call(client, PATH, "Manager.Complete", &(&text, &none)).await;
            let hint = "org.freedesktop.DBus.Error.LimitsExceeded: the call has 2831";
            assert!(refused.starts_with(hint), "{refused}");
        }
        assert!(client.manager.complete("hello", fields([])).await.is_ok());
    }))
    .await;
    // One of the calls is larger than this.
    let grown = daemon.peak().unwrap() - before;
    assert!(grown < 16 << 20, "{} MiB", grown >> 20);
    assert!(daemon.lives());
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_calls_cost_little_and_are_refused_by_name() {
    let bus = PrivateBus::start();
    let mut daemon = Process::start(&bus, "", "").await;
    let client = Client::connect(&bus).await;
    let session = client.manager.open_session(fields([])).await.unwrap();
    let before = daemon.peak().unwrap();
    let within = |cost: u64, what: &str| {
        let grown = daemon.peak().unwrap() - before;
        assert!(grown < cost, "{what}: {} MiB", grown >> 20);
    };
    let none = Fields::new();

    for (field, value, hint) in [
        (
            "x",
            Variant::U8(1),
            "InvalidMessages: message 0: unknown field",
        ),
        (
            "content",
            "x".into(),
            "InvalidMessages: there are more than 8192",
        ),
    ] {
        let one = HashMap::from([(field, value)]);
        let messages = vec![("user", &one); BYTES / 48];
        let refused = call(&client, PATH, "Manager.Generate", &(&messages, &none)).await;
        assert!(refused.starts_with(hint), "{refused}");
        within(COST, hint);
    }
    let nested = || Variant::from(vec![vec![1u8]; BYTES / 16]);
    let path = format!("/{}", "x".repeat(BYTES / 2));
    let path = ObjectPath::try_from(path).expect("a path");
    let texts = vec!["x"; BYTES / 16];
    for (method, name, value, hint) in [
        ("Generate", "seed", nested(), "\"seed\" is of type aay;"),
        ("Generate", "seed", path.into(), "\"seed\" is of type o;"),
        (
            "Generate",
            "stop",
            texts.into(),
            "allowed is up to 16 texts",
        ),
        ("Generate", "stop", "x".repeat(BYTES).into(), "is a text of"),
    ] {
        let question = [("user", fields([("content", "hello".into())]))];
        let options = Fields::from([(name, value)]);
        let method = format!("Manager.{method}");
        let refused = call(&client, PATH, &method, &(&question[..], options)).await;
        let right = refused.starts_with("InvalidOption: ") && refused.contains(hint);
        assert!(right, "{refused}");
        within(COST, hint);
    }
    let many: HashMap<_, _> = (0..BYTES / 48)
        .map(|n| (n.to_string(), Variant::U8(1)))
        .collect();
    let refused = call(&client, PATH, "Manager.OpenSession", &many).await;
    assert!(
        refused.starts_with("InvalidOption: unknown option"),
        "{refused}"
    );
    let text = "x".repeat(BYTES);
    let system = HashMap::from([("system", Variant::from(&*text))]);
    for refused in [
        call(&client, PATH, "Manager.OpenSession", &system).await,
        call(&client, PATH, "Manager.Complete", &(&text, &none)).await,
        call(&client, &session, "Session.Send", &(&text, &none)).await,
    ] {
        let long = refused.contains(&format!("has {BYTES} bytes; at most 1048576"));
        assert!(
            refused.starts_with("InvalidMessages: ") && long,
            "{refused}"
        );
    }
    within(COST, "long texts");

    let one = HashMap::from([("x", Variant::U8(1))]);
    let messages = vec![("user", &one); BYTES / 48];
    let clients = join_all((0..AT_ONCE).map(|_| Client::connect(&bus))).await;
    join_all(clients.iter().map(async |client| {
        let arguments = (&messages, &none);
        let refused = call(client, PATH, "Manager.Generate", &arguments).await;
        assert!(refused.starts_with("InvalidMessages: "), "{refused}");
    }))
    .await;
    within(AT_ONCE as u64 * COST, "many at once");
    assert!(daemon.lives());
    assert!(client.manager.complete("hello", fields([])).await.is_ok());
    // A call that is refused at its very end occupies memory only until then.
    assert!(matches!(
        client.manager.complete(&text, fields([])).await,
        Err(Error::InvalidMessages(_))
    ));
}
