//! The memory of the Huffman tables of a lossless WebP image.
//!
//! A file of a megabyte can ask for a gigabyte of tables. They are counted here before the decoder allocates them: the codes
//! of an image are read, and no pixels. The format: RFC 9649, section 3.

use super::super::error::ImageError;
use super::super::stop::{self, Stop};
use super::webp_chunks::malformed;

/// The most bytes of the tables of an image. Usual images need less than 1 MiB.
pub(super) const MOST_BYTES: u64 = 32 << 20;

/// The symbols of the codes of a pixel: green and lengths, red, blue, alpha, distances.
const ALPHABETS: [usize; 5] = [256 + LENGTHS, 256, 256, 256, 40];
const LENGTHS: usize = 24;

/// Checks that the tables of an image fit into `MOST_BYTES`.
pub(super) fn check(
    bytes: &[u8],
    (width, height): (u32, u32),
    has_header: bool,
    stop: Stop<'_>,
) -> Result<(), ImageError> {
    const HEADER: usize = 5;
    let bytes = if has_header { &bytes[HEADER..] } else { bytes };
    let mut codes = Codes {
        bits: Bits { bytes, at: 0 },
        table_bytes: 0,
        stop,
    };
    codes.image(width, height)
}

struct Codes<'a> {
    bits: Bits<'a>,
    /// Bytes of all tables so far.
    table_bytes: u64,
    stop: Stop<'a>,
}

