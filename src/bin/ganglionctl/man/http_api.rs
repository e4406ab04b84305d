//! The lists of fields in `ganglion-openai(7)`, rendered from the table that the HTTP front end itself uses.

use ganglion::http::{FIELDS, Field, Object, Rule};

use super::roff::list;

/// The sections of fields: the object, what the heading calls it, and its path.
const OBJECTS: [(Object, &str); 5] = [
    (Object::Request, "A request"),
    (Object::Ganglion, "The object ganglion of a request"),
    (
        Object::StreamOptions,
        "The object stream_options of a request",
    ),
    (Object::Message, "A message"),
    (Object::Part, "A part of a message\\*(Aqs content"),
];

/// A section for the fields of each object.
pub(super) fn fields() -> String {
    let sections = OBJECTS.iter().flat_map(|(object, name)| {
        let of_object: Vec<_> = FIELDS.iter().filter(|field| field.of == *object).collect();
        let kinds = [
            ("fields that are read", is_read as fn(&Field) -> bool),
            ("fields that are ignored", is_ignored),
            ("fields that are refused", is_refused),
        ];
        kinds.map(|(kind, is_of_kind)| {
            let fields = of_object.iter().filter(|field| is_of_kind(field));
            let entries: Vec<_> = fields.map(|field| (field.name, about(field))).collect();
            let entries: Vec<_> = entries
                .iter()
                .map(|(name, about)| (*name, about.as_str()))
                .collect();
            if entries.is_empty() {
                return String::new();
            }
            format!(".SS \"{name}: {kind}\"\n{}", list(&entries))
        })
    });
    sections.collect()
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
