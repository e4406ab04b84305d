//! From luma and chroma to red, green and blue. Pixels that share a chroma pair all take it as it is.

use super::super::source::{Color, ColorRange};

/// The bits behind the point of a factor.
const BITS: u32 = 16;

/// The factors of a conversion, in units of `2^-BITS`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    /// The luma of black.
    black: i32,
    luma: i32,
    red_of_cr: i32,
    green_of_cb: i32,
    green_of_cr: i32,
    blue_of_cb: i32,
}

impl Matrix {
    #[allow(clippy::cast_possible_truncation)] // factors are below 3
    pub(super) fn new(color: Color, range: ColorRange) -> Self {
        // The shares of red and blue in luma.
        let (red, blue) = match color {
            Color::Bt601 => (0.299, 0.114),
            Color::Bt709 => (0.2126, 0.0722),
        };
        let green = 1.0 - red - blue;
        let (black, luma, chroma) = match range {
            ColorRange::Limited => (16, 255.0 / 219.0, 255.0 / 224.0),
            ColorRange::Full => (0, 1.0, 1.0),
        };
        let fixed = |factor: f64| (factor * f64::from(1 << BITS)).round() as i32;
        let [red_difference, blue_difference] =
            [red, blue].map(|share| 2.0 * (1.0 - share) * chroma);
        Self {
            black,
            luma: fixed(luma),
            red_of_cr: fixed(red_difference),
            green_of_cb: fixed(blue_difference * blue / green),
            green_of_cr: fixed(red_difference * red / green),
            blue_of_cb: fixed(blue_difference),
        }
    }

    /// What a chroma pair adds to red, green and blue, and the half that makes the shift round.
    #[inline]
    fn chroma(&self, cb: u8, cr: u8) -> [i32; 3] {
        const ZERO: i32 = 128;
        const HALF: i32 = 1 << (BITS - 1);
        let (cb, cr) = (i32::from(cb) - ZERO, i32::from(cr) - ZERO);
        [
            HALF + self.red_of_cr * cr,
            HALF - self.green_of_cb * cb - self.green_of_cr * cr,
            HALF + self.blue_of_cb * cb,
        ]
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is clamped
    fn rgb(&self, luma: u8, chroma: [i32; 3]) -> [u8; 3] {
        let grey = (i32::from(luma) - self.black) * self.luma;
        chroma.map(|chroma| ((grey + chroma) >> BITS).clamp(0, 255) as u8)
    }

    /// Converts pixels that share a chroma pair.
    #[inline]
    fn pair(&self, to: &mut [[u8; 3]], luma: [u8; 2], [cb, cr]: [u8; 2]) {
        let chroma = self.chroma(cb, cr);
        for (pixel, luma) in to.iter_mut().zip(luma) {
            *pixel = self.rgb(luma, chroma);
        }
    }

    /// Converts a row of luma, with the row of chroma pairs that it shares with another.
    pub(super) fn nv12(&self, luma: &[u8], chroma: &[u8], to: &mut [[u8; 3]]) {
        let pairs = luma.as_chunks().0.iter().zip(chroma.as_chunks().0);
        for (to, (luma, chroma)) in to.chunks_mut(2).zip(pairs) {
            self.pair(to, *luma, *chroma);
        }
    }

    /// Converts a row of luma, Cb, luma, Cr.
    pub(super) fn yuyv(&self, row: &[u8], to: &mut [[u8; 3]]) {
        for (to, [first, cb, second, cr]) in to.chunks_mut(2).zip(row.as_chunks().0) {
            self.pair(to, [*first, *second], [*cb, *cr]);
        }
    }
}
