//! org.ganglion.Llm1(5), from the XML of the interfaces: a test compares that with what the daemon introspects.

mod reference;

use clap_mangen::roff::{bold, italic, roman};
use roxmltree::{Document, Node, ParsingOptions};

use ganglion::bus::{ERRORS, METHOD_ERRORS, OPTIONS};

use self::reference::{EXAMPLES, SETUP};
use super::page::Page;
use crate::failure::{Exit, Failure};

const SHIPPED: &[&str] = &[
    include_str!("../../../../config/interfaces/org.ganglion.Llm1.Manager.xml"),
    include_str!("../../../../config/interfaces/org.ganglion.Llm1.Session.xml"),
    include_str!("../../../../config/interfaces/org.ganglion.Llm1.Request.xml"),
    include_str!("../../../../config/interfaces/org.ganglion.Llm1.Diagnostics.xml"),
];

/// Where each interface is found.
const OBJECTS: &[(&str, &str)] = &[
    ("Manager", "/org/ganglion/Llm1"),
    (
        "Session",
        "/org/ganglion/Llm1/session/ID, which answers its owner alone",
    ),
    (
        "Request",
        "/org/ganglion/Llm1/request/ID, which answers its owner alone",
    ),
    ("Diagnostics", "/org/ganglion/Llm1"),
];

pub(super) fn page() -> Result<String, Failure> {
    let mut page = Page::new("org.ganglion.Llm1", 5, "the D-Bus interfaces of gangliond");
    page.section("DESCRIPTION");
    page.paragraph(
        "gangliond(8) owns the name `org.ganglion.Llm1` on the system bus. Calls answer at once; tokens come through a \
         pipe, or as signals where a request asks for them. A client that leaves the bus ends its sessions and \
         requests. Properties and asking are for the group ganglion, and Reload, ResetGraph and DumpGraph are for root \
         and the group ganglion-admin; the bus refuses everyone else.",
    );
    page.paragraph(
        "A client reads the answers to its calls, also while it waits for something else: the bus holds what it does not \
         read. One that leaves 256 KiB or 4 descriptors unread, or whose user leaves 2 MiB or 16, gets no further ones, and \
         after `stream.stall_seconds` its sessions and requests end. A call may have 3 MiB; longer ones, and those \
         beyond 128 of a connection without an answer, are refused with org.freedesktop.DBus.Error.LimitsExceeded. \
         What dbus-daemon's own limits leave open: any user may have 256 connections to the bus and fill the bus \
         itself with messages to others (`max_connections_per_user`, `max_outgoing_bytes` in system.conf; see \
         dbus-daemon(1)), which slows the bus for every service, this one included.",
    );
    calling(&mut page);
    for text in SHIPPED {
        let options = ParsingOptions {
            allow_dtd: true,
            ..ParsingOptions::default()
        };
        let document = Document::parse_with_options(text, options).map_err(|error| {
            Failure::new(Exit::Failed, format!("an interface is no XML: {error}"))
        })?;
        let interface = document
            .descendants()
            .find(|node| node.has_tag_name("interface"));
        if let Some(interface) = interface {
            write(&mut page, interface);
        }
    }
    page.section("OPTIONS OF REQUESTS");
    page.paragraph(
        "For Generate, Submit, Complete and Session.Send, as an a{sv}. Any integer type does for any number. What is left \
         out is as gangliond.toml(5) says; what is unknown, of another type or out of range is Error.InvalidOption.",
    );
    for option in OPTIONS {
        let kind = roman(format!(" ({})", option.kind));
        let what = format!("{} Allowed is {}.", option.what, option.allowed);
        page.entry([bold(option.name), kind], &what);
    }
    page.section("ERRORS");
    page.paragraph(
        "Each begins with org.ganglion.Llm1.Error and comes with a text that names the value and the remedy. A request \
         that was accepted can still end with NotReady, ContextFull, InvalidMessages or EngineFailed: its stream and \
         Request.Finished tell.",
    );
    for (name, what) in ERRORS {
        page.entry([bold(*name)], what);
    }
    page.section("FILES");
    page.entry(
        [italic(
            "/usr/share/dbus-1/interfaces/org.ganglion.Llm1.*.xml",
        )],
        "The interfaces, for tools that make code of them.",
    );
    Ok(page.see_also(&[
        "gangliond(8)",
        "ganglionctl(1)",
        "gangliond.toml(5)",
        "busctl(1)",
    ]))
}

