//! The size of the key-value cache.

use crate::tape::KvInfo;

/// The number of conversations of full length that `KvMemory::Auto` makes room for.
const PLENTY: usize = 4;

/// A size of less than a page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "kv.memory_mib = {asked} is less than a page of the cache takes: set it to {least} or more, or to 0"
)]
pub struct LessThanAPage {
    asked: u64,
    least: u64,
}

/// The memory of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvMemory {
    /// Room for four conversations of full length, or for fewer if memory is short, but at least for one.
    #[default]
    Auto,
    /// Room for a number of conversations of full length.
    Conversations(usize),
    Mebibytes(u64),
}

impl KvMemory {
    /// Returns the cache with its number of pages: with the most, if free memory decides.
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

    /// Returns the numbers of pages that free memory decides between.
    pub(crate) fn choices(self, kv: KvInfo) -> Option<std::ops::RangeInclusive<usize>> {
        let each = kv.pages_each();
        matches!(self, Self::Auto).then_some(each..=PLENTY * each)
    }
}