impl Codes<'_> {
    /// Reads all codes of an image.
    fn image(&mut self, mut width: u32, height: u32) -> Result<(), ImageError> {
        let mut seen = [false; 4];
        while self.bits.flag()? {
            let transform = self.bits.take(2)? as usize;
            if std::mem::replace(&mut seen[transform], true) {
                return Err(malformed("it has a transform twice"));
            }
            match transform {
                0 | 1 => {
                    let bits = self.bits.take(3)? + 2;
                    self.small_image(blocks(width, bits), blocks(height, bits))?;
                }
                2 => {}
                _ => {
                    let colors = self.bits.take(8)? + 1;
                    self.small_image(colors, 1)?;
                    let bits = match colors {
                        ..=2 => 3,
                        3..=4 => 2,
                        5..=16 => 1,
                        _ => 0,
                    };
                    width = blocks(width, bits);
                }
            }
        }
        let cache = self.cache()?;
        let mut groups = 1;
        if self.bits.flag()? {
            let bits = self.bits.take(3)? + 2;
            groups += self.small_image(blocks(width, bits), blocks(height, bits))?;
        }
        for _ in 0..groups {
            stop::check(self.stop)?;
            self.group(cache)?;
        }
        Ok(())
    }

    /// Returns the number of further symbols, for recent colours.
    fn cache(&mut self) -> Result<usize, ImageError> {
        const MOST_BITS: u32 = 11;
        if !self.bits.flag()? {
            return Ok(0);
        }
        match self.bits.take(4)? {
            bits @ 1..=MOST_BITS => Ok(1 << bits),
            _ => Err(malformed("its colour cache has a wrong size")),
        }
    }

    /// Reads an image that belongs to the coding. Returns the largest number that a pixel has in red and green: every pixel
    /// is a literal one, or a copy of one.
    fn small_image(&mut self, width: u32, height: u32) -> Result<u32, ImageError> {
        const ALPHA_CODES: usize = 3;
        let cache = self.cache()?;
        let codes = self.group(cache)?;
        let pixels = u64::from(width) * u64::from(height);
        let (mut done, mut asked, mut largest) = (0, 0, 0);
        while done < pixels {
            if done >= asked {
                const PIXELS: u64 = 4096;
                stop::check(self.stop)?;
                asked = done + PIXELS;
            }
            let [green, others @ .., distance] = &codes;
            let symbol = green.read(&mut self.bits)?;
            match usize::from(symbol) {
                0..256 => {
                    let mut channels = [0; ALPHA_CODES];
                    for (channel, code) in channels.iter_mut().zip(others) {
                        *channel = code.read(&mut self.bits)?;
                    }
                    largest = largest.max(u32::from(channels[0]) << 8 | u32::from(symbol));
                    done += 1;
                }
                length if length < 256 + LENGTHS => {
                    done += u64::from(self.prefixed(symbol - 256)?);
                    let distance = distance.read(&mut self.bits)?;
                    self.prefixed(distance)?;
                }
                _ => done += 1,
            }
        }
        Ok(largest)
    }

    /// Reads a length or a distance after its prefix.
    fn prefixed(&mut self, prefix: u16) -> Result<u32, ImageError> {
        let prefix = u32::from(prefix);
        if prefix < 4 {
            return Ok(prefix + 1);
        }
        let bits = (prefix - 2) >> 1;
        Ok(((2 + (prefix & 1)) << bits) + self.bits.take(bits)? + 1)
    }

    /// Reads the five codes of a pixel, the first with `cache` further symbols.
    fn group(&mut self, cache: usize) -> Result<[Code; 5], ImageError> {
        let mut codes = [const { Code::Single(0) }; 5];
        for (number, code) in codes.iter_mut().enumerate() {
            let symbols = ALPHABETS[number] + if number == 0 { cache } else { 0 };
            *code = self.code(symbols)?;
            self.table_bytes += code.table_bytes();
        }
        if self.table_bytes > MOST_BYTES {
            let mib = MOST_BYTES >> 20;
            return Err(malformed(format!("its tables need more than {mib} MiB")));
        }
        Ok(codes)
    }

    fn code(&mut self, symbols: usize) -> Result<Code, ImageError> {
        /// The order of the lengths of the code of lengths.
        const ORDER: [usize; 19] = [
            17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
        ];
        if self.bits.flag()? {
            let is_pair = self.bits.flag()?;
            let bits = if self.bits.flag()? { 8 } else { 1 };
            let first = self.bits.short(bits)?;
            if !is_pair {
                return Ok(Code::Single(first));
            }
            let second = self.bits.short(8)?;
            return Ok(Code::Pair(first, second));
        }
        let mut lengths = [0; ORDER.len()];
        let count = self.bits.take(4)? as usize + 4;
        for place in &ORDER[..count.min(ORDER.len())] {
            lengths[*place] = self.bits.byte(3)?;
        }
        let code = Code::of(&lengths)?;
        let lengths = self.lengths(&code, symbols)?;
        Code::of(&lengths)
    }

    /// Reads the lengths of a code's symbols, which are coded themselves.
    fn lengths(&mut self, code: &Code, symbols: usize) -> Result<Vec<u8>, ImageError> {
        let mut lengths = Vec::with_capacity(symbols);
        let mut left = symbols;
        if self.bits.flag()? {
            let bits = self.bits.take(3)? * 2 + 2;
            left = self.bits.take(bits)? as usize + 2;
        }
        let mut previous = 8;
        while lengths.len() < symbols && left > 0 {
            left -= 1;
            let (length, count) = match code.read(&mut self.bits)? {
                16 => (previous, self.bits.take(2)? + 3),
                17 => (0, self.bits.take(3)? + 3),
                18 => (0, self.bits.take(7)? + 11),
                length => (u8::try_from(length).unwrap_or(u8::MAX), 1),
            };
            if length != 0 {
                previous = length;
            }
            lengths.extend((0..count).map(|_| length));
        }
        if lengths.len() > symbols {
            return Err(malformed("a code has too many symbols"));
        }
        Ok(lengths)
    }
}

/// The number of blocks of `2^bits` pixels.
fn blocks(side: u32, bits: u32) -> u32 {
    side.div_ceil(1 << bits)
}

/// The most bits of a symbol.
const MOST_BITS: usize = 15;

