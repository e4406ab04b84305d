//! A message of a sender, field by field.

use super::value::{Value, Writer, length};

pub(crate) const CALL: u8 = 1;
pub(crate) const RETURN: u8 = 2;
pub(crate) const ERROR: u8 = 3;
pub(crate) const SIGNAL: u8 = 4;

pub(crate) const PATH: u8 = 1;
pub(crate) const INTERFACE: u8 = 2;
pub(crate) const MEMBER: u8 = 3;
pub(crate) const ERROR_NAME: u8 = 4;
pub(crate) const REPLY_SERIAL: u8 = 5;
pub(crate) const DESTINATION: u8 = 6;
pub(crate) const SENDER: u8 = 7;
pub(crate) const SIGNATURE: u8 = 8;

pub(crate) const NO_REPLY_EXPECTED: u8 = 1;

/// A message without any check.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) big_endian: bool,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// 0 is replaced by the connection's next serial.
    pub(crate) serial: u32,
    pub(crate) fields: Vec<(u8, Value)>,
    pub(crate) body: Vec<Value>,
}

impl Message {
    pub(crate) fn new(kind: u8) -> Self {
        Self {
            big_endian: false,
            kind,
            flags: 0,
            serial: 0,
            fields: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(crate) fn call(destination: &str, path: &str, interface: &str, member: &str) -> Self {
        Self::new(CALL)
            .field(DESTINATION, destination.into())
            .field(PATH, Value::Path(path.to_owned()))
            .field(INTERFACE, interface.into())
            .field(MEMBER, member.into())
    }

    /// Adds a header field, also with a code that exists already.
    pub(crate) fn field(mut self, code: u8, value: Value) -> Self {
        self.fields.push((code, value));
        self
    }

    /// Sets the field of that code.
    pub(crate) fn instead(mut self, code: u8, value: Value) -> Self {
        self.fields.retain(|(other, _)| *other != code);
        self.field(code, value)
    }

    /// Adds an argument.
    pub(crate) fn with(mut self, argument: impl Into<Value>) -> Self {
        self.body.push(argument.into());
        self
    }

    pub(crate) fn no_reply(mut self) -> Self {
        self.flags |= NO_REPLY_EXPECTED;
        self
    }

    /// Returns the bytes; the body's signature is added unless a field sets it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut body = Writer {
            big_endian: self.big_endian,
            ..Writer::default()
        };
        self.body.iter().for_each(|value| body.value(value));
        let mut fields = self.fields.clone();
        if !self.body.is_empty() && !fields.iter().any(|(code, _)| *code == SIGNATURE) {
            let signature = self.body.iter().map(Value::signature).collect();
            fields.push((SIGNATURE, Value::Signature(signature)));
        }
        let fields = fields
            .into_iter()
            .map(|(code, value)| Value::Struct(vec![Value::Byte(code), value.variant()]))
            .collect();
        let mut frame = Writer {
            big_endian: self.big_endian,
            ..Writer::default()
        };
        let order = if self.big_endian { b'B' } else { b'l' };
        frame.bytes.extend([order, self.kind, self.flags, 1]);
        frame.u32(length(body.bytes.len()));
        frame.u32(self.serial);
        frame.value(&Value::Array("(yv)".to_owned(), fields));
        frame.align(8);
        frame.bytes.append(&mut body.bytes);
        frame.bytes
    }
}
