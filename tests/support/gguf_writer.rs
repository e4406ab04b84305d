//! Writes GGUF files, version 3, from metadata and tensors; it checks nothing.

/// A file in the making.
#[derive(Default)]
pub(crate) struct GgufWriter {
    metadata: Vec<u8>,
    keys: u64,
    infos: Vec<u8>,
    tensors: u64,
    data: Vec<u8>,
}

const ALIGNMENT: usize = 32;
const UINT32: u32 = 4;
const INT32: u32 = 5;
const FLOAT32: u32 = 6;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// The type of a tensor of f32.
pub(crate) const F32: u32 = 0;

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

impl GgufWriter {
    fn key(&mut self, key: &str, kind: u32) -> &mut Vec<u8> {
        self.keys += 1;
        put_string(&mut self.metadata, key);
        self.metadata.extend(kind.to_le_bytes());
        &mut self.metadata
    }

    pub(crate) fn string(&mut self, key: &str, value: &str) -> &mut Self {
        put_string(self.key(key, STRING), value);
        self
    }

    pub(crate) fn u32(&mut self, key: &str, value: u32) -> &mut Self {
        self.key(key, UINT32).extend(value.to_le_bytes());
        self
    }

    pub(crate) fn f32(&mut self, key: &str, value: f32) -> &mut Self {
        self.key(key, FLOAT32).extend(value.to_le_bytes());
        self
    }

    pub(crate) fn bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.key(key, BOOL).push(value.into());
        self
    }

    pub(crate) fn strings(&mut self, key: &str, values: &[String]) -> &mut Self {
        let out = self.key(key, ARRAY);
        out.extend(STRING.to_le_bytes());
        out.extend((values.len() as u64).to_le_bytes());
        for value in values {
            put_string(out, value);
        }
        self
    }

    pub(crate) fn i32s(&mut self, key: &str, values: &[i32]) -> &mut Self {
        let out = self.key(key, ARRAY);
        out.extend(INT32.to_le_bytes());
        out.extend((values.len() as u64).to_le_bytes());
        out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self
    }

    /// `shape` is outermost first, as everywhere but in GGUF.
    pub(crate) fn tensor(
        &mut self,
        name: &str,
        shape: &[usize],
        kind: u32,
        data: &[u8],
    ) -> &mut Self {
        self.tensors += 1;
        put_string(&mut self.infos, name);
        let dimensions = u32::try_from(shape.len()).unwrap();
        self.infos.extend(dimensions.to_le_bytes());
        for dimension in shape.iter().rev() {
            self.infos.extend((*dimension as u64).to_le_bytes());
        }
        self.infos.extend(kind.to_le_bytes());
        self.infos.extend((self.data.len() as u64).to_le_bytes());
        self.data.extend(data);
        self.data
            .resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
        self
    }

    /// The bytes of header, metadata and tensor infos: all that comes before the data.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = b"GGUF".to_vec();
        head.extend(3_u32.to_le_bytes());
        head.extend(self.tensors.to_le_bytes());
        head.extend(self.keys.to_le_bytes());
        head.extend(&self.metadata);
        head.extend(&self.infos);
        head
    }

    /// The whole file.
    pub(crate) fn file(&self) -> Vec<u8> {
        let mut file = self.head();
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        file.extend(&self.data);
        file
    }
}
