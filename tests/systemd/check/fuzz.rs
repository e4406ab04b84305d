//! Calls every introspected method and property, with arguments made from correct and wrong signatures.
//!
//! Each call must get an answer; any answer passes.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use ganglion::bus::{NAME, PATH};
use roxmltree::Document;
use tokio::time::timeout;
use zbus::fdo::{IntrospectableProxy, PropertiesProxy};
use zbus::names::InterfaceName;
use zbus::{Connection, OwnedFd, OwnedObjectPath, Signature, Structure, Variant};

use crate::{Failed, value};

/// Longer than the longest answer, the 20 s of Complete.
const UNANSWERED: Duration = Duration::from_secs(40);
/// Calls of each method in one round. The last has arguments of another signature.
const CALLS: usize = 12;

struct Method {
    interface: String,
    name: String,
    arguments: Vec<Signature>,
}

#[derive(Default)]
struct Object {
    methods: Vec<Method>,
    /// Interface and name.
    properties: Vec<(String, String)>,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(seed: &str, rounds: &str) -> Result<(), Failed> {
    let mut rng = Rng::with_seed(seed.parse()?);
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..rounds.parse()? {
        // A connection per round: its sessions and requests end with it.
        let connection = Connection::system().await?;
        for path in objects(&connection).await? {
            let object = introspect(&connection, &path).await?;
            for method in &object.methods {
                for number in 0..CALLS {
                    let wrong = number + 1 == CALLS;
                    let answer = call(&connection, &path, method, wrong, &mut rng).await?;
                    *answers.entry(answer).or_default() += 1;
                }
            }
            for property in &object.properties {
                let answer = properties(&connection, &path, property, &mut rng).await?;
                *answers.entry(answer).or_default() += 1;
            }
        }
    }
    for (answer, count) in answers {
        println!("{count} {answer}");
    }
    Ok(())
}

/// The daemon's object, and a session and a request of the caller.
async fn objects(connection: &Connection) -> Result<Vec<String>, Failed> {
    let mut paths = vec![PATH.to_owned()];
    let manager = ganglion::bus::proxy::ManagerProxy::new(connection).await?;
    let none = ganglion::bus::proxy::Fields::new;
    paths.push(manager.open_session(none()).await?.to_string());
    let message = ("user", [("content", Variant::from("hello"))].into());
    let (request, _): (OwnedObjectPath, OwnedFd) = manager.generate(&[message], none()).await?;
    paths.push(request.to_string());
    Ok(paths)
}

async fn introspect(connection: &Connection, path: &str) -> Result<Object, Failed> {
    let proxy = IntrospectableProxy::builder(connection)
        .destination(NAME)
        .path(path)
        .build()
        .await?;
    let xml = proxy.introspect().await?;
    // The document type has no declarations that matter.
    let start = xml.find("<node").ok_or("no node is introspected")?;
    let document = Document::parse(&xml[start..])?;
    let mut object = Object::default();
    for node in document.descendants() {
        let name =
            |node: roxmltree::Node<'_, '_>| node.attribute("name").unwrap_or_default().to_owned();
        let interface = node.parent().map(name).unwrap_or_default();
        match node.tag_name().name() {
            "method" => {
                let arguments = node
                    .children()
                    .filter(|arg| {
                        arg.has_tag_name("arg") && arg.attribute("direction") != Some("out")
                    })
                    .map(|arg| arg.attribute("type").unwrap_or_default().parse())
                    .collect::<Result<_, _>>()
                    .map_err(|_| format!("the signature of {} is wrong", name(node)))?;
                object.methods.push(Method {
                    interface,
                    name: name(node),
                    arguments,
                });
            }
            "property" => object.properties.push((interface, name(node))),
            _ => {}
        }
    }
    Ok(object)
}

/// Returns the name of the error, or "answered".
async fn call(
    connection: &Connection,
    path: &str,
    method: &Method,
    wrong: bool,
    rng: &mut Rng,
) -> Result<String, Failed> {
    let mut arguments = Structure::builder();
    let mut signatures = method.arguments.clone();
    if wrong {
        signatures = (0..rng.usize(..4))
            .map(|_| value::any_signature(rng))
            .collect();
    }
    for signature in &signatures {
        arguments.push_value(value::of(signature, rng)?);
    }
    let (interface, name) = (Some(method.interface.as_str()), method.name.as_str());
    let reply = if signatures.is_empty() {
        timeout(
            UNANSWERED,
            connection.call_method(Some(NAME), path, interface, name, &()),
        )
        .await
    } else {
        let arguments = arguments.build()?;
        timeout(
            UNANSWERED,
            connection.call_method(Some(NAME), path, interface, name, &arguments),
        )
        .await
    };
    let reply = reply.map_err(|_| format!("{path} {}.{name} is not answered", method.interface))?;
    outcome(reply, &format!("{}.{name}", method.interface))
}

/// Returns the outcome of a reply. The loss of the daemon or the bus is an error.
fn outcome<T>(reply: zbus::Result<T>, what: &str) -> Result<String, Failed> {
    match reply {
        Ok(_) => Ok("answered".to_owned()),
        Err(error @ (zbus::Error::MethodError(..) | zbus::Error::FDO(_))) => {
            let text = error.to_string();
            let name = text.split(':').next().unwrap_or_default();
            let lost = [
                "NoReply",
                "ServiceUnknown",
                "Disconnected",
                "NameHasNoOwner",
            ];
            if lost.iter().any(|lost| name.ends_with(lost)) {
                return Err(format!("{what}: {text}").into());
            }
            Ok(name.to_owned())
        }
        Err(error) => Err(format!("{what}: {error}").into()),
    }
}

/// Reads a property and tries to write it. No property is writable.
async fn properties(
    connection: &Connection,
    path: &str,
    (interface, name): &(String, String),
    rng: &mut Rng,
) -> Result<String, Failed> {
    let proxy = PropertiesProxy::new(connection, NAME, path).await?;
    let interface = InterfaceName::try_from(interface.as_str())?;
    let read = timeout(UNANSWERED, proxy.get(interface.clone(), name)).await;
    let read = read.map_err(|_| format!("reading {path} {interface}.{name} is not answered"))?;
    // A closed session has no properties.
    outcome(read.map_err(Into::into), name)?;
    let written = value::of(&value::any_signature(rng), rng)?;
    let set = timeout(UNANSWERED, proxy.set(interface.clone(), name, &written)).await;
    match set.map_err(|_| format!("setting {path} {interface}.{name} is not answered"))? {
        Ok(()) => Err(format!("{path} {interface}.{name} was written").into()),
        Err(error) => {
            outcome::<()>(Err(error.into()), name).map(|name| format!("not written: {name}"))
        }
    }
}
