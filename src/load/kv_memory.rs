//! How many pages the key-value cache has.

use crate::tape::KvInfo;

/// Conversations of the greatest length that `KvMemory::Auto` makes room for.
const PLENTY: usize = 4;

/// What is asked for is less than a page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "kv.memory_mib = {asked} is less than a page of the cache takes: set it to {least} or more, or to 0"
)]
pub struct LessThanAPage {
    asked: u64,
    least: u64,
}

/// How much memory the cache takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvMemory {
    /// The cache has room for four conversations of the greatest length; for fewer where there is not enough memory, but
    /// always for one.
    #[default]
    Auto,
    /// The cache has room for so many conversations of the greatest length.
    Conversations(usize),
    Mebibytes(u64),
}

impl KvMemory {
    /// The cache with as many pages as that is; with the most that it may have, if room decides.
    ///
    /// # Errors
    /// If it is less than a page.
    pub(crate) fn of(self, kv: KvInfo) -> Result<KvInfo, LessThanAPage> {
        let pages = match self {
            Self::Auto => PLENTY * kv.pages_each(),
            Self::Conversations(count) => count.max(1) * kv.pages_each(),
            Self::Mebibytes(asked) => {
                let page = kv.page_bytes() as u64;
                let pages = (asked << 20) / page;
                if pages == 0 {
                    let least = page.div_ceil(1 << 20);
                    return Err(LessThanAPage { asked, least });
                }
                usize::try_from(pages).unwrap_or(usize::MAX)
            }
        };
        Ok(KvInfo { pages, ..kv })
    }

    /// The numbers of pages that room decides between.
    pub(crate) fn choices(self, kv: KvInfo) -> Option<std::ops::RangeInclusive<usize>> {
        let each = kv.pages_each();
        matches!(self, Self::Auto).then_some(each..=PLENTY * each)
    }
}
