//! Shows each connection its own tree of objects: the daemon's object, and the sessions and requests that the connection
//! made. A call to an object of another connection gets the answer of a call to an object that does not exist.
//!
//! zbus has one tree for all callers. The filter receives each call before zbus, and answers some itself: introspection of
//! the nodes above callers' objects, calls to paths that are not the caller's objects, calls of properties that zbus refuses
//! (`properties`), and calls without an interface that `members` cannot complete.

use std::fmt::Write as _;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use zbus::message::{Header, Message};
use zbus::object_server::Interface as _;
use zbus::{Connection, fdo};

use super::PATH;
use super::diagnostics::Diagnostics;
use super::error::no_object;
use super::manager::Manager;
use super::members::{self, Found, OF_NODES, OF_OBJECTS, PEER};
use super::owner::Caller;
use super::properties::{self, PropertyRead};
use super::registry::ObjectKind;
use super::shared::Shared;
use super::transport;

const INTROSPECTABLE: &str = "org.freedesktop.DBus.Introspectable";

const HEAD: &str = r#"<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
<node>
"#;

/// The answer to a call that zbus does not receive.
#[derive(Debug)]
pub(super) enum Answer {
    /// Introspection data.
    Text(String),
    Properties(PropertyRead),
}

/// A call that zbus does not receive, and its answer.
pub(super) type Answered = (Message, fdo::Result<Answer>);

/// Keeps callers from objects that are not theirs.
#[derive(Debug)]
pub(super) struct ObjectFilter {
    shared: Arc<Shared>,
    /// The interfaces of the daemon's own object.
    interfaces: String,
    answered: UnboundedSender<Answered>,
}

impl ObjectFilter {
    /// Also returns the calls to answer; the limit of pending calls bounds them.
    pub(super) fn new(
        shared: Arc<Shared>,
        manager: &Manager,
        diagnostics: &Diagnostics,
    ) -> (Self, UnboundedReceiver<Answered>) {
        let mut interfaces = format!("{OF_NODES}{OF_OBJECTS}");
        manager.introspect_to_writer(&mut interfaces, 2);
        diagnostics.introspect_to_writer(&mut interfaces, 2);
        let (answered, answers) = unbounded_channel();
        let filter = Self {
            shared,
            interfaces,
            answered,
        };
        (filter, answers)
    }

    /// Returns the answer to a call; `None` if zbus answers it.
    fn answer(&self, call: &Message) -> Option<fdo::Result<Answer>> {
        let header = call.header();
        let path = header.path()?.as_str();
        let interface = header.interface().map(zbus::names::InterfaceName::as_str);
        if interface == Some(PEER) {
            return None;
        }
        let is_introspect = header.member().is_some_and(|member| member == "Introspect");
        let introspects = interface == Some(INTROSPECTABLE) && is_introspect;
        let unknown = || Some(Err(fdo::Error::UnknownObject(no_object(path))));
        let text = |text| Some(Ok(Answer::Text(text)));
        let below = path
            .strip_prefix(PATH)
            .and_then(|below| below.strip_prefix('/'));
        let Some(below) = below else {
            let child = match path {
                "/" => "org",
                "/org" => "ganglion",
                "/org/ganglion" => "Llm1",
                PATH if introspects => return text(self.own_object(&header)),
                PATH => return of_object(call, &header),
                _ if interface.is_none() => return unknown(),
                _ => return None,
            };
            return if introspects {
                text(node(OF_NODES, [child]))
            } else {
                of_object(call, &header)
            };
        };
        let (node_name, object) = match below.split_once('/') {
            Some((node_name, object)) => (node_name, Some(object)),
            None => (below, None),
        };
        let mut kinds = ObjectKind::ALL.into_iter();
        let Some(kind) = kinds.find(|kind| kind.name() == node_name) else {
            return interface.is_none().then(unknown).flatten();
        };
        let caller = Caller::of(&header).ok()?;
        let registry = &self.shared.registry;
        match object {
            Some(object) => {
                // Other spellings of the number, such as 07, are not paths of objects.
                let number = object
                    .parse()
                    .ok()
                    .filter(|n: &u64| n.to_string() == object);
                let is_own = number.is_some_and(|number| registry.has(&caller, kind, number));
                if is_own {
                    of_object(call, &header)
                } else {
                    unknown()
                }
            }
            None if introspects => {
                let objects = registry.objects(&caller, kind);
                text(node(OF_NODES, objects))
            }
            None => unknown(),
        }
    }

    /// Returns the introspection of the daemon's own object, and of the nodes with objects of the caller.
    fn own_object(&self, header: &Header<'_>) -> String {
        let registry = &self.shared.registry;
        let has = |kind: &ObjectKind| {
            let caller = Caller::of(header);
            caller.is_ok_and(|caller| !registry.objects(&caller, *kind).is_empty())
        };
        node(
            &self.interfaces,
            ObjectKind::ALL
                .into_iter()
                .filter(has)
                .map(ObjectKind::name),
        )
    }
}

impl transport::CallFilter for ObjectFilter {
    fn passes(&self, call: &Message) -> bool {
        let Some(answer) = self.answer(call) else {
            return true;
        };
        // The receiver ends when the bus is lost.
        let _ = self.answered.send((call.clone(), answer));
        false
    }

    fn interface(&self, path: &str, member: &str) -> Option<&'static str> {
        match members::with_method(path, member) {
            Found::One(interface) => Some(interface),
            Found::None | Found::Several(_) => None,
        }
    }
}

/// Returns the answer to a call of an object that the caller may use; `None` if zbus answers it.
fn of_object(call: &Message, header: &Header<'_>) -> Option<fdo::Result<Answer>> {
    if header.interface().is_some() {
        return properties::read(call).map(|read| read.map(Answer::Properties));
    }
    let (path, member) = (header.path()?.as_str(), header.member()?.as_str());
    Some(Err(members::with_method(path, member).refusal(path, member)))
}

/// Answers the calls that zbus does not receive, until the connection ends.
pub(super) async fn answer(connection: Connection, mut answers: UnboundedReceiver<Answered>) {
    while let Some((call, answer)) = answers.recv().await {
        let header = call.header();
        let sent = match answer {
            Ok(Answer::Text(xml)) => connection.reply(&header, &xml).await,
            Ok(Answer::Properties(read)) => {
                // Some properties query the bus for their value.
                tokio::spawn(properties::answer(connection.clone(), call.clone(), read));
                continue;
            }
            Err(error) => connection.reply_dbus_error(&header, error).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Returns the introspection of a node: its interfaces, and the names of the nodes below it.
fn node<N: std::fmt::Display>(interfaces: &str, below: impl IntoIterator<Item = N>) -> String {
    let mut text = format!("{HEAD}{interfaces}");
    for name in below {
        let _ = writeln!(text, "  <node name=\"{name}\"/>");
    }
    text + "</node>\n"
}
