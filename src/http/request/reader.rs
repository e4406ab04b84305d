//! Reads one object of a conversation, within the bytes of text that one request may have.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw;
use super::given::Given;
use super::table::{Object, Table};
use crate::front::{TEXT_BYTES, shortened};

/// Reads the fields of one object, such as a message.
pub(in crate::http) struct Reader<'a> {
    table: &'static Table,
    /// The path of the object.
    at: String,
    /// Bytes of text that may still be kept.
    room: &'a mut usize,
}

impl<'a> Reader<'a> {
    /// `room` is [`TEXT_BYTES`] at the beginning of a request.
    pub(in crate::http) fn new(table: &'static Table, at: String, room: &'a mut usize) -> Self {
        Self { table, at, room }
    }

    /// Returns the reader of an object within this one; `at` is its path from here.
    pub(in crate::http) fn within(&mut self, at: &str) -> Reader<'_> {
        Reader {
            table: self.table,
            at: format!("{}.{at}", self.at),
            room: self.room,
        }
    }

    /// Returns the reader of an element of this array.
    pub(in crate::http) fn element(&mut self, number: usize) -> Reader<'_> {
        Reader {
            table: self.table,
            at: format!("{}[{number}]", self.at),
            room: self.room,
        }
    }

    /// Returns the error of a field; of the object itself, if the field is empty.
    pub(in crate::http) fn wrong(&self, field: &str, why: &str) -> Error {
        let path = match field {
            "" => self.at.clone(),
            field => format!("{}.{field}", self.at),
        };
        let why = format!("{path}: {why}");
        Error::invalid(Some(&path), why).with_code("invalid_value")
    }

    /// Returns the fields of the object.
    ///
    /// # Errors
    /// A field that is unknown or refused.
    pub(in crate::http) fn given<'t>(
        &self,
        of: Object,
        raw: &'t RawValue,
    ) -> Result<Given<'t>, Error> {
        Given::read(self.table, of, &self.at, raw.get())
    }

    /// Returns the text of a field.
    ///
    /// # Errors
    /// If it is not a text, or there is no room for it.
    pub(in crate::http) fn text(&mut self, field: &str, raw: &RawValue) -> Result<String, Error> {
        let text = raw::text(raw).map_err(|why| self.wrong(field, &why))?;
        self.take(field, text.len())?;
        Ok(text.into_owned())
    }

    /// Returns the text of a field that the object must have.
    ///
    /// # Errors
    /// If it is missing; else as `text`.
    pub(in crate::http) fn needed(
        &mut self,
        given: &Given<'_>,
        field: &str,
    ) -> Result<String, Error> {
        match given.get(field) {
            Some(raw) => self.text(field, raw),
            None => Err(self.wrong(field, "it is missing")),
        }
    }

    /// Counts the bytes of a field.
    ///
    /// # Errors
    /// If there is no room for them.
    pub(in crate::http) fn take(&mut self, field: &str, bytes: usize) -> Result<(), Error> {
        let left = self.room.checked_sub(bytes).ok_or_else(|| {
            let why = format!(
                "up to it the messages have more than {TEXT_BYTES} bytes of text, which is the most of one request; shorten them"
            );
            self.wrong(field, &why)
        })?;
        *self.room = left;
        Ok(())
    }

    /// Returns the "type" of an object at the path `at` from here. It is read before all other fields, so that an error
    /// names it, and not a field of another type.
    ///
    /// # Errors
    /// If it is none of `known`; `form` is the form of an object.
    pub(in crate::http) fn kind<'t>(
        &self,
        at: &str,
        raw: &'t RawValue,
        known: &[&str],
        form: &str,
    ) -> Result<Cow<'t, str>, Error> {
        let kind = self.maybe_kind(at, raw)?;
        let kind = kind.ok_or_else(|| self.wrong(at, &format!("it has no \"type\"; {form}")))?;
        if !known.contains(&&*kind) {
            let kind = shortened(&kind);
            return Err(self.wrong(at, &format!("its type is {kind:?}; {form}")));
        }
        Ok(kind)
    }

    /// Returns the "type" of an object, if it has one that is a text.
    ///
    /// # Errors
    /// If it is not an object.
    pub(in crate::http) fn maybe_kind<'t>(
        &self,
        at: &str,
        raw: &'t RawValue,
    ) -> Result<Option<Cow<'t, str>>, Error> {
        let members = raw::object(raw.get()).map_err(|why| self.wrong(at, &why))?;
        let kind = members.iter().find(|(name, _)| name == "type");
        Ok(kind.and_then(|(_, kind)| raw::text(kind).ok()))
    }
}
