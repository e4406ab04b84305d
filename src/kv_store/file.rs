//! The file format of a sequence: a header of one sector, the key, the tokens, the place of each page, a checksum of
//! each page, zeros up to a multiple of 4096 bytes, and the pages.
//!
//! Numbers are little-endian, and every byte has a checksum. A file gets its name after all of it is on the disk, so an
//! incomplete file was damaged later, and is not used.

use std::path::Path;

use super::key::Key;
use super::refusal::Refusal;
use crate::files::{File, Files};
use crate::kv::{Family, PagePlace};

const MAGIC: &[u8; 8] = b"GNGLpage";
/// The version of the file format. Other versions are not read.
const VERSION: u32 = 3;
const HEAD: usize = 512;
const ALIGNMENT: usize = 4096;
/// The most bytes between header and pages, many more than the longest context needs.
const LONGEST_BODY: usize = 64 << 20;
/// Marks a generated token. No vocabulary is this large.
const SAID: u32 = 1 << 31;

/// Tokens and the families that computed them.
pub(super) type Tokens = Vec<(u32, Family)>;

/// The offsets of the parts of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    key: usize,
    tokens: usize,
    pages: usize,
    /// Bytes of each page.
    page: usize,
}

impl Layout {
    /// Creates the layout of a file with a number of tokens, and of pages of some bytes.
    pub(super) fn new(key: &Key, tokens: usize, (pages, page): (usize, usize)) -> Self {
        Self {
            key: key.bytes().len(),
            tokens,
            pages,
            page,
        }
    }

    /// Bytes between the header and the pages, including the padding.
    fn body(&self) -> usize {
        let numbers = 4 * (self.tokens + 3 * self.pages);
        (HEAD + self.key + numbers).next_multiple_of(ALIGNMENT) - HEAD
    }

    fn offset(&self, page: usize) -> u64 {
        (HEAD + self.body()) as u64 + page as u64 * self.page as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.offset(self.pages)
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Writing {
    file: Box<dyn File>,
    layout: Layout,
    /// The checksums of the written pages.
    sums: Vec<u32>,
}

impl Writing {
    pub(super) fn begin(files: &dyn Files, path: &Path, layout: Layout) -> std::io::Result<Self> {
        Ok(Self {
            file: files.open(path, true)?,
            layout,
            sums: Vec::with_capacity(layout.pages),
        })
    }

    /// Writes the next page.
    pub(super) fn page(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file
            .write(self.layout.offset(self.sums.len()), bytes)?;
        self.sums.push(crc32fast::hash(bytes));
        Ok(())
    }

    /// Whether all pages were written.
    pub(super) fn is_whole(&self) -> bool {
        self.sums.len() == self.layout.pages
    }

    /// Writes everything before the pages, and returns when all of it is on the disk.
    pub(super) fn finish(
        mut self,
        key: &Key,
        tokens: &Tokens,
        places: &[PagePlace],
    ) -> std::io::Result<()> {
        let mut body = key.bytes().to_vec();
        let marked = tokens.iter().map(|(token, family)| match family {
            Family::Prompt => *token,
            Family::Step => *token | SAID,
        });
        let places = places
            .iter()
            .flat_map(|one| [one.group, one.index].map(narrow));
        let numbers = marked.chain(places).chain(self.sums.iter().copied());
        body.extend(numbers.flat_map(u32::to_le_bytes));
        body.resize(self.layout.body(), 0);
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(MAGIC);
        let Layout {
            key,
            tokens,
            pages,
            page,
        } = self.layout;
        let lengths = [key, tokens, pages, page].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let [key, tokens, pages, page] = lengths;
        let sum = crc32fast::hash(&body);
        let fields = [VERSION, key, tokens, pages, page, sum];
        for (place, value) in head[8..].chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        let sum = crc32fast::hash(&head[..HEAD - 4]);
        head[HEAD - 4..].copy_from_slice(&sum.to_le_bytes());
        self.file.write(HEAD as u64, &body)?;
        self.file.write(0, &head)?;
        self.file.sync()
    }
}

/// An open file whose tokens were read.
#[derive(Debug)]
pub(super) struct Reading {
    file: Box<dyn File>,
    layout: Layout,
    pub(super) tokens: Tokens,
    /// The places of all pages, in order.
    pub(super) places: Vec<PagePlace>,
    sums: Vec<u32>,
}

impl Reading {
    /// Opens a file that was written with this key.
    pub(super) fn open(files: &dyn Files, path: &Path, key: &Key) -> Result<Self, Refusal> {
        let file = files.open_to_read(path)?;
        let (owner, expected) = (file.owner()?, files.user());
        if owner != expected {
            return Err(Refusal::Owner { owner, expected });
        }
        let mut head = [0; HEAD];
        let (length, _) = file.stat()?;
        if length < HEAD as u64 {
            return Err(Refusal::Damaged("length"));
        }
        file.read_at(0, &mut head)?;
        if &head[..8] != MAGIC || crc32fast::hash(&head[..HEAD - 4]) != number(&head[HEAD - 4..]) {
            return Err(Refusal::Damaged("head"));
        }
        let [found, key_length, tokens, pages, page, sum] =
            std::array::from_fn(|index| number(&head[8 + 4 * index..]));
        if found != VERSION {
            let known = VERSION;
            return Err(Refusal::Version { found, known });
        }
        let layout = Layout {
            key: key_length as usize,
            tokens: tokens as usize,
            pages: pages as usize,
            page: page as usize,
        };
        if layout.body() > LONGEST_BODY || length != layout.bytes() {
            return Err(Refusal::Damaged("length"));
        }
        let mut body = vec![0; layout.body()];
        file.read_at(HEAD as u64, &mut body)?;
        if crc32fast::hash(&body) != sum {
            return Err(Refusal::Damaged("list of tokens"));
        }
        let (made_with, numbers) = body.split_at(layout.key);
        if let Some(what) = key.difference(made_with) {
            return Err(Refusal::Key(what));
        }
        let mut numbers = numbers.chunks_exact(4).map(number);
        let tokens = numbers.by_ref().take(layout.tokens).map(|marked| {
            let said = marked & SAID != 0;
            let family = if said { Family::Step } else { Family::Prompt };
            (marked & !SAID, family)
        });
        let tokens = tokens.collect();
        let places: Vec<u32> = numbers.by_ref().take(2 * layout.pages).collect();
        let places = places.as_chunks().0.iter().map(|[group, index]| PagePlace {
            group: *group as usize,
            index: *index as usize,
        });
        Ok(Self {
            tokens,
            places: places.collect(),
            sums: numbers.take(layout.pages).collect(),
            file,
            layout,
        })
    }

    /// Bytes of a page.
    pub(super) fn page_bytes(&self) -> usize {
        self.layout.page
    }

    /// Reads a page and verifies its checksum.
    pub(super) fn page(&self, index: usize) -> Result<Vec<u8>, Refusal> {
        let mut bytes = vec![0; self.layout.page];
        self.file.read_at(self.layout.offset(index), &mut bytes)?;
        if self.sums.get(index) != Some(&crc32fast::hash(&bytes)) {
            return Err(Refusal::Page(index));
        }
        Ok(bytes)
    }

    /// Updates the time of last use.
    pub(super) fn touch(&mut self) {
        // Without it, this file is evicted earlier than necessary.
        let _ = self.file.touch();
    }
}

/// A number of a place. No context has as many pages as would not fit.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The number in the first four bytes.
fn number(bytes: &[u8]) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[..4]);
    u32::from_le_bytes(four)
}
