//! The members of the daemon's objects, from the shipped interface files. They complete calls without an interface: the
//! interface of the object that has the method or the property.

use std::sync::LazyLock;

use roxmltree::{Document, Node, ParsingOptions};
use zbus::fdo;

use super::PATH;
use super::registry::ObjectKind;

/// Every path answers to it, with or without an object.
pub(super) const PEER: &str = "org.freedesktop.DBus.Peer";

/// The interfaces of every node.
pub(super) const OF_NODES: &str = r#"  <interface name="org.freedesktop.DBus.Introspectable">
    <method name="Introspect">
      <arg name="xml_data" type="s" direction="out"/>
    </method>
  </interface>
  <interface name="org.freedesktop.DBus.Peer">
    <method name="Ping"/>
    <method name="GetMachineId">
      <arg name="machine_uuid" type="s" direction="out"/>
    </method>
  </interface>
"#;
/// The interface that every object has in addition.
pub(super) const OF_OBJECTS: &str = r#"  <interface name="org.freedesktop.DBus.Properties">
    <method name="Get">
      <arg name="interface_name" type="s" direction="in"/>
      <arg name="property_name" type="s" direction="in"/>
      <arg type="v" direction="out"/>
    </method>
    <method name="Set">
      <arg name="interface_name" type="s" direction="in"/>
      <arg name="property_name" type="s" direction="in"/>
      <arg name="value" type="v" direction="in"/>
    </method>
    <method name="GetAll">
      <arg name="interface_name" type="s" direction="in"/>
      <arg type="a{sv}" direction="out"/>
    </method>
    <signal name="PropertiesChanged">
      <arg name="interface_name" type="s"/>
      <arg name="changed_properties" type="a{sv}"/>
      <arg name="invalidated_properties" type="as"/>
    </signal>
  </interface>
"#;

const MANAGER: &str = include_str!("../../config/interfaces/org.ganglion.Llm1.Manager.xml");
const DIAGNOSTICS: &str = include_str!("../../config/interfaces/org.ganglion.Llm1.Diagnostics.xml");
const SESSION: &str = include_str!("../../config/interfaces/org.ganglion.Llm1.Session.xml");
const REQUEST: &str = include_str!("../../config/interfaces/org.ganglion.Llm1.Request.xml");

static MEMBERS: LazyLock<Members> = LazyLock::new(|| Members {
    node: interfaces(&format!("<node>{OF_NODES}</node>")),
    object: interfaces(&format!("<node>{OF_OBJECTS}</node>")),
    daemon: [MANAGER, DIAGNOSTICS]
        .into_iter()
        .flat_map(interfaces)
        .collect(),
    session: interfaces(SESSION),
    request: interfaces(REQUEST),
});

/// The interfaces of each kind of path.
struct Members {
    node: Vec<Interface>,
    object: Vec<Interface>,
    daemon: Vec<Interface>,
    session: Vec<Interface>,
    request: Vec<Interface>,
}

/// An interface and the names of its members.
#[derive(Debug, PartialEq)]
struct Interface {
    name: String,
    methods: Vec<String>,
    properties: Vec<String>,
}

/// The interfaces of an object that have a member.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    None,
    One(&'static str),
    Several(Vec<&'static str>),
}

impl Found {
    /// Returns the error of a call without an interface, unless exactly one interface has the method.
    pub(super) fn refusal(&self, path: &str, method: &str) -> fdo::Error {
        match self {
            Self::Several(names) => fdo::Error::InvalidArgs(format!(
                "method {method:?} of {path} is in several interfaces ({}); name one in the call",
                names.join(", ")
            )),
            Self::None | Self::One(_) => fdo::Error::UnknownMethod(format!(
                "no interface of {path} has a method {method:?}; org.freedesktop.DBus.Introspectable.Introspect lists them"
            )),
        }
    }
}

/// Returns the kind of object that a path belongs to, with or without an object; `None` for the daemon's own object and the
/// nodes above it.
pub(super) fn kind(path: &str) -> Option<ObjectKind> {
    let below = path.strip_prefix(PATH)?.strip_prefix('/')?;
    let (node, _) = below.split_once('/')?;
    ObjectKind::ALL.into_iter().find(|kind| kind.name() == node)
}

/// Finds the interfaces of an object with this method.
pub(super) fn with_method(path: &str, method: &str) -> Found {
    found(of(path), |interface| &interface.methods, method)
}

/// Finds the interfaces of an object with this property.
pub(super) fn with_property(path: &str, property: &str) -> Found {
    found(of(path), |interface| &interface.properties, property)
}

/// Returns whether an interface of an object has a property; `None` if the object lacks the interface.
pub(super) fn has_property(path: &str, interface: &str, property: &str) -> Option<bool> {
    let interface = of(path).find(|one| one.name == interface)?;
    Some(interface.properties.iter().any(|one| one == property))
}

/// Returns the interfaces of an object, its own first.
fn of(path: &str) -> impl Iterator<Item = &'static Interface> {
    let members = &*MEMBERS;
    let own: &[Interface] = match kind(path) {
        Some(ObjectKind::Session) => &members.session,
        Some(ObjectKind::Request) => &members.request,
        None if path == PATH => &members.daemon,
        None => &[],
    };
    own.iter().chain(&members.object).chain(&members.node)
}

