//! Values in D-Bus's encoding, in either byte order, including invalid ones.

/// A value of a message, possibly invalid.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Byte(u8),
    Bool(bool),
    U32(u32),
    U64(u64),
    Double(f64),
    Text(String),
    Path(String),
    Signature(String),
    Variant(Box<Value>),
    /// The first field is an element's signature, because the array may be empty.
    Array(String, Vec<Value>),
    Struct(Vec<Value>),
    /// An entry of a dictionary, which is an array of entries.
    Entry(Box<(Value, Value)>),
    /// Arbitrary bytes under that signature.
    Lie {
        signature: String,
        align: usize,
        bytes: Vec<u8>,
    },
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::U32(number)
    }
}

impl Value {
    pub(crate) fn variant(self) -> Self {
        Self::Variant(Box::new(self))
    }

    /// Makes a dictionary `a{sv}`.
    pub(crate) fn fields<const N: usize>(entries: [(&str, Value); N]) -> Self {
        let entry =
            |(key, value): (&str, Value)| Self::Entry(Box::new((key.into(), value.variant())));
        Self::Array("{sv}".to_owned(), entries.into_iter().map(entry).collect())
    }

    pub(crate) fn signature(&self) -> String {
        match self {
            Self::Byte(_) => "y".into(),
            Self::Bool(_) => "b".into(),
            Self::U32(_) => "u".into(),
            Self::U64(_) => "t".into(),
            Self::Double(_) => "d".into(),
            Self::Text(_) => "s".into(),
            Self::Path(_) => "o".into(),
            Self::Signature(_) => "g".into(),
            Self::Variant(_) => "v".into(),
            Self::Array(element, _) => format!("a{element}"),
            Self::Struct(members) => {
                let members: String = members.iter().map(Self::signature).collect();
                format!("({members})")
            }
            Self::Entry(pair) => format!("{{{}{}}}", pair.0.signature(), pair.1.signature()),
            Self::Lie { signature, .. } => signature.clone(),
        }
    }
}

/// Returns the alignment of a type, by the first character of its signature.
pub(super) fn alignment(signature: &str) -> usize {
    match signature.bytes().next() {
        Some(b'n' | b'q') => 2,
        Some(b'b' | b'i' | b'u' | b's' | b'o' | b'a' | b'h') => 4,
        Some(b'x' | b't' | b'd' | b'(' | b'{') => 8,
        _ => 1,
    }
}

/// Encodes values one after the other.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) big_endian: bool,
}

impl Writer {
    pub(crate) fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    fn u32_bytes(&self, number: u32) -> [u8; 4] {
        if self.big_endian {
            number.to_be_bytes()
        } else {
            number.to_le_bytes()
        }
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.align(4);
        let bytes = self.u32_bytes(number);
        self.bytes.extend(bytes);
    }

    fn u64(&mut self, number: u64) {
        self.align(8);
        self.bytes.extend(if self.big_endian {
            number.to_be_bytes()
        } else {
            number.to_le_bytes()
        });
    }

    fn text(&mut self, text: &str) {
        self.u32(length(text.len()));
        self.bytes.extend(text.bytes());
        self.bytes.push(0);
    }

    fn short(&mut self, signature: &str) {
        // A signature that is too long for its length byte stays invalid.
        self.bytes
            .push(u8::try_from(signature.len()).unwrap_or(u8::MAX));
        self.bytes.extend(signature.bytes());
        self.bytes.push(0);
    }

    pub(crate) fn value(&mut self, value: &Value) {
        match value {
            Value::Byte(byte) => self.bytes.push(*byte),
            Value::Bool(yes) => self.u32((*yes).into()),
            Value::U32(number) => self.u32(*number),
            Value::U64(number) => self.u64(*number),
            Value::Double(number) => self.u64(number.to_bits()),
            Value::Text(text) | Value::Path(text) => self.text(text),
            Value::Signature(signature) => self.short(signature),
            Value::Variant(inner) => {
                self.short(&inner.signature());
                self.value(inner);
            }
            Value::Array(element, values) => {
                self.u32(0);
                let length_at = self.bytes.len() - 4;
                self.align(alignment(element));
                let begin = self.bytes.len();
                values.iter().for_each(|value| self.value(value));
                let bytes = self.u32_bytes(length(self.bytes.len() - begin));
                self.bytes[length_at..length_at + 4].copy_from_slice(&bytes);
            }
            Value::Struct(members) => {
                self.align(8);
                members.iter().for_each(|member| self.value(member));
            }
            Value::Entry(pair) => {
                self.align(8);
                self.value(&pair.0);
                self.value(&pair.1);
            }
            Value::Lie { align, bytes, .. } => {
                self.align(*align);
                self.bytes.extend(bytes);
            }
        }
    }
}

pub(super) fn length(of: usize) -> u32 {
    u32::try_from(of).expect("D-Bus counts bytes in 32 bits")
}