/// A Huffman code.
enum Code {
    /// One symbol, of no bits.
    Single(u16),
    /// Two symbols, of one bit each.
    Pair(u16, u16),
    /// The number of symbols by length, and the symbols in the order of their codes.
    Many {
        counts: [u16; MOST_BITS + 1],
        symbols: Vec<u16>,
    },
}

impl Code {
    /// Returns the code whose symbols have these lengths. A symbol of length zero does not occur.
    fn of(lengths: &[u8]) -> Result<Self, ImageError> {
        let mut counts = [0_u16; MOST_BITS + 1];
        let mut symbols: Vec<_> = (0_u16..)
            .zip(lengths)
            .filter(|(_, length)| **length > 0)
            .collect();
        if let [(symbol, _)] = symbols[..] {
            return Ok(Self::Single(symbol));
        }
        symbols.sort_by_key(|(_, length)| **length);
        for (_, length) in &symbols {
            let count = counts.get_mut(usize::from(**length));
            *count.ok_or_else(|| malformed("a code is too long"))? += 1;
        }
        let symbols: Vec<_> = symbols.into_iter().map(|(symbol, _)| symbol).collect();
        // Every sequence of bits is the start of a symbol, and of one alone.
        let used = counts
            .iter()
            .enumerate()
            .map(|(length, count)| u32::from(*count) << (MOST_BITS - length));
        if used.sum::<u32>() != 1 << MOST_BITS {
            return Err(malformed("a code is incomplete"));
        }
        Ok(Self::Many { counts, symbols })
    }

    fn read(&self, bits: &mut Bits<'_>) -> Result<u16, ImageError> {
        let (counts, symbols) = match self {
            Self::Single(symbol) => return Ok(*symbol),
            Self::Pair(first, second) => return Ok(if bits.flag()? { *second } else { *first }),
            Self::Many { counts, symbols } => (counts, symbols),
        };
        // Codes of one length are consecutive numbers.
        let (mut code, mut first, mut place) = (0, 0, 0);
        for count in &counts[1..] {
            let count = usize::from(*count);
            code |= usize::from(bits.flag()?);
            if code < first + count {
                return Ok(symbols[place + code - first]);
            }
            place += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        Err(malformed("a code is incomplete"))
    }

    /// Returns the most bytes of the decoder's tables for this code.
    fn table_bytes(&self) -> u64 {
        /// Bytes of a code, of an entry of its table, and of a node behind the table.
        const CODE: u64 = 64;
        const ENTRY: u64 = 4;
        const NODE: u64 = 16;
        /// The table's entries have this many bits at most. Longer symbols have nodes.
        const TABLE_BITS: usize = 10;
        let Self::Many { counts, symbols } = self else {
            return CODE + 3 * NODE;
        };
        let longest = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
        let in_table: u16 = counts[..=TABLE_BITS].iter().sum();
        let with_nodes = symbols.len() - usize::from(in_table);
        // A vector's capacity can be twice its length.
        let nodes = with_nodes as u64 * 2 * 2 * NODE;
        CODE + (ENTRY << longest.min(TABLE_BITS)) + nodes
    }
}

/// Bits, the lowest of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn flag(&mut self) -> Result<bool, ImageError> {
        let byte = self
            .bytes
            .get(self.at / 8)
            .ok_or_else(|| malformed("its pixels end too early"))?;
        let bit = byte >> (self.at % 8) & 1;
        self.at += 1;
        Ok(bit != 0)
    }

    /// Returns a number of up to 31 bits.
    fn take(&mut self, bits: u32) -> Result<u32, ImageError> {
        let mut number = 0;
        for bit in 0..bits {
            number |= u32::from(self.flag()?) << bit;
        }
        Ok(number)
    }

    fn short(&mut self, bits: u32) -> Result<u16, ImageError> {
        Ok(u16::try_from(self.take(bits)?).unwrap_or(u16::MAX))
    }

    fn byte(&mut self, bits: u32) -> Result<u8, ImageError> {
        Ok(u8::try_from(self.take(bits)?).unwrap_or(u8::MAX))
    }
}
