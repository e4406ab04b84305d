//! The binary layout of a session's file: a head of 32 bytes, then records, each a head of 32 bytes and its text.
//! Everything is a multiple of 32 bytes, and numbers are little-endian.
//!
//! A disk writes a sector of 512 bytes as a whole or not at all. No head crosses a sector, texts contain no zeros, and
//! they are padded with spaces. A write that a power cut interrupted is therefore a short file or has sectors of zeros;
//! a later change of bytes is neither. Each record also says how many records before it were on the disk. If one of
//! those is incomplete, the file is damaged.

use std::ops::Range;

/// The alignment of heads and texts.
const UNIT: usize = 32;
const SECTOR: usize = 512;
const MAGIC: &[u8; 8] = b"GNGLsess";
/// The version of the file format. A file of another version is refused and stays as it is, so a new version comes with
/// code that reads the older ones.
pub(super) const VERSION: u32 = 1;

/// The place and state after a record, from which the next record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Bytes of the file up to here.
    pub(super) length: u64,
    /// The number of records up to here.
    pub(super) records: u32,
    /// The checksum of the last head, so that a missing record is detected.
    chain: u32,
}

/// Returns the head of a file, and the tail for its first record.
pub(super) fn begin() -> (Vec<u8>, Tail) {
    let mut head = [0; UNIT];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let chain = seal(&mut head);
    let tail = Tail {
        length: UNIT as u64,
        records: 0,
        chain,
    };
    (head.to_vec(), tail)
}

impl Tail {
    /// Encodes a record with this text, which contains no zeros; `synced` records are known to be on the disk. Returns
    /// its bytes and the tail after it; `None` for a text of 4 GiB.
    pub(super) fn record(self, text: &[u8], synced: u32) -> Option<(Vec<u8>, Self)> {
        let mut head = [0; UNIT];
        let fields = [
            u32::try_from(text.len()).ok()?,
            self.records,
            synced,
            self.chain,
            crc32fast::hash(text),
        ];
        for (field, value) in head.chunks_exact_mut(4).zip(fields) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        let chain = seal(&mut head);
        let mut bytes = head.to_vec();
        bytes.extend_from_slice(text);
        bytes.resize(bytes.len().next_multiple_of(UNIT), b' ');
        let next = Self {
            length: self.length + bytes.len() as u64,
            records: self.records + 1,
            chain,
        };
        Some((bytes, next))
    }
}

/// The content of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// The places of the texts of whole records.
    pub(super) texts: Vec<Range<usize>>,
    /// The tail after the last whole record.
    pub(super) tail: Tail,
    pub(super) rest: Rest,
}

/// The bytes after the last whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Nothing,
    /// The remains of unconfirmed writes after a power cut.
    Torn,
    /// From this record on, something else has changed the file.
    Damaged,
}

/// Reasons for not reading a file at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The file does not begin as a session's file.
    Head,
    Version(u32),
}

/// Reads the whole records of a file.
pub(super) fn read(file: &[u8]) -> Result<Read, Unreadable> {
    let head = file.get(..UNIT).ok_or(Unreadable::Head)?;
    let version = number(head, 2);
    if &head[..8] != MAGIC || !is_sealed(head) {
        return Err(Unreadable::Head);
    }
    if version != VERSION {
        return Err(Unreadable::Version(version));
    }
    let mut tail = Tail {
        length: UNIT as u64,
        records: 0,
        chain: number(head, 7),
    };
    let mut texts = Vec::new();
    let mut rest = records(file, &mut tail, &mut texts);
    let whole = texts
        .last()
        .map_or(UNIT, |last| last.end.next_multiple_of(UNIT));
    if rest == Rest::Torn && was_synced(&file[whole..], tail.records) {
        rest = Rest::Damaged;
    }
    Ok(Read { texts, tail, rest })
}

/// Reads records in order up to the first incomplete one.
fn records(file: &[u8], tail: &mut Tail, texts: &mut Vec<Range<usize>>) -> Rest {
    let mut at = UNIT;
    loop {
        let rest = &file[at..];
        if rest.is_empty() {
            return Rest::Nothing;
        }
        let Some(head) = rest.get(..UNIT) else {
            return Rest::Torn;
        };
        if head.iter().all(|byte| *byte == 0) {
            return Rest::Torn;
        }
        let follows = number(head, 1) == tail.records && number(head, 3) == tail.chain;
        if !is_sealed(head) || !follows {
            return Rest::Damaged;
        }
        let text = at + UNIT..at + UNIT + number(head, 0) as usize;
        let end = text.end.next_multiple_of(UNIT);
        let Some(padded) = file.get(text.start..end) else {
            return Rest::Torn;
        };
        if crc32fast::hash(&file[text.clone()]) != number(head, 4)
            || file[text.end..end].iter().any(|byte| *byte != b' ')
        {
            return if lacks_sectors(text.start, padded) {
                Rest::Torn
            } else {
                Rest::Damaged
            };
        }
        texts.push(text);
        *tail = Tail {
            length: end as u64,
            records: tail.records + 1,
            chain: number(head, 7),
        };
        at = end;
    }
}

/// Whether a sector of the bytes was never written.
fn lacks_sectors(start: usize, bytes: &[u8]) -> bool {
    let first = (SECTOR - start % SECTOR).min(bytes.len());
    let (first, others) = bytes.split_at(first);
    let mut sectors = [first].into_iter().chain(others.chunks(SECTOR));
    sectors.any(|part| !part.is_empty() && part.iter().all(|byte| *byte == 0))
}

/// Whether a later record says that this one was on the disk.
fn was_synced(rest: &[u8], record: u32) -> bool {
    let mut heads = rest.chunks_exact(UNIT).skip(1);
    heads.any(|head| {
        // Neither texts nor heads consist of zeros.
        head[20..28] == [0; 8]
            && is_sealed(head)
            && number(head, 1) > record
            && number(head, 2) > record
    })
}

/// Puts the checksum of a head at its end.
fn seal(head: &mut [u8; UNIT]) -> u32 {
    let sum = crc32fast::hash(&head[..UNIT - 4]);
    head[UNIT - 4..].copy_from_slice(&sum.to_le_bytes());
    sum
}

fn is_sealed(head: &[u8]) -> bool {
    crc32fast::hash(&head[..UNIT - 4]) == number(head, 7)
}

/// Returns the number in the four bytes at this index.
fn number(head: &[u8], index: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&head[4 * index..][..4]);
    u32::from_le_bytes(bytes)
}
