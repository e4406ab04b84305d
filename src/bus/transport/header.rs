//! The header of a message on the wire, as far as the intake needs it.
//! <https://dbus.freedesktop.org/doc/dbus-specification.html#message-protocol-messages>

use zbus::Variant;
use zbus::wire::serialized::{Context, Data};
use zbus::wire::{BE, Endian, LE, to_bytes};

/// Bytes of the fixed part of a message: its kind, its lengths and its serial.
pub(super) const FIXED: usize = 16;
/// The offset of the array of fields, whose length is the last part of the fixed bytes.
const FIELDS: usize = 12;
/// Bytes of the fields. The specification's own fields take at most some kilobytes.
pub(super) const LONGEST_FIELDS: usize = 64 << 10;
/// Bytes of a whole message, by the specification.
const LONGEST: usize = 128 << 20;

const METHOD_CALL: u8 = 1;
const NO_REPLY_EXPECTED: u8 = 1;

const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const SENDER: u8 = 7;
const SIGNATURE: u8 = 8;
const UNIX_FDS: u8 = 9;

/// Bytes that are not a message: the start of the next message is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the bus sent bytes that are not a message")]
pub(super) struct NotAMessage;

/// The first bytes of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    bytes: [u8; FIXED],
    endian: Endian,
}

impl Fixed {
    pub(super) fn read(bytes: [u8; FIXED]) -> Result<Self, NotAMessage> {
        let endian = match bytes[0] {
            b'l' => LE,
            b'B' => BE,
            _ => return Err(NotAMessage),
        };
        let fixed = Self { bytes, endian };
        let whole = fixed.fields().saturating_add(fixed.body());
        (whole <= LONGEST).then_some(fixed).ok_or(NotAMessage)
    }

    fn number(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.bytes[at..at + 4]);
        match self.endian {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        }
    }

    pub(super) fn is_call(&self) -> bool {
        self.bytes[1] == METHOD_CALL
    }

    pub(super) fn expects_reply(&self) -> bool {
        self.bytes[2] & NO_REPLY_EXPECTED == 0
    }

    pub(super) fn serial(&self) -> u32 {
        self.number(8)
    }

    /// Bytes of the body.
    pub(super) fn body(&self) -> usize {
        self.number(4) as usize
    }

    /// Bytes of the fields, and of the padding after them.
    pub(super) fn fields(&self) -> usize {
        (self.number(FIELDS) as usize).next_multiple_of(8)
    }
}

