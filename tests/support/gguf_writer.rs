//! Writes GGUF files, version 3, from metadata and tensors, without checks.

/// A file that is being built.
#[derive(Clone, Default)]
pub(crate) struct GgufWriter {
    /// Keys, each with the bytes of its type and its value.
    metadata: Vec<(String, Vec<u8>)>,
    tensors: Vec<Tensor>,
}

#[derive(Clone)]
struct Tensor {
    /// Its name, shape and type.
    info: Vec<u8>,
    data: Vec<u8>,
}

const ALIGNMENT: usize = 32;
const UINT32: u32 = 4;
const INT32: u32 = 5;
const FLOAT32: u32 = 6;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// The type of an f32 tensor.
pub(crate) const F32: u32 = 0;

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

#[allow(dead_code)] // each program with this module writes other keys
impl GgufWriter {
    fn key(&mut self, key: &str, kind: u32) -> &mut Vec<u8> {
        self.metadata.push((key.into(), kind.to_le_bytes().into()));
        let (_, value) = self.metadata.last_mut().unwrap();
        value
    }

    /// Removes an existing key.
    pub(crate) fn remove(&mut self, key: &str) -> &mut Self {
        self.metadata.retain(|(other, _)| other != key);
        self
    }

    /// Replaces the text of an existing key.
    pub(crate) fn replace_string(&mut self, key: &str, value: &str) -> &mut Self {
        self.remove(key).string(key, value)
    }

    pub(crate) fn string(&mut self, key: &str, value: &str) -> &mut Self {
        put_string(self.key(key, STRING), value);
        self
    }

    /// Adds a text that need not be UTF-8.
    pub(crate) fn bytes(&mut self, key: &str, value: &[u8]) -> &mut Self {
        let out = self.key(key, STRING);
        out.extend((value.len() as u64).to_le_bytes());
        out.extend(value);
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

    pub(crate) fn bools(&mut self, key: &str, values: &[bool]) -> &mut Self {
        let out = self.key(key, ARRAY);
        out.extend(BOOL.to_le_bytes());
        out.extend((values.len() as u64).to_le_bytes());
        out.extend(values.iter().copied().map(u8::from));
        self
    }

    /// `shape` is outermost first, unlike in GGUF.
    pub(crate) fn tensor(
        &mut self,
        name: &str,
        shape: &[usize],
        kind: u32,
        data: &[u8],
    ) -> &mut Self {
        let mut info = Vec::new();
        put_string(&mut info, name);
        let dimensions = u32::try_from(shape.len()).unwrap();
        info.extend(dimensions.to_le_bytes());
        for dimension in shape.iter().rev() {
            info.extend((*dimension as u64).to_le_bytes());
        }
        info.extend(kind.to_le_bytes());
        let data = data.to_vec();
        self.tensors.push(Tensor { info, data });
        self
    }

    /// Sets the type of a tensor without a change of its data.
    pub(crate) fn set_type(&mut self, name: &str, kind: u32) {
        for Tensor { info, .. } in &mut self.tensors {
            let mut named = Vec::new();
            put_string(&mut named, name);
            if info.starts_with(&named) {
                let at = info.len() - 4;
                info[at..].copy_from_slice(&kind.to_le_bytes());
            }
        }
    }

    /// Returns the header, metadata and tensor infos, which precede the data.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = b"GGUF".to_vec();
        head.extend(3_u32.to_le_bytes());
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            put_string(&mut head, key);
            head.extend(value);
        }
        let mut offset = 0;
        for Tensor { info, data } in &self.tensors {
            head.extend(info);
            head.extend((offset as u64).to_le_bytes());
            offset += data.len().next_multiple_of(ALIGNMENT);
        }
        head
    }

    /// Returns the whole file.
    pub(crate) fn file(&self) -> Vec<u8> {
        let mut file = self.head();
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        for Tensor { data, .. } in &self.tensors {
            file.extend(data);
            file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        }
        file
    }

    /// Splits the file into that many parts, like llama-gguf-split.
    pub(crate) fn parts(&self, count: u32) -> Vec<Vec<u8>> {
        let all = u32::try_from(self.tensors.len()).unwrap();
        let tensors = self
            .tensors
            .chunks(self.tensors.len().div_ceil(count as usize));
        let parts = (0..count).zip(tensors).map(|(number, tensors)| {
            let mut part = if number == 0 {
                self.clone()
            } else {
                Self::default()
            };
            part.tensors = tensors.to_vec();
            part.u32("split.no", number)
                .u32("split.count", count)
                .u32("split.tensors.count", all)
                .file()
        });
        parts.collect()
    }
}
