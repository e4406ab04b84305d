//! The policy file: strangers are refused, members look and ask, operators also operate.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use ganglion::bus::{NAME, PATH};
use roxmltree::{Document, ParsingOptions};

use crate::support::daemon::Daemon;
use crate::support::needs;
use crate::support::private_bus::{GROUPS, PrivateBus, USER};

const MANAGER: &str = "org.ganglion.Llm1.Manager";
const BUS: &str = "org.freedesktop.DBus";
const DIAGNOSTICS: &str = "org.ganglion.Llm1.Diagnostics";

pub(super) const NOBODY: u32 = 65_534;

/// A caller. Only root can call as another user.
pub(super) struct Identity {
    pub(super) user: u32,
    /// The first group is the primary one.
    pub(super) groups: Vec<u32>,
}

impl Identity {
    pub(super) fn call(&self, address: &str, method: [&str; 2], arguments: &[&str]) -> Output {
        let groups: Vec<_> = self.groups.iter().map(ToString::to_string).collect();
        Command::new("setpriv")
            .arg(format!("--reuid={}", self.user))
            .arg(format!("--regid={}", groups[0]))
            .arg(format!("--groups={}", groups.join(",")))
            .arg("busctl")
            .arg(format!("--address={address}"))
            .arg("call")
            .args(if method[0] == BUS {
                [BUS, "/"]
            } else {
                [NAME, PATH]
            })
            .args(method)
            .args(arguments)
            .output()
            .expect("setpriv and busctl run")
    }

    /// Whether the bus forwards the call. The daemon's answer does not matter.
    fn may(&self, address: &str, method: [&str; 2], arguments: &[&str]) -> bool {
        let done = self.call(address, method, arguments);
        let error = String::from_utf8_lossy(&done.stderr);
        let refused = ["Access denied", "rejected", "not allowed to own"];
        let refused = refused.iter().any(|words| error.contains(words));
        let must_work = ["Complete", "Get", "GetAll", "RequestName"].contains(&method[1]);
        assert!(
            refused || done.status.success() || (!must_work && error.starts_with("Call failed")),
            "{error}"
        );
        !refused
    }
}

