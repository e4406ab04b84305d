//! The table of an endpoint's fields: those that a request may have, what each does, and those that are refused because
//! the answer would not be what they ask for. The manual and the tests read it.

use serde_json::value::RawValue;

/// The fields of an endpoint's requests.
#[derive(Debug)]
pub struct Table {
    /// The path of the endpoint.
    pub path: &'static str,
    /// Every known field, in the order of the manual. A field that is not here is an error.
    pub rows: &'static [&'static [Field]],
}

/// The object that a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    Request,
    StreamOptions,
    /// The extensions: the field `ganglion` of a request.
    Ganglion,
    /// A message, or an item of the type "message".
    Message,
    /// A part of a message's content, of whichever type.
    Part,
    /// A text as a part of content.
    Text,
    /// A text of the assistant as a part of content.
    OutputText,
    Image,
    /// The data of an image.
    Source,
    /// A call of a tool.
    Call,
    /// The result of a call.
    CallResult,
    /// Thoughts of the assistant.
    Thoughts,
    /// A tool that the model may call.
    Tool,
    ToolChoice,
    /// Whether and how the model thinks.
    Thinking,
    /// Settings of the answer's text.
    Output,
    /// The form of the answer's text.
    Format,
}

/// What a request's field does. Any field may be null, which means that it is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It is read.
    Read,
    /// It is accepted with any value and changes nothing.
    Ignored,
    /// It is accepted with one of these values, in JSON, which change nothing; any other value is an error.
    Only(&'static [&'static str]),
    /// It is an error.
    Refused,
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub of: Object,
    pub name: &'static str,
    pub rule: Rule,
    /// A sentence: the meaning, or why it is ignored, or what to give in its place.
    pub about: &'static str,
}

/// Returns a row of a table.
pub(in crate::http) const fn field(
    of: Object,
    name: &'static str,
    rule: Rule,
    about: &'static str,
) -> Field {
    Field {
        of,
        name,
        rule,
        about,
    }
}

impl Table {
    /// Returns all fields, in the order of the manual.
    pub fn fields(&self) -> impl Iterator<Item = &'static Field> {
        self.rows.iter().flat_map(|rows| rows.iter())
    }

    /// Returns a field of an object.
    pub(super) fn field(&self, of: Object, name: &str) -> Option<&'static Field> {
        self.fields()
            .find(|field| field.of == of && field.name == name)
    }

    /// Returns the names of the fields of an object that are read.
    pub(super) fn names(&self, of: Object) -> String {
        let read = self
            .fields()
            .filter(|field| field.of == of && field.rule == Rule::Read);
        let names: Vec<_> = read.map(|field| field.name).collect();
        names.join(", ")
    }
}

impl Rule {
    /// Whether a field with this value is accepted.
    pub(super) fn accepts(self, raw: &RawValue) -> bool {
        match self {
            Self::Read | Self::Ignored => true,
            Self::Only(values) => values.iter().any(|value| is_equal(value, raw.get())),
            Self::Refused => false,
        }
    }
}

/// Whether a short JSON text has this value.
fn is_equal(value: &str, text: &str) -> bool {
    const LONGEST: usize = 64;
    if text.len() > LONGEST {
        return false;
    }
    let parsed = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    match (parsed(value), parsed(text)) {
        // 0.0 is 0.
        (Some(value), Some(given)) if value.is_number() => value.as_f64() == given.as_f64(),
        (value, given) => value == given,
    }
}
