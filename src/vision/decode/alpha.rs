//! Transparent pixels, composed on white as Pillow's `alpha_composite` does it.

/// Returns an opaque channel: `channel` with `alpha` over white.
fn over_white(channel: u8, alpha: u8) -> u8 {
    /// Bits of precision of the weights.
    const BITS: u32 = 7;
    let (channel, alpha) = (u32::from(channel), u32::from(alpha));
    let sum = (channel * alpha + 255 * (255 - alpha)) << BITS;
    let sum = sum + (0x80 << BITS);
    // A division by 255.
    let byte = ((sum >> 8) + sum) >> 8 >> BITS;
    u8::try_from(byte).unwrap_or(u8::MAX)
}

/// Returns opaque pixels of red, green, blue and alpha.
pub(super) fn rgba(bytes: &[u8]) -> Vec<u8> {
    let pixels = bytes.as_chunks().0.iter();
    let pixels = pixels.flat_map(|[red, green, blue, alpha]| {
        [red, green, blue].map(|channel| over_white(*channel, *alpha))
    });
    pixels.collect()
}

/// Returns opaque pixels of grey and alpha.
pub(super) fn grey_alpha(bytes: &[u8]) -> Vec<u8> {
    let pixels = bytes.as_chunks().0.iter();
    let pixels = pixels.flat_map(|[grey, alpha]| [over_white(*grey, *alpha); 3]);
    pixels.collect()
}

/// Returns pixels of grey.
pub(super) fn grey(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|grey| [*grey; 3]).collect()
}
