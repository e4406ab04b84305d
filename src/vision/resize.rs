//! Resizing as torchvision does it for 8-bit images with antialiasing, to the same bits.
//!
//! Rows are resized first, then columns, with 8 bits between. The result of a pass is a sum of integer weights, so it
//! depends neither on the order of additions nor on the processor. A pass whose size stays the same is left out.
//! Not here: which size an image gets (`processor`).

use super::error::ImageError;
use super::rgb::RgbImage;
use super::stop::{self, Stop};

/// The weight of a pixel by its distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// A triangle: "bilinear", PIL's 2.
    Triangle,
    /// A cubic with a = -0.5: "bicubic", PIL's 3.
    Cubic,
    /// A windowed sinc: "lanczos", PIL's 1.
    Lanczos3,
}

impl Filter {
    /// The distance from which on weights are zero, in pixels of the result or of the image, whichever are larger.
    const fn support(self) -> f64 {
        match self {
            Self::Triangle => 1.0,
            Self::Cubic => 2.0,
            Self::Lanczos3 => 3.0,
        }
    }

    fn weight(self, distance: f64) -> f64 {
        let x = distance.abs();
        match self {
            Self::Triangle if x < 1.0 => 1.0 - x,
            Self::Cubic if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
            Self::Cubic if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
            Self::Lanczos3 if x < 3.0 => sinc(x) * sinc(x / 3.0),
            _ => 0.0,
        }
    }
}

/// The parameter of the cubic.
const A: f64 = -0.5;

fn sinc(x: f64) -> f64 {
    let x = x * std::f64::consts::PI;
    if x == 0.0 { 1.0 } else { x.sin() / x }
}

/// Weights that are multiplied at once: a processor's vector.
const GROUP: usize = 8;

/// The weights of a pass. Those of result `i` are in `groups_of_result` groups from `groups[i * groups_of_result]` on. The
/// first `counts[i]` of them are for the pixels from `starts[i]` on, and the others are zero.
struct Weights {
    starts: Vec<usize>,
    counts: Vec<usize>,
    groups: Vec<[i16; GROUP]>,
    groups_of_result: usize,
    /// Weights are multiples of `2^-precision`.
    precision: u32,
}

/// The bits of a weight, without its sign.
const WEIGHT_BITS: u32 = 15;
const MOST_PRECISION: u32 = 22;

impl Weights {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // sides are far below 2^31, weights below 2^15
    fn new(from: u32, to: u32, filter: Filter) -> Self {
        let scale = f64::from(from) / f64::from(to);
        let stretch = scale.max(1.0);
        let support = filter.support() * stretch;
        let groups_of_result = (support.ceil() as usize * 2 + 1).div_ceil(GROUP);
        let most = groups_of_result * GROUP;
        let (mut starts, mut counts) = (Vec::new(), Vec::new());
        let mut exact = vec![0.0; most * to as usize];
        for (i, weights) in (0..to).zip(exact.chunks_exact_mut(most)) {
            let center = (f64::from(i) + 0.5) * scale;
            // The conversion to an integer rounds towards zero, as in the reference.
            let start = ((center - support + 0.5) as i64).max(0) as u32;
            let end = ((center + support + 0.5) as i64).min(i64::from(from)) as u32;
            let mut sum = 0.0;
            for (pixel, weight) in (start..end).zip(&mut *weights) {
                *weight = filter.weight((f64::from(pixel) - center + 0.5) / stretch);
                sum += *weight;
            }
            if sum != 0.0 {
                weights.iter_mut().for_each(|weight| *weight /= sum);
            }
            starts.push(start as usize);
            counts.push((end - start) as usize);
        }
        let largest = exact.iter().copied().fold(0.0, f64::max);
        let fits = |precision: &u32| {
            let weight = (0.5 + largest * f64::from(1 << precision)) as i64;
            weight < 1 << WEIGHT_BITS
        };
        let precision = (0..=MOST_PRECISION).take_while(fits).last().unwrap_or(0);
        let whole = |weight: f64| {
            let scaled = weight * f64::from(1 << precision);
            (scaled + 0.5_f64.copysign(scaled)) as i16
        };
        Self {
            starts,
            counts,
            groups: exact
                .as_chunks()
                .0
                .iter()
                .map(|group| group.map(whole))
                .collect(),
            groups_of_result,
            precision,
        }
    }

    /// Returns the first pixel of result `i`, and the weights from there on.
    fn of(&self, i: usize) -> (usize, &[i16]) {
        (
            self.starts[i],
            &self.groups_of(i).as_flattened()[..self.counts[i]],
        )
    }

    fn groups_of(&self, i: usize) -> &[[i16; GROUP]] {
        &self.groups[i * self.groups_of_result..][..self.groups_of_result]
    }

    /// The most pixels that a result depends on.
    const fn most(&self) -> usize {
        self.groups_of_result * GROUP
    }