/// Whether the caller may look, ask and operate.
fn powers(address: &str, caller: &Identity) -> [bool; 3] {
    let properties = "org.freedesktop.DBus.Properties";
    let all = |calls: Vec<([&str; 2], Vec<&str>)>| {
        let mut may = calls
            .into_iter()
            .map(|(method, arguments)| (method, caller.may(address, method, &arguments)));
        let (first, answer) = may.next().expect("a call");
        for (other, same) in may {
            assert_eq!(answer, same, "{first:?} and {other:?} of {}", caller.user);
        }
        answer
    };
    [
        all(vec![
            ([properties, "Get"], vec!["ss", MANAGER, "State"]),
            ([properties, "GetAll"], vec!["s", MANAGER]),
            ([properties, "Get"], vec!["ss", DIAGNOSTICS, "GraphState"]),
            ([properties, "GetAll"], vec!["s", DIAGNOSTICS]),
            (
                ["org.freedesktop.DBus.Introspectable", "Introspect"],
                vec![],
            ),
        ]),
        all(vec![
            ([MANAGER, "Complete"], vec!["sa{sv}", "hello", "0"]),
            ([MANAGER, "Generate"], vec!["a(sa{sv})a{sv}", "0", "0"]),
            ([MANAGER, "OpenSession"], vec!["a{sv}", "0"]),
            // The daemon decides which caller may do these.
            ([MANAGER, "HoldAll"], vec!["s", "no"]),
            (["org.ganglion.Llm1.Session", "Close"], vec![]),
            (["org.ganglion.Llm1.Request", "Cancel"], vec![]),
        ]),
        all(vec![
            ([MANAGER, "Reload"], vec![]),
            ([MANAGER, "Release"], vec![]),
            ([DIAGNOSTICS, "ResetGraph"], vec![]),
            ([DIAGNOSTICS, "DumpGraph"], vec![]),
            // Methods of a later release are for operators until the policy changes.
            ([MANAGER, "Later"], vec![]),
        ]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_refused_members_ask_and_operators_operate() {
    if !needs::programs(&["busctl"]) {
        return;
    }
    if !needs::root() {
        return;
    }
    let daemon = Daemon::start("").await;
    let address = daemon.bus.text().to_owned();
    let [(_, _, member), (_, _, admin)] = GROUPS;
    // The source and order of the groups do not matter.
    let cases = [
        (NOBODY, vec![NOBODY], [false, false, false]),
        (NOBODY, vec![member], [true, true, false]),
        (NOBODY, vec![NOBODY, member], [true, true, false]),
        (NOBODY, vec![NOBODY, admin], [true, true, true]),
        (NOBODY, vec![NOBODY, member, admin], [true, true, true]),
        (NOBODY, vec![admin, member], [true, true, true]),
        (NOBODY, vec![member, admin], [true, true, true]),
        (0, vec![0], [true, true, true]),
    ];
    let checked = tokio::task::spawn_blocking(move || {
        for (user, groups, expected) in cases {
            let caller = Identity { user, groups };
            let powers = powers(&address, &caller);
            assert_eq!(powers, expected, "{user} in {:?}", caller.groups);
        }
    });
    checked.await.unwrap();
}

/// Operators' methods are those of the daemon's own object without a rule for members. These rules name no interface,
/// so that they also allow calls without one.
#[test]
fn members_may_call_all_but_the_methods_of_operators() {
    const OPERATORS: [&str; 5] = ["DumpGraph", "Hold", "Release", "Reload", "ResetGraph"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let names = |path: &Path, read: fn(&Document<'_>) -> BTreeSet<String>| {
        let text = fs::read_to_string(path).expect("a file");
        let options = ParsingOptions {
            allow_dtd: true,
            ..ParsingOptions::default()
        };
        read(&Document::parse_with_options(&text, options).expect("XML"))
    };
    let mut allowed = names(&root.join("org.ganglion.Llm1.conf"), |policy| {
        let mut nodes = policy.descendants();
        let members = nodes.find(|node| node.attribute("group") == Some("ganglion"));
        let rules = members.expect("a policy").children();
        let own = rules.filter(|rule| rule.attribute("send_path") == Some(PATH));
        own.map(|rule| {
            assert_eq!(rule.attribute("send_interface"), None);
            rule.attribute("send_member").expect("a method").to_owned()
        })
        .collect()
    });
    let mut methods = BTreeSet::new();
    for interface in [MANAGER, DIAGNOSTICS] {
        let file = root.join(format!("interfaces/{interface}.xml"));
        methods.extend(names(&file, |interface| {
            let nodes = interface.descendants();
            let methods = nodes.filter(|node| node.has_tag_name("method"));
            methods
                .filter_map(|node| node.attribute("name").map(str::to_owned))
                .collect()
        }));
    }
    for standard in ["Get", "GetAll", "Introspect", "Ping", "Set"] {
        assert!(allowed.remove(standard), "{standard}");
    }
    let operators: Vec<_> = methods.difference(&allowed).collect();
    assert_eq!(operators, OPERATORS);
    assert!(allowed.is_subset(&methods), "{allowed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_root_and_the_daemons_user_may_own_the_name() {
    if !needs::programs(&["busctl"]) {
        return;
    }
    if !needs::root() {
        return;
    }
    let bus = PrivateBus::start();
    let (_, _, daemon) = USER;
    let [(_, _, member), (_, _, admin)] = GROUPS;
    let own = |user, groups| {
        let caller = Identity { user, groups };
        caller.may(bus.text(), [BUS, "RequestName"], &["su", NAME, "4"])
    };
    assert!(own(daemon, vec![daemon]) && own(0, vec![0]));
    assert!(!own(NOBODY, vec![NOBODY, member, admin]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_names_the_owner() {
    let daemon = Daemon::start("").await;
    let address = daemon.bus.address();
    let second = ganglion::bus::serve(&address, daemon.engine.clone()).await;
    let error = second.expect_err("the name is taken").to_string();
    let owner = format!("{NAME} is owned by process {}", std::process::id());
    assert!(error.starts_with(&owner), "{error}");
}