fn found(
    interfaces: impl Iterator<Item = &'static Interface>,
    members: impl Fn(&Interface) -> &[String],
    member: &str,
) -> Found {
    let having = interfaces.filter(|interface| members(interface).iter().any(|one| one == member));
    let names: Vec<_> = having.map(|interface| interface.name.as_str()).collect();
    match names[..] {
        [] => Found::None,
        [name] => Found::One(name),
        _ => Found::Several(names),
    }
}

/// Parses introspection data; other text has no interfaces.
fn interfaces(xml: &str) -> Vec<Interface> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let Ok(document) = Document::parse_with_options(xml, options) else {
        return Vec::new();
    };
    let name = |node: Node<'_, '_>| node.attribute("name").unwrap_or_default().to_owned();
    let names = |interface: Node<'_, '_>, tag: &str| {
        let members = interface.children().filter(|node| node.has_tag_name(tag));
        members.map(name).collect()
    };
    let nodes = document.descendants();
    nodes
        .filter(|node| node.has_tag_name("interface"))
        .map(|interface| Interface {
            name: name(interface),
            methods: names(interface, "method"),
            properties: names(interface, "property"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_of_the_files_is_found_on_its_object() {
        let of_path = |path: &str| of(path).count();
        let (session, request) = (format!("{PATH}/session/7"), format!("{PATH}/request/7"));
        assert_eq!([PATH, &session, &request, "/"].map(of_path), [5, 4, 4, 3]);
        for (path, method, interface) in [
            (PATH, "Complete", "org.ganglion.Llm1.Manager"),
            (PATH, "ResetGraph", "org.ganglion.Llm1.Diagnostics"),
            (&session, "Submit", "org.ganglion.Llm1.Session"),
            (&request, "Read", "org.ganglion.Llm1.Request"),
            (&request, "GetAll", "org.freedesktop.DBus.Properties"),
            ("/elsewhere", "Ping", PEER),
        ] {
            assert_eq!(with_method(path, method), Found::One(interface));
        }
        assert_eq!(with_method(PATH, "Rewind"), Found::None);
        let turns = with_property(&session, "Turns");
        assert_eq!(turns, Found::One("org.ganglion.Llm1.Session"));
        assert_eq!(
            has_property(PATH, "org.ganglion.Llm1.Manager", "State"),
            Some(true)
        );
        assert_eq!(has_property(PATH, PEER, "State"), Some(false));
        assert_eq!(
            has_property(PATH, "org.ganglion.Llm1.Session", "Turns"),
            None
        );
    }

    /// No caller gets this error: each method of the daemon is in one interface of its object.
    #[test]
    fn a_method_of_several_interfaces_is_an_error() {
        let one = "<interface name='a.B'><method name='Do'/></interface>";
        let other = "<interface name='a.C'><method name='Do'/></interface>";
        let both: &'static [Interface] = interfaces(&format!("<node>{one}{other}</node>")).leak();
        let found = found(both.iter(), |interface| &interface.methods, "Do");
        assert_eq!(found, Found::Several(vec!["a.B", "a.C"]));
        let error = found.refusal("/x", "Do").to_string();
        assert!(error.contains("a.B, a.C"), "{error}");
    }
}