    /// The start of every sum: a half, so that the shift at its end rounds.
    const fn half(&self) -> i32 {
        match self.precision {
            0 => 0,
            precision => 1 << (precision - 1),
        }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is clamped
    fn byte(&self, sum: i32) -> u8 {
        (sum >> self.precision).clamp(0, 255) as u8
    }

    /// Writes result `i` of a pass over columns. `rows` has the rows that it needs.
    fn down(&self, i: usize, rows: &[u8], to: &mut [u8]) {
        /// Bytes of a row at once: their sums stay in registers or close by.
        const LANES: usize = 64;
        let (_, weights) = self.of(i);
        let length = to.len();
        let (blocks, rest) = to.as_chunks_mut::<LANES>();
        for (number, block) in blocks.iter_mut().enumerate() {
            let mut sums = [self.half(); LANES];
            for (row, weight) in rows.chunks_exact(length).zip(weights) {
                let row = &row[number * LANES..][..LANES];
                for (sum, byte) in sums.iter_mut().zip(row) {
                    *sum += i32::from(*weight) * i32::from(*byte);
                }
            }
            *block = sums.map(|sum| self.byte(sum));
        }
        let start = length - rest.len();
        for (column, byte) in (start..).zip(rest) {
            let rows = rows.chunks_exact(length).zip(weights);
            let sum = rows.map(|(row, weight)| i32::from(*weight) * i32::from(row[column]));
            *byte = self.byte(self.half() + sum.sum::<i32>());
        }
    }
}

/// A pass over rows.
struct Across {
    weights: Weights,
    /// The channels of a row, one after another, each with zeros at its end.
    channels: [Vec<i16>; 3],
}

impl Across {
    fn new(weights: Weights) -> Self {
        let channels = Default::default();
        Self { weights, channels }
    }

    fn resize(&mut self, from: &[[u8; 3]], to: &mut [[u8; 3]]) {
        for (number, channel) in self.channels.iter_mut().enumerate() {
            channel.clear();
            channel.extend(from.iter().map(|pixel| i16::from(pixel[number])));
            channel.resize(from.len() + self.weights.most(), 0);
        }
        for (i, result) in to.iter_mut().enumerate() {
            let (start, groups) = (self.weights.starts[i], self.weights.groups_of(i));
            for (byte, channel) in result.iter_mut().zip(&self.channels) {
                let pixels = channel[start..].as_chunks::<GROUP>().0;
                let mut sums = [0; GROUP];
                for (pixels, weights) in pixels.iter().zip(groups) {
                    for ((sum, pixel), weight) in sums.iter_mut().zip(pixels).zip(weights) {
                        *sum += i32::from(*pixel) * i32::from(*weight);
                    }
                }
                *byte = self
                    .weights
                    .byte(self.weights.half() + sums.iter().sum::<i32>());
            }
        }
    }
}

/// Returns the image in another size. Memory beyond the result is a few rows.
///
/// # Errors
/// Returns `Cancelled` soon after `stop` has returned true.
///
/// # Panics
/// Panics if a side is zero.
pub fn resize(
    image: &RgbImage,
    width: u32,
    height: u32,
    filter: Filter,
    stop: Stop<'_>,
) -> Result<RgbImage, ImageError> {
    assert!(width > 0 && height > 0, "an image has pixels");
    let across = (width != image.width()).then(|| Weights::new(image.width(), width, filter));
    let mut across = across.map(Across::new);
    let mut row = |from: u32, to: &mut [u8]| match &mut across {
        Some(across) => across.resize(image.row(from, 0), to.as_chunks_mut().0),
        None => to.copy_from_slice(image.row(from, 0).as_flattened()),
    };
    let length = width as usize * 3;
    let mut bytes = vec![0; RgbImage::bytes_of(width, height)];
    let results = bytes.chunks_exact_mut(length);
    if height == image.height() {
        for (from, to) in (0..).zip(results) {
            stop::check(stop)?;
            row(from, to);
        }
        return Ok(RgbImage::new(width, height, bytes));
    }
    let down = Weights::new(image.height(), height, filter);
    let rows = down.most().min(image.height() as usize);
    let mut window = Window::new(length, rows);
    for (i, to) in results.enumerate() {
        stop::check(stop)?;
        let (start, weights) = down.of(i);
        let rows = window.rows(start, weights.len(), &mut row);
        down.down(i, rows, to);
    }
    Ok(RgbImage::new(width, height, bytes))
}

/// Consecutive rows that are resized across already. Those above the first needed row are dropped now and then.
struct Window {
    bytes: Vec<u8>,
    length: usize,
    /// The row that `bytes` starts with, and the one after its last.
    first: usize,
    next: usize,
    most: usize,
}

impl Window {
    fn new(length: usize, most: usize) -> Self {
        let bytes = Vec::with_capacity(length * most * 2);
        let (first, next) = (0, 0);
        Self {
            bytes,
            length,
            first,
            next,
            most,
        }
    }

    /// Returns `count` rows from `start` on, which `row` writes. `start` must not decrease from call to call.
    fn rows(&mut self, start: usize, count: usize, row: &mut impl FnMut(u32, &mut [u8])) -> &[u8] {
        if start >= self.next {
            self.bytes.clear();
            (self.first, self.next) = (start, start);
        } else if start - self.first >= self.most {
            self.bytes.drain(..(start - self.first) * self.length);
            self.first = start;
        }
        while self.next < start + count {
            let at = self.bytes.len();
            self.bytes.resize(at + self.length, 0);
            let number = u32::try_from(self.next).expect("rows of an image");
            row(number, &mut self.bytes[at..]);
            self.next += 1;
        }
        let from = (start - self.first) * self.length;
        &self.bytes[from..from + count * self.length]
    }
}
