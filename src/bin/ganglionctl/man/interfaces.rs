//! The sections of `org.ganglion.Llm1(5)` that are rendered from the interfaces' XML: a heading and the text of its comment
//! for each method, property and signal.
//!
//! The files are ours and have an element a line, so that no XML parser is needed. A comment consists of paragraphs. In a
//! list each entry begins with `@NAME: `, and the line before the list is its heading.

use std::fmt::Write as _;

use super::roff::text;

const INTERFACES: [(&str, &str); 4] = [
    (
        "Manager",
        include_str!("../../../../config/interfaces/org.ganglion.Llm1.Manager.xml"),
    ),
    (
        "Session",
        include_str!("../../../../config/interfaces/org.ganglion.Llm1.Session.xml"),
    ),
    (
        "Request",
        include_str!("../../../../config/interfaces/org.ganglion.Llm1.Request.xml"),
    ),
    (
        "Diagnostics",
        include_str!("../../../../config/interfaces/org.ganglion.Llm1.Diagnostics.xml"),
    ),
];

/// Returns each member as `INTERFACE.NAME` with its section.
pub(super) fn members() -> Vec<(String, String)> {
    let files = INTERFACES.iter();
    files
        .flat_map(|(interface, xml)| sections(interface, xml))
        .collect()
}

fn sections(interface: &str, xml: &str) -> Vec<(String, String)> {
    let comments = xml.split("    <!--\n").skip(1);
    let parts = comments.filter_map(|part| part.split_once("    -->\n"));
    let members = parts.filter_map(|(comment, element)| {
        let (opening, arguments) = element.split_once('\n')?;
        let name = attribute(opening, "name")?;
        let signature = match opening.trim_start().split(' ').next()? {
            "<method" => {
                let (taken, returned) = (list(arguments, "in"), list(arguments, "out"));
                format!("{name}({taken}) -> ({returned})")
            }
            "<signal" => format!("signal {name}({})", list(arguments, "")),
            _ => format!("property {name} ({})", attribute(opening, "type")?),
        };
        let section = format!(".SS \"{}\"\n{}", text(&signature), description(comment));
        Some((format!("{interface}.{name}"), section))
    });
    members.collect()
}

/// The arguments of one direction, up to the end of the member; those of signals have none.
fn list(element: &str, direction: &str) -> String {
    let lines = element
        .lines()
        .take_while(|line| line.starts_with("      <"));
    let arguments = lines.filter(|line| line.trim_start().starts_with("<arg "));
    let arguments =
        arguments.filter(|line| attribute(line, "direction").unwrap_or_default() == direction);
    let shown = arguments.filter_map(|line| {
        Some(format!(
            "{} {}",
            attribute(line, "type")?,
            attribute(line, "name")?
        ))
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

/// Renders a comment.
fn description(comment: &str) -> String {
    let mut page = String::new();
    for paragraph in comment.split("\n\n") {
        let (heading, entries) = match paragraph.find("     @") {
            Some(at) => paragraph.split_at(at),
            None => (paragraph, ""),
        };
        let heading = text(heading);
        if !heading.is_empty() {
            // Writing to memory does not fail.
            let _ = write!(page, ".PP\n{heading}\n");
        }
        if entries.is_empty() {
            continue;
        }
        page.push_str(".RS 4\n");
        for entry in entries.split("     @").skip(1) {
            let (name, what) = entry.split_once(": ").unwrap_or((entry, ""));
            let _ = write!(page, ".TP\n\\fB{}\\fR\n{}\n", text(name), text(what));
        }
        page.push_str(".RE\n");
    }
    page
}
