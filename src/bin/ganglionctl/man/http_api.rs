//! The lists of fields in `ganglion-openai(7)`, rendered from the tables that the HTTP front end itself uses.

use ganglion::http::{Field, Object, Rule, TABLES, Table};

use super::roff::{list, text};

/// The objects in their order, and what a heading calls them.
const OBJECTS: [(Object, &str); 17] = [
    (Object::Request, "a request"),
    (Object::Ganglion, "ganglion"),
    (Object::StreamOptions, "stream_options"),
    (Object::Thinking, "thoughts"),
    (Object::Output, "the form of the text"),
    (Object::Format, "format"),
    (Object::Tool, "a tool"),
    (Object::ToolChoice, "tool_choice"),
    (Object::Message, "a message"),
    (Object::Part, "a part of a message"),
    (Object::Text, "a text"),
    (Object::OutputText, "a text of the assistant"),
    (Object::Image, "an image"),
    (Object::Source, "the source of an image"),
    (Object::Call, "a call"),
    (Object::CallResult, "the result of a call"),
    (Object::Thoughts, "thoughts of the assistant"),
];

/// A section for each endpoint, with the fields of each object.
pub(super) fn fields() -> String {
    let sections = TABLES.iter().map(|table| {
        let objects = OBJECTS.iter();
        let lists: String = objects
            .map(|(of, name)| of_object(table, *of, name))
            .collect();
        format!(".SH \"FIELDS OF {}\"\n{lists}", text(table.path))
    });
    sections.collect()
}

/// The lists of an object's fields; empty if the endpoint does not have it.
fn of_object(table: &Table, of: Object, name: &str) -> String {
    let kinds = [
        ("read", is_read as fn(&Field) -> bool),
        ("ignored", is_ignored),
        ("refused", is_refused),
    ];
    let lists = kinds.map(|(kind, is_of_kind)| {
        let fields = table
            .fields()
            .filter(|field| field.of == of && is_of_kind(field));
        let entries: Vec<_> = fields.map(|field| (field.name, about(field))).collect();
        let entries: Vec<_> = entries
            .iter()
            .map(|(name, about)| (*name, about.as_str()))
            .collect();
        if entries.is_empty() {
            return String::new();
        }
        let heading = text(&format!("{kind} of {name}"));
        format!(".SS \"Fields {heading}\"\n{}", list(&entries))
    });
    lists.concat()
}

fn is_read(field: &Field) -> bool {
    field.rule == Rule::Read
}

fn is_ignored(field: &Field) -> bool {
    field.rule == Rule::Ignored
}

fn is_refused(field: &Field) -> bool {
    matches!(field.rule, Rule::Refused | Rule::Only(_))
}

fn about(field: &Field) -> String {
    match field.rule {
        Rule::Only(values) => format!("Other values than {}. {}", values.join(", "), field.about),
        _ => field.about.to_owned(),
    }
}