/// What holds for all calls.
fn calling(page: &mut Page) {
    page.section("CALLING");
    page.paragraph(
        "Three kinds of call ask. Generate and Session.Send answer at once with a request and the read end of a pipe; the \
         connection must take file descriptors, which some libraries ask the bus for only if they are told to \
         (negotiate_unix_fd, enable_fds, usocket), and a call on another one is Error.NotSupported. Submit answers at once \
         with a request alone, whose text Request.Read has. Complete answers with the whole text, for shells: a tool such \
         as busctl(1) leaves the bus when its call is answered, and with it go the requests and sessions that it began.",
    );
    page.paragraph(
        "The descriptor is the caller's own from the reply on: it is the only read end, to be closed by who received it. \
         Some libraries duplicate it when they hand it over, and close theirs with the message or its list of descriptors \
         (GUnixFDList of GDBus, unix_fds of dbus-fast, the message of sd-bus: keep one with fcntl F_DUPFD_CLOEXEC and drop \
         the message). The pipe ends when every duplicate of its write end is closed, which only the daemon has; the \
         request is cancelled when every duplicate of the read end is.",
    );
    page.paragraph(
        "Each line of the pipe is a JSON object. With seq and text: the next piece, whole characters. With seq, done, \
         finish_reason and usage: the last one. finish_reason is \"stop\", \"length\" (max_tokens), \"context\" (the context is \
         full), \"cancelled\" or \"error\"; an error has error, a name of those below, and message as well. usage has \
         prompt_tokens, of these cached_tokens that the cache held already, completion_tokens, queue_us (microseconds from \
         acceptance until the prompt was begun), first_token_us (from there until the first token), tokens_per_second \
         after it, gigabytes_per_second that decoding moved, in 10^9 bytes, and seed. An end of the pipe without such a \
         line means that the daemon died.",
    );
    page.example(
        r#"{"seq":0,"text":"Odometry"}
{"seq":1,"done":true,"finish_reason":"error","usage":{"prompt_tokens":31,"cached_tokens":0,
  "completion_tokens":1,"queue_us":40,"first_token_us":21000,"tokens_per_second":0.0,
  "gigabytes_per_second":0.0,"seed":5263408912377190},
  "error":"org.ganglion.Llm1.Error.EngineFailed","message":"logits are not finite"}"#,
    );
    page.paragraph(
        "Request.Finished never comes before the reply of the call that made the request, but it may come before a program \
         has told its library to listen. Without a race: listen first, to all objects of the interface \
         org.ganglion.Llm1.Request, and compare paths once the reply is there; or listen after the reply, and then read \
         Result once, which is empty only while the request runs.",
    );
    page.paragraph(
        "A request without a seed gets a fresh one, below 2^53, unless the configuration sets `sampling.seed`. With the \
         seed that usage tells, the same request to the same model has the same answer. With temperature 0, the default, \
         the seed changes nothing.",
    );
    page.paragraph(
        "After a restart of the daemon its objects are gone: calls to them are UnknownObject, and the name has another \
         owner (NameOwnerChanged). Open a session anew; Session.Messages, kept by the program, is what Generate needs to go \
         on from. The next call of Manager starts the daemon if it is not running.",
    );
    page.paragraph("The examples in Python are parts of one program, which begins with:");
    page.example(SETUP);
}

fn write(page: &mut Page, interface: Node) {
    let name = interface.attribute("name").unwrap_or_default();
    let short = name.rsplit('.').next().unwrap_or_default();
    page.section(&format!("INTERFACE {name}"));
    if let Some((_, object)) = OBJECTS.iter().find(|(of, _)| *of == short) {
        page.paragraph(&format!("Of the object {object}."));
    }
    let mut comment = String::new();
    for node in interface.children() {
        if node.is_comment() {
            comment = node.text().unwrap_or_default().into();
        } else if node.is_element() {
            member(page, short, node, &comment);
            comment.clear();
        }
    }
}

/// A method, signal or property, with what the XML says of it.
fn member(page: &mut Page, interface: &str, node: Node, comment: &str) {
    let name = node.attribute("name").unwrap_or_default();
    let arguments = |direction: &str| {
        let arguments = node.children().filter(|child| child.has_tag_name("arg"));
        let wanted =
            arguments.filter(|arg| arg.attribute("direction").unwrap_or("in") == direction);
        let written = wanted.map(|arg| {
            let part = |key| arg.attribute(key).unwrap_or_default();
            format!("{} {}", part("type"), part("name"))
        });
        written.collect::<Vec<_>>().join(", ")
    };
    let title = match node.tag_name().name() {
        "method" => format!("{name}({}) -> ({})", arguments("in"), arguments("out")),
        "signal" => format!("signal {name}({})", arguments("in")),
        _ => format!(
            "property {name} ({})",
            node.attribute("type").unwrap_or_default()
        ),
    };
    page.subsection(&title);
    for paragraph in comment.split("\n\n").filter(|text| !text.trim().is_empty()) {
        page.paragraph(&dedent(paragraph));
    }
    let full = format!("{interface}.{name}");
    if let Some((_, errors)) = METHOD_ERRORS.iter().find(|(method, _)| *method == full) {
        page.paragraph(&format!("Errors: {}.", errors.join(", ")));
    }
    if let Some(example) = EXAMPLES.iter().find(|example| example.method == full) {
        page.example(example.python);
        if !example.shell.is_empty() {
            page.example(example.shell);
        }
    }
}

fn dedent(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every method says how it fails and how to call it, and nothing is said of a method that is not.
    #[test]
    fn every_method_has_its_errors_and_its_example() {
        let mut methods = Vec::new();
        for text in SHIPPED {
            let interface = text.split("<interface name=\"org.ganglion.Llm1.").nth(1);
            let interface = interface
                .and_then(|rest| rest.split('"').next())
                .expect("a name");
            for rest in text.split("<method name=\"").skip(1) {
                let name = rest.split('"').next().expect("a name");
                methods.push(format!("{interface}.{name}"));
            }
        }
        methods.sort();
        let sorted = |names: Vec<&str>| {
            let mut names: Vec<_> = names.into_iter().map(str::to_owned).collect();
            names.sort();
            names
        };
        let with_errors = METHOD_ERRORS.iter().map(|(method, _)| *method);
        assert_eq!(sorted(with_errors.collect()), methods);
        let with_examples = EXAMPLES.iter().map(|example| example.method);
        assert_eq!(sorted(with_examples.collect()), methods);
        for (method, errors) in METHOD_ERRORS {
            for error in *errors {
                let known = ERRORS.iter().any(|(name, _)| name == error);
                assert!(known, "{method}: {error}");
            }
        }
        assert!(EXAMPLES.iter().all(|example| !example.python.is_empty()));
    }
}
