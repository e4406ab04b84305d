//! The fields of one object of a request, checked against the table of its endpoint.

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw::{self, Kind};
use super::table::{Object, Rule, Table};

/// The fields of an object that are read, and are not null.
#[derive(Debug)]
pub(in crate::http) struct Given<'a> {
    members: Vec<(&'static str, &'a RawValue)>,
}

impl<'a> Given<'a> {
    /// Returns the fields of an object whose path is `at`; that of the request is empty.
    ///
    /// # Errors
    /// An error names the field that is unknown or refused.
    pub(in crate::http) fn read(
        table: &Table,
        of: Object,
        at: &str,
        text: &'a str,
    ) -> Result<Self, Error> {
        let path = |name: &str| match at {
            "" => name.to_owned(),
            at => format!("{at}.{name}"),
        };
        let at = Some(at).filter(|at| !at.is_empty());
        let members = raw::object(text).map_err(|why| {
            let what = at.unwrap_or("the body");
            Error::invalid(at, format!("{what} is wrong: {why}"))
        })?;
        let mut given = Vec::new();
        for (name, raw) in members {
            let Some(field) = table.field(of, &name) else {
                let (path, known) = (path(&crate::front::shortened(&name)), table.names(of));
                let why = format!("unknown field {path:?}; known are {known}");
                return Err(Error::invalid(Some(&path), why).with_code("unknown_parameter"));
            };
            if raw::kind(raw) == Kind::Null {
                continue;
            }
            if !field.rule.accepts(raw) {
                let path = path(field.name);
                let of_value = match field.rule {
                    Rule::Only(values) => format!(" other than {}", values.join(", ")),
                    _ => String::new(),
                };
                let why = format!("{path:?}{of_value} is not supported. {}", field.about);
                return Err(Error::invalid(Some(&path), why).with_code("unsupported_parameter"));
            }
            if field.rule == Rule::Read {
                given.push((field.name, raw));
            }
        }
        Ok(Self { members: given })
    }

    pub(in crate::http) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let found = self.members.iter().find(|(known, _)| *known == name);
        found.map(|(_, raw)| *raw)
    }

    /// Returns all fields, in their order.
    pub(in crate::http) fn iter(&self) -> impl Iterator<Item = (&'static str, &'a RawValue)> {
        self.members.iter().copied()
    }

    /// Returns whether a field is true. `at` is the path of the object, with a point after it.
    ///
    /// # Errors
    /// If it is neither true nor false.
    pub(in crate::http) fn truth(&self, at: &str, name: &str) -> Result<bool, Error> {
        let Some(raw) = self.get(name) else {
            return Ok(false);
        };
        raw::truth(raw).map_err(|why| {
            let path = format!("{at}{name}");
            let why = format!("{path}: {why}");
            Error::invalid(Some(&path), why).with_code("invalid_type")
        })
    }

    /// Returns the name of a model in the field "model"; `None` for the loaded one.
    ///
    /// # Errors
    /// If it is not a text.
    pub(in crate::http) fn model(&self) -> Result<Option<String>, Error> {
        let Some(raw) = self.get("model") else {
            return Ok(None);
        };
        let name = raw::text(raw).map_err(|why| {
            Error::invalid(Some("model"), format!("model: {why}")).with_code("invalid_type")
        })?;
        Ok(Some(name.into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::TABLES;

    #[test]
    fn each_field_of_the_tables_is_accepted_or_refused_as_they_say() {
        for field in TABLES.iter().flat_map(|table| table.fields()) {
            let table = TABLES.iter().find(|table| {
                let mut fields = table.fields();
                fields.any(|one| std::ptr::eq(one, field))
            });
            let table = table.expect("a table");
            let what = format!("{} {field:?}", table.path);
            let read = |value: &str| {
                let text = format!("{{{:?}: {value}}}", field.name);
                let read = Given::read(table, field.of, "x", &text);
                read.map(|given| given.members.len())
            };
            assert_eq!(read("null"), Ok(0), "{what}");
            assert!(field.about.ends_with('.'), "{what}");
            let refused = |value: &str| {
                let error = read(value).expect_err(&what);
                assert_eq!(error.param, Some(format!("x.{}", field.name)), "{what}");
                assert!(error.message.ends_with(field.about), "{error:?}");
            };
            match field.rule {
                Rule::Read => assert_eq!(read("{}"), Ok(1), "{what}"),
                Rule::Ignored => assert_eq!(read("{}"), Ok(0), "{what}"),
                Rule::Only(values) => {
                    for value in values {
                        assert_eq!(read(value), Ok(0), "{what}");
                    }
                    refused("-0.5");
                }
                Rule::Refused => refused("{}"),
            }
            let again = table
                .fields()
                .filter(|one| one.of == field.of && one.name == field.name);
            assert_eq!(again.count(), 1, "{what}");
        }
    }

    #[test]
    fn an_unknown_field_is_named() {
        for table in TABLES {
            let refused = Given::read(table, Object::Request, "", "{\"colour\": 1}");
            let error = refused.expect_err("it is unknown");
            assert_eq!(error.param.as_deref(), Some("colour"));
            assert!(error.message.contains("known are"), "{error:?}");
        }
    }
}
