//! The options of a request, as `front` takes them. `front` checks their values; an endpoint knows their fields.

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw::{self, Kind};
use super::super::session;
use super::given::Given;
use super::table::{Object, Table};
use super::values::{json, value};
use crate::engine::Name;
use crate::front::{GivenOption, GivenOptions, Value, shortened};

/// The options of a request.
#[derive(Debug, Default)]
pub(in crate::http) struct Options {
    pub(in crate::http) given: GivenOptions,
    /// Options, and the fields that set them, where that is not the usual field.
    pub(in crate::http) fields: Vec<(&'static str, &'static str)>,
    /// The session that the request continues.
    pub(in crate::http) session: Option<Name>,
}

impl Options {
    /// Adds an option with the value of a field.
    pub(in crate::http) fn add(&mut self, name: &'static str, raw: &RawValue) {
        let value = value(raw);
        let type_name = match &value {
            Value::Other | Value::Texts(_) => raw::kind(raw).name().to_owned(),
            _ => String::new(),
        };
        self.given.kept.push(GivenOption {
            name: name.to_owned(),
            value,
            type_name,
        });
    }

    /// Adds an option.
    pub(in crate::http) fn push(&mut self, name: &'static str, value: Value) {
        self.given.kept.push(GivenOption {
            name: name.to_owned(),
            value,
            type_name: String::new(),
        });
    }

    /// Adds an option whose value is the text of some JSON.
    pub(in crate::http) fn push_json(&mut self, name: &'static str, text: &str) {
        self.push(name, json(text));
    }

    /// Adds a schema that the answer matches. Unless it is strict, it is followed as far as possible.
    pub(in crate::http) fn push_schema(&mut self, schema: &RawValue, strict: bool) {
        self.push_json("json_schema", schema.get());
        self.push("schema_lenient", Value::Bool(!strict));
    }

    /// Whether an option was added.
    pub(in crate::http) fn has(&self, name: &str) -> bool {
        self.given.kept.iter().any(|option| option.name == name)
    }

    /// Reads the object `ganglion` of a request, after all fields that it must not contradict.
    ///
    /// # Errors
    /// An error names the field whose form is wrong.
    pub(in crate::http) fn read_extensions(
        &mut self,
        table: &Table,
        request: &Given<'_>,
    ) -> Result<(), Error> {
        let Some(raw) = request.get("ganglion") else {
            return Ok(());
        };
        let own = Given::read(table, Object::Ganglion, "ganglion", raw.get())?;
        for (name, raw) in own.iter() {
            if name == "session" {
                let text = raw::text(raw).map_err(|why| {
                    let path = "ganglion.session";
                    Error::invalid(Some(path), format!("{path}: {why}"))
                })?;
                self.session = Some(session::name(&text)?);
            } else if self.has(name) {
                let path = format!("ganglion.{name}");
                let why = format!("{path} and {name} set the same; leave one of them out");
                return Err(Error::invalid(Some(&path), why));
            } else {
                self.add(name, raw);
            }
        }
        Ok(())
    }

    /// Sets whether the model thinks, by a field that is read after the extensions.
    ///
    /// # Errors
    /// If an extension sets it too.
    pub(in crate::http) fn set_thinking(
        &mut self,
        thinking: bool,
        field: &'static str,
    ) -> Result<(), Error> {
        if self.has("thinking") {
            let why = format!("{field} and ganglion.thinking set the same; leave one of them out");
            return Err(Error::invalid(Some(field), why));
        }
        self.push("thinking", Value::Bool(thinking));
        self.fields.push(("thinking", field));
        Ok(())
    }

    /// Reads the effort of the thoughts: none switches them off.
    ///
    /// # Errors
    /// If it is no known effort, or an extension sets the same.
    pub(in crate::http) fn read_effort(
        &mut self,
        raw: &RawValue,
        field: &'static str,
    ) -> Result<(), Error> {
        let effort = raw::text(raw);
        let thinking = match effort.as_deref() {
            Ok("none" | "minimal") => false,
            Ok("low" | "medium" | "high" | "xhigh" | "max") => true,
            given => {
                let given = match given {
                    Ok(text) => format!("it is {:?}", shortened(text)),
                    Err(why) => why.clone(),
                };
                let why = format!(
                    "{field}: {given}; allowed is \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\" or \"max\""
                );
                return Err(Error::invalid(Some(field), why).with_code("invalid_value"));
            }
        };
        self.set_thinking(thinking, field)
    }

    /// Adds the number of the most probable tokens that are listed with each token. Some clients always give 0.
    ///
    /// # Errors
    /// If it is given for an answer without probabilities; `remedy` says how these are asked for.
    pub(in crate::http) fn read_top_logprobs(
        &mut self,
        request: &Given<'_>,
        wanted: bool,
        remedy: &str,
    ) -> Result<(), Error> {
        match request.get("top_logprobs") {
            Some(raw) if wanted => self.add("logprobs", raw),
            Some(raw) if raw.get() == "0" => {}
            Some(_) => {
                let why = format!("top_logprobs is for answers with probabilities; give {remedy}");
                return Err(Error::invalid(Some("top_logprobs"), why));
            }
            None if wanted => self.push("logprobs", Value::Whole(0)),
            None => {}
        }
        Ok(())
    }

    /// Adds the tools of a request in the form that they have for chat completions; an empty array is none.
    pub(in crate::http) fn add_tools(&mut self, raw: &RawValue) {
        let is_empty = raw::array(raw, 1).is_ok_and(|tools| tools.is_empty());
        match raw::kind(raw) {
            Kind::Array if is_empty => {}
            Kind::Array => self.push_json("tools", raw.get()),
            _ => self.add("tools", raw),
        }
    }
}