/// A header with its fields.
#[derive(Debug)]
pub(super) struct Header {
    fixed: Fixed,
    fields: Vec<(u8, Variant<'static>)>,
    /// The number of descriptors that were sent with the message.
    descriptors: usize,
}

impl Header {
    /// Parses the fields, `fixed.fields()` bytes; `None` if they are not fields. Fields unknown to the specification are left
    /// out, as it demands.
    pub(super) fn read(fixed: Fixed, fields: &[u8]) -> Option<Self> {
        let bytes = [&fixed.bytes[FIELDS..], fields].concat();
        let data = Data::new(bytes, Context::new(fixed.endian, FIELDS));
        let (read, _) = data.deserialize::<Vec<(u8, Variant<'_>)>>().ok()?;
        let mut fields = Vec::with_capacity(read.len());
        let mut descriptors = 0;
        for (code, value) in read {
            if let (UNIX_FDS, Variant::U32(number)) = (code, &value) {
                descriptors = *number as usize;
            }
            if (1..UNIX_FDS).contains(&code) {
                fields.push((code, value.try_to_owned().ok()?.into()));
            }
        }
        Some(Self {
            fixed,
            fields,
            descriptors,
        })
    }

    /// Returns the number of descriptors that were sent with the message.
    pub(super) fn descriptors(&self) -> usize {
        self.descriptors
    }

    /// Returns the sender; the bus vouches for it.
    pub(super) fn sender(&self) -> Option<&str> {
        self.named(SENDER)
    }

    /// Returns the method that is called.
    pub(super) fn member(&self) -> Option<&str> {
        self.named(MEMBER)
    }

    fn named(&self, field: u8) -> Option<&str> {
        self.fields.iter().find_map(|(code, value)| match value {
            Variant::Str(name) if *code == field => Some(name.as_str()),
            _ => None,
        })
    }

    /// Adds the interface to a call without one. `find` returns it for the path of the object and the method.
    pub(super) fn complete(&mut self, find: impl Fn(&str, &str) -> Option<&'static str>) {
        let path = self.fields.iter().find_map(|(code, value)| match value {
            Variant::ObjectPath(path) if *code == PATH => Some(path.as_str()),
            _ => None,
        });
        if self.fields.iter().all(|(code, _)| *code != INTERFACE)
            && let Some((path, member)) = path.zip(self.member())
            && let Some(interface) = find(path, member)
        {
            self.fields.push((INTERFACE, interface.into()));
        }
    }

    /// Returns the message up to its body, without descriptors. Every call then expects a reply, which marks its end.
    pub(super) fn write(&self) -> Option<Vec<u8>> {
        self.with(&self.fields, self.fixed.body())
    }

    /// Returns the message up to its body, with its descriptors.
    pub(super) fn write_with_descriptors(&self) -> Option<Vec<u8>> {
        if self.descriptors == 0 {
            return self.write();
        }
        let number = u32::try_from(self.descriptors).ok()?;
        let mut fields = self.fields.clone();
        fields.push((UNIX_FDS, number.into()));
        self.with(&fields, self.fixed.body())
    }

    /// Returns the message without a body.
    pub(super) fn write_bare(&self) -> Option<Vec<u8>> {
        let mut fields = self.fields.clone();
        fields.retain(|(code, _)| *code != SIGNATURE);
        self.with(&fields, 0)
    }

    fn with(&self, fields: &Vec<(u8, Variant<'_>)>, body: usize) -> Option<Vec<u8>> {
        let fields = to_bytes(Context::new(self.fixed.endian, FIELDS), fields).ok()?;
        let length = (FIELDS + fields.len()).next_multiple_of(8);
        let mut bytes = Vec::with_capacity(length + body);
        bytes.extend_from_slice(&self.fixed.bytes[..FIELDS]);
        bytes[2] &= !NO_REPLY_EXPECTED;
        let body = u32::try_from(body).ok()?;
        let body = match self.fixed.endian {
            Endian::Little => body.to_le_bytes(),
            Endian::Big => body.to_be_bytes(),
        };
        bytes[4..8].copy_from_slice(&body);
        bytes.extend_from_slice(&fields);
        bytes.resize(length, 0);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call without a body; its sender is `:1.7`, its serial 9.
    fn call(endian: Endian, more: &[(u8, Variant<'static>)]) -> (Fixed, Vec<u8>) {
        let path = zbus::ObjectPath::from_static_str_unchecked("/org/ganglion/Llm1");
        let mut fields = vec![
            (PATH, Variant::from(path)),
            (MEMBER, "Ping".into()),
            (SENDER, ":1.7".into()),
        ];
        fields.extend_from_slice(more);
        let fields = to_bytes(Context::new(endian, FIELDS), &fields).unwrap();
        let mut bytes = match endian {
            Endian::Little => vec![b'l', METHOD_CALL, 1, 1, 0, 0, 0, 0, 9, 0, 0, 0],
            Endian::Big => vec![b'B', METHOD_CALL, 1, 1, 0, 0, 0, 0, 0, 0, 0, 9],
        };
        bytes.extend_from_slice(&fields);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let fixed = Fixed::read(bytes[..FIXED].try_into().unwrap()).unwrap();
        (fixed, bytes.split_off(FIXED))
    }

    #[test]
    fn unknown_fields_are_left_out() {
        for endian in [LE, BE] {
            let (plain, expected) = call(endian, &[]);
            let nested = Variant::from(vec![("x", Variant::from(vec![1u64, 2]))]);
            let (fixed, fields) = call(endian, &[(10, 7u8.into()), (200, nested)]);
            assert!(fields.len() > expected.len());
            let header = Header::read(fixed, &fields).unwrap();
            assert_eq!(header.sender(), Some(":1.7"));
            assert_eq!(header.member(), Some("Ping"));
            assert_eq!((fixed.serial(), fixed.expects_reply()), (9, false));
            let mut whole = plain.bytes.to_vec();
            whole.extend_from_slice(&expected);
            // Each call gets an answer, which marks its end.
            whole[2] = 0;
            assert_eq!(header.write().unwrap(), whole, "{endian:?}");
        }
    }

    #[test]
    fn a_call_without_an_interface_gets_the_one_that_is_found() {
        for endian in [LE, BE] {
            let find = |path: &str, member: &str| {
                (path == "/org/ganglion/Llm1" && member == "Ping").then_some("org.example.One")
            };
            let (fixed, fields) = call(endian, &[]);
            let mut header = Header::read(fixed, &fields).unwrap();
            header.complete(|_, _| None);
            assert_eq!(header.named(INTERFACE), None);
            header.complete(find);
            assert_eq!(header.named(INTERFACE), Some("org.example.One"));
            let whole = header.write().unwrap();
            let fixed = Fixed::read(whole[..FIXED].try_into().unwrap()).unwrap();
            let again = Header::read(fixed, &whole[FIXED..]).unwrap();
            assert_eq!(again.fields, header.fields, "{endian:?}");

            let (fixed, fields) = call(endian, &[(INTERFACE, "org.example.Other".into())]);
            let mut named = Header::read(fixed, &fields).unwrap();
            named.complete(find);
            assert_eq!(named.named(INTERFACE), Some("org.example.Other"));
        }
    }

    #[test]
    fn bytes_that_are_not_a_header_are_refused() {
        let (fixed, fields) = call(LE, &[]);
        assert!(Header::read(fixed, &fields[..fields.len() - 9]).is_none());
        let mut wrong = fields.clone();
        wrong[4] = 0xff;
        assert!(Header::read(fixed, &wrong).is_none());
        let mut first = fixed.bytes;
        first[0] = b'x';
        assert!(Fixed::read(first).is_err());
        first[0] = b'l';
        first[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Fixed::read(first).is_err(), "longer than any message");
    }
}
