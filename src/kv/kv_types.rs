//! The types of K and of V in a key-value cache, which may differ.

use super::kv_type::KvType;

/// The types of K and of V.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KvTypes {
    pub k: KvType,
    pub v: KvType,
}

impl From<KvType> for KvTypes {
    fn from(element: KvType) -> Self {
        Self::both(element)
    }
}

impl KvTypes {
    /// The pairs of two types that executors support.
    pub const MIXED: [Self; 4] = [
        Self::of(KvType::F16, KvType::Q8_0),
        Self::of(KvType::BF16, KvType::Q8_0),
        Self::of(KvType::Q8_0, KvType::F16),
        Self::of(KvType::Q8_0, KvType::BF16),
    ];

    #[must_use]
    pub const fn of(k: KvType, v: KvType) -> Self {
        Self { k, v }
    }

    /// One type for K and V.
    #[must_use]
    pub const fn both(element: KvType) -> Self {
        Self::of(element, element)
    }

    /// Every pair that executors support.
    pub fn all() -> impl Iterator<Item = Self> {
        KvType::ALL.map(Self::both).into_iter().chain(Self::MIXED)
    }

    /// Whether executors support the pair: two equal types, or q8_0 with a type of 16 bits.
    #[must_use]
    pub fn is_supported(self) -> bool {
        self.k == self.v || Self::MIXED.contains(&self)
    }

    /// K's type, then V's.
    #[must_use]
    pub const fn sides(self) -> [KvType; 2] {
        [self.k, self.v]
    }

    /// The type of K and V if it is one.
    #[must_use]
    pub fn one(self) -> Option<KvType> {
        (self.k == self.v).then_some(self.k)
    }

    /// The name of the one type, or K's and V's with a slash between them.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match (self.k, self.v) {
            (KvType::F32, KvType::F32) => "f32",
            (KvType::F16, KvType::F16) => "f16",
            (KvType::BF16, KvType::BF16) => "bf16",
            (KvType::Q8_0, KvType::Q8_0) => "q8_0",
            (KvType::F16, KvType::Q8_0) => "f16/q8_0",
            (KvType::BF16, KvType::Q8_0) => "bf16/q8_0",
            (KvType::Q8_0, KvType::F16) => "q8_0/f16",
            (KvType::Q8_0, KvType::BF16) => "q8_0/bf16",
            _ => "unsupported",
        }
    }

    /// The number that the width of a head must be a multiple of.
    #[must_use]
    pub fn granule(self) -> usize {
        self.k.granule().max(self.v.granule())
    }

    /// Bytes of K and V of one head at one position.
    #[must_use]
    pub const fn bytes(self, head_dim: usize) -> usize {
        self.k.bytes(head_dim) + self.v.bytes(head_dim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_pairs_have_different_names() {
        let mut names: Vec<_> = KvTypes::all().map(KvTypes::name).collect();
        assert!(KvTypes::all().all(KvTypes::is_supported));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KvTypes::all().count());
        assert!(!names.contains(&"unsupported"));
        assert!(!KvTypes::of(KvType::F32, KvType::Q8_0).is_supported());
    }

    /// Qwen2.5-1.5B and Qwen3 have heads of 128.
    #[test]
    fn mixed_types_need_the_bytes_of_each_side() {
        let mixed = KvTypes::of(KvType::F16, KvType::Q8_0);
        assert_eq!(mixed.bytes(128), 256 + 136);
        assert_eq!(KvTypes::both(KvType::Q8_0).bytes(128), 2 * 136);
    }
}
