//! Raw pixels: their channels, rows and colours.

use ganglion::vision::{Color, ColorRange, Format, ImageError, Limits, RgbImage, Source};

const PIXELS: [u8; 18] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19,
];

fn open(source: Source<'_>) -> Result<RgbImage, ImageError> {
    source.open(&Limits::default())?.decode(&|| false)
}

fn of(bytes: &[u8], format: Format, width: u32, height: u32) -> Source<'_> {
    Source {
        bytes,
        format,
        width: Some(width),
        height: Some(height),
        ..Source::default()
    }
}

#[test]
fn channels_and_rows_are_in_their_places() {
    let rgb = open(of(&PIXELS, Format::Rgb24, 3, 2)).unwrap();
    assert_eq!(rgb.bytes(), PIXELS);
    let bgr: Vec<u8> = PIXELS
        .chunks(3)
        .flat_map(|pixel| [pixel[2], pixel[1], pixel[0]])
        .collect();
    assert_eq!(open(of(&bgr, Format::Bgr24, 3, 2)).unwrap(), rgb);
    let grey = open(of(&[5, 6, 7, 8], Format::Gray8, 2, 2)).unwrap();
    assert_eq!(grey.bytes(), [5, 5, 5, 6, 6, 6, 7, 7, 7, 8, 8, 8]);
    // Rows of nine bytes, with a padding of four that the last row may lack.
    let padded = [&PIXELS[..9], &[0xee; 4], &PIXELS[9..]].concat();
    for end in [&[][..], &[0xee; 4]] {
        let padded = [&padded, end].concat();
        let source = Source {
            stride: Some(13),
            ..of(&padded, Format::Rgb24, 3, 2)
        };
        assert_eq!(open(source).unwrap(), rgb);
    }
}

/// The standards' formula, in real numbers.
fn rgb(luma: u8, cb: u8, cr: u8, color: Color, range: ColorRange) -> [f64; 3] {
    let (red, blue) = match color {
        Color::Bt601 => (0.299, 0.114),
        Color::Bt709 => (0.2126, 0.0722),
    };
    let (black, luma_size, chroma_size) = match range {
        ColorRange::Limited => (16.0, 219.0, 224.0),
        ColorRange::Full => (0.0, 255.0, 255.0),
    };
    let y = (f64::from(luma) - black) / luma_size;
    let [b, r] = [cb, cr].map(|chroma| (f64::from(chroma) - 128.0) / chroma_size);
    let (r, b) = (y + 2.0 * (1.0 - red) * r, y + 2.0 * (1.0 - blue) * b);
    let green = (y - red * r - blue * b) / (1.0 - red - blue);
    [r, green, b].map(|channel| (channel * 255.0).clamp(0.0, 255.0))
}

#[test]
fn luma_and_chroma_follow_the_standards() {
    let values = [0, 16, 17, 60, 128, 200, 235, 240, 255];
    for color in [Color::Bt601, Color::Bt709] {
        for range in [ColorRange::Limited, ColorRange::Full] {
            for (cb, cr) in values.iter().flat_map(|cb| values.map(|cr| (*cb, cr))) {
                let given = (Some(color), Some(range));
                let luma: Vec<u8> = values[..8].into();
                // 4 x 2 pixels; two pixels of a row, and two rows, share a pair.
                let nv12 = [&*luma, &[cb, cr, cb, cr]].concat();
                let source = Source {
                    color: given.0,
                    range: given.1,
                    ..of(&nv12, Format::Nv12, 4, 2)
                };
                let nv12 = open(source).unwrap();
                let yuyv: Vec<u8> = luma
                    .chunks(2)
                    .flat_map(|pair| [pair[0], cb, pair[1], cr])
                    .collect();
                let source = Source {
                    color: given.0,
                    range: given.1,
                    ..of(&yuyv, Format::Yuyv, 4, 2)
                };
                assert_eq!(open(source).unwrap(), nv12);
                for (luma, found) in luma.iter().zip(nv12.bytes().chunks(3)) {
                    let wanted = rgb(*luma, cb, cr, color, range);
                    for (found, wanted) in found.iter().zip(wanted) {
                        let difference = (f64::from(*found) - wanted).abs();
                        assert!(
                            difference < 0.51,
                            "{luma} {cb} {cr} {color:?} {range:?}: {found}, not {wanted}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn chroma_is_shared_by_two_pixels_and_two_rows() {
    let (color, range) = (Some(Color::Bt601), Some(ColorRange::Full));
    // 3 x 3 pixels of one luma. Rows have a padding, and sizes are odd.
    let luma = [100, 100, 100, 0, 0].repeat(3);
    let chroma = [128, 128, 128, 255, 0, 128, 255, 128, 128, 0];
    let bytes = [luma, chroma.into()].concat();
    let source = Source {
        stride: Some(5),
        color,
        range,
        ..of(&bytes, Format::Nv12, 3, 3)
    };
    let image = open(source).unwrap();
    let reds: Vec<u8> = image.bytes().iter().copied().step_by(3).collect();
    assert_eq!(reds, [100, 100, 255, 100, 100, 255, 255, 255, 100]);
    let bytes = [100, 128, 100, 255].repeat(2);
    let source = Source {
        color,
        range,
        ..of(&bytes, Format::Yuyv, 1, 2)
    };
    assert_eq!(open(source).unwrap().bytes().len(), 6);
}
