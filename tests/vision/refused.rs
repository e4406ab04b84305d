//! Images that are refused before they cost anything, and what the caller reads.

use ganglion::vision::{Color, ColorRange, Format, ImageError, Limits, Source};

use super::files::{kind, segments};
use super::{decode, png, read};

/// Returns the message of a file that is refused without being decoded.
fn refused(bytes: &[u8]) -> String {
    let source = Source {
        bytes,
        ..Source::default()
    };
    source
        .open(&Limits::default())
        .expect_err("it is refused")
        .to_string()
}

/// Returns the header of a PNG file, and the start of its pixels.
fn png_of(width: u32, height: u32) -> Vec<u8> {
    let mut file = png(1, 1, &[0; 3], &[]);
    file[16..20].copy_from_slice(&width.to_be_bytes());
    file[20..24].copy_from_slice(&height.to_be_bytes());
    file
}

#[test]
fn an_image_of_too_many_pixels_is_refused_by_its_header() {
    assert_eq!(
        refused(&png_of(60_000, 60_000)),
        "the image has 60000 x 60000 pixels, and at most 16777216 are allowed; scale it down, or raise vision.max_pixels"
    );
    let mut jpeg = read("files/420.jpg");
    let frame = segments(&jpeg)
        .into_iter()
        .find(|(marker, _)| *marker == 0xc0)
        .unwrap()
        .1
        .start;
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xff; 4]);
    assert!(refused(&jpeg).starts_with("the image has 65535 x 65535 pixels, and at most"));
    let mut webp = read("files/lossless.webp");
    // Width and height less one, of 14 bits each.
    webp[21..24].copy_from_slice(&[0xff; 3]);
    webp[24] |= 0x0f;
    assert!(refused(&webp).starts_with("the image has 16384 x 16384 pixels, and at most"));
    let raw = Source {
        bytes: &[0; 3],
        format: Format::Rgb24,
        width: Some(70_000),
        height: Some(70_000),
        ..Source::default()
    };
    let limits = Limits::of_pixels(1000);
    let error = raw.open(&limits).unwrap_err();
    assert_eq!(
        error,
        ImageError::TooManyPixels {
            width: 70_000,
            height: 70_000,
            limit: 1000
        }
    );
    let thin = png_of(100_000, 1);
    assert_eq!(
        refused(&thin),
        "the image has 100000 x 1 pixels; each side must have 1 to 65535"
    );
    assert_eq!(
        refused(&png_of(0, 5)),
        "the image has 0 x 5 pixels; each side must have 1 to 65535"
    );
}

#[test]
fn an_image_of_too_many_bytes_is_refused() {
    let bytes = vec![0; 1_048_577];
    let source = Source {
        bytes: &bytes,
        ..Source::default()
    };
    let error = source.open(&Limits::of_pixels(1000)).unwrap_err();
    assert_eq!(
        error,
        ImageError::TooManyBytes {
            bytes: 1_048_577,
            limit: 1_048_576
        }
    );
    assert_eq!(
        refused(&[]),
        "the image has no bytes; send a whole file or frame, and write a memfd before you send it"
    );
}

#[test]
fn animations_are_refused() {
    for name in ["files/animated.png", "files/animated.webp"] {
        let message = refused(&read(name));
        let format = kind(name);
        assert_eq!(
            message,
            format!("the {format} file is animated; send one frame of it as a still image")
        );
    }
}

#[test]
fn a_jpeg_file_without_end_is_refused() {
    let file = read("files/progressive.jpg");
    let parts = segments(&file);
    let (_, scan) = parts.last().unwrap();
    let end = file[scan.end..]
        .windows(2)
        .position(|two| two[0] == 0xff && two[1] != 0 && two[1] < 0xd0);
    let scan = &file[scan.start..scan.end + end.unwrap()];
    let header = &file[..parts.last().unwrap().1.start];
    let scans = [header, &scan.repeat(33), &[0xff, 0xd9]].concat();
    assert_eq!(
        refused(&scans),
        "the jpeg file has more than 32 scans; save it again"
    );
    let comments = [&file[..2], &[0xff, 0xfe, 0, 2].repeat(5000), &file[2..]].concat();
    assert_eq!(
        refused(&comments),
        "the jpeg file has more than 4096 segments; save it again"
    );
    let (_, table) = parts.iter().find(|(marker, _)| *marker == 0xc4).unwrap();
    let tables = [&file[..2], &file[table.clone()].repeat(4000), &file[2..]].concat();
    assert_eq!(
        refused(&tables),
        "the jpeg file has more than 65536 bytes of tables; save it again"
    );
    let pixels = [&file[..file.len() - 2], &vec![0; 100_000]].concat();
    assert_eq!(
        refused(&pixels),
        format!(
            "the jpeg file ends too early, after {} bytes; send all of it",
            pixels.len()
        )
    );
    // A sequential file has as many scans as components at most.
    let file = read("files/420.jpg");
    let start = segments(&file).pop().unwrap().1.start;
    let scans = [
        &file[..start],
        &file[start..file.len() - 2].repeat(4),
        &[0xff, 0xd9],
    ]
    .concat();
    assert_eq!(
        refused(&scans),
        "the jpeg file has more than 3 scans; save it again"
    );
}

#[test]
fn rare_kinds_of_jpeg_are_refused_by_name() {
    let file = read("files/420.jpg");
    let frame = segments(&file)
        .into_iter()
        .find(|(marker, _)| *marker == 0xc0)
        .unwrap()
        .1
        .start;
    for (marker, kind) in [
        (0xc3, "lossless"),
        (0xc9, "arithmetic"),
        (0xc5, "hierarchical"),
    ] {
        let mut file = file.clone();
        file[frame + 1] = marker;
        let wanted = format!(
            "{kind} coding in a jpeg file is not supported; save the image as a plain JPEG or PNG file"
        );
        assert_eq!(refused(&file), wanted);
    }
}

#[test]
fn a_webp_frame_of_another_size_is_refused() {
    let mut file = read("files/lossy_alpha.webp");
    let at = file
        .windows(3)
        .position(|three| three == [0x9d, 0x01, 0x2a])
        .unwrap()
        + 3;
    file[at..at + 4].copy_from_slice(&[0xff, 0x3f, 0xff, 0x3f]);
    let wanted =
        "the webp file is damaged: its image has another size than its header says; save it again";
    assert_eq!(refused(&file), wanted);
}

/// Bits, the lowest of each byte first.
#[derive(Default)]
struct Bits(Vec<u8>, usize);

impl Bits {
    fn put(&mut self, number: u32, count: u32) {
        for bit in 0..count {
            if self.1.is_multiple_of(8) {
                self.0.push(0);
            }
            let byte = self.0.last_mut().unwrap();
            *byte |= u8::from(number >> bit & 1 != 0) << (self.1 % 8);
            self.1 += 1;
        }
    }

    /// Puts a code of one symbol.
    fn single(&mut self, symbol: u32) {
        self.put(0b101, 3);
        self.put(symbol, 8);
    }

    /// Puts a code whose symbols have the lengths 1 to 9, 10 and 10, so that its table has 1,024 entries.
    fn large(&mut self) {
        self.put(0, 1);
        // Lengths for the code of the lengths 1 to 10, of three bits each, in the order of the format: 4 and ten more.
        let order = [17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10];
        self.put(10, 4);
        let lengths = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        // Ten symbols: six of three bits, and four of four.
        let bits = |length: &u32| if *length <= 6 { 3 } else { 4 };
        for symbol in order {
            self.put(
                if lengths.contains(&symbol) {
                    bits(&symbol)
                } else {
                    0
                },
                3,
            );
        }
        // Eleven lengths follow: 2 and nine more.
        self.put(1, 1);
        self.put(1, 3);
        self.put(9, 4);
        for length in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10] {
            let (code, count) = if length <= 6 {
                (length - 1, 3)
            } else {
                (12 + length - 7, 4)
            };
            // Codes are written from their highest bit.
            for bit in (0..count).rev() {
                self.put(code >> bit & 1, 1);
            }
        }
    }
}

/// Returns a lossless file of 16 x 16 pixels with this number of groups of five large codes.
fn webp_of_tables(groups: u32) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(0x2f, 8);
    bits.put(15, 14);
    bits.put(15, 14);
    // No alpha, version 0; no transform, no colour cache; several groups, in blocks of 4 x 4 pixels.
    bits.put(0, 4);
    bits.put(0, 2);
    bits.put(1, 1);
    bits.put(0, 3);
    // The number of the last group in red and green, as the only symbols of the codes.
    let last = groups - 1;
    bits.put(0, 1);
    for symbol in [last & 0xff, last >> 8, 0, 0, 0] {
        bits.single(symbol);
    }
    for _ in 0..groups * 5 {
        bits.large();
    }
    // One bit a channel: the first symbol.
    bits.put(0, 16);
    bits.0.resize(bits.0.len() + 16 * 16, 0);
    bits.0.resize(bits.0.len().next_multiple_of(2), 0);
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_le_bytes();
    let chunk = [b"VP8L", &length(bits.0.len())[..], &bits.0].concat();
    [b"RIFF", &length(chunk.len() + 4)[..], b"WEBP", &chunk].concat()
}

#[test]
fn a_webp_file_of_huge_tables_is_refused() {
    let few = decode(&webp_of_tables(40)).unwrap();
    assert_eq!(few.width(), 16);
    let many = webp_of_tables(65_536);
    let error = decode(&many).unwrap_err();
    let wanted = "the webp file is damaged: its tables need more than 32 MiB; save it again";
    assert_eq!(error.to_string(), wanted);
}

const COLOR: Option<Color> = Some(Color::Bt709);
const RANGE: Option<ColorRange> = Some(ColorRange::Limited);

/// 4 x 2 pixels.
const RGB: Source<'_> = Source {
    bytes: &[0; 24],
    format: Format::Rgb24,
    width: Some(4),
    height: Some(2),
    stride: None,
    color: None,
    range: None,
};
const NV12: Source<'_> = Source {
    bytes: &[0; 12],
    format: Format::Nv12,
    color: COLOR,
    range: RANGE,
    ..RGB
};

fn check<const N: usize>(cases: [(Source<'_>, &str); N]) {
    for (source, wanted) in cases {
        assert_eq!(
            source.open(&Limits::default()).unwrap_err().to_string(),
            wanted
        );
    }
}

#[test]
fn raw_pixels_have_the_fields_of_their_format() {
    for good in [RGB, NV12] {
        good.open(&Limits::default()).unwrap();
    }
    check([
        (
            Source { width: None, ..RGB },
            "an image of format rgb24 needs `width`; add it",
        ),
        (
            Source {
                height: None,
                ..RGB
            },
            "an image of format rgb24 needs `height`; add it",
        ),
        (
            Source {
                color: COLOR,
                ..RGB
            },
            "an image of format rgb24 has no `color`; leave it out",
        ),
        (
            Source {
                range: RANGE,
                ..RGB
            },
            "an image of format rgb24 has no `range`; leave it out",
        ),
        (
            Source {
                color: None,
                ..NV12
            },
            "an image of format nv12 needs `color`; add it",
        ),
        (
            Source {
                range: None,
                ..NV12
            },
            "an image of format nv12 needs `range`; add it",
        ),
    ]);
}

#[test]
fn raw_pixels_fill_their_bytes() {
    let longest = "the image has 24 bytes, and 4 x 2 pixels of rgb24 with stride 4294967295 need 4294967307; \
                   send the whole frame, or correct width, height, stride or format";
    let short = "the image has 23 bytes, and 4 x 2 pixels of rgb24 with stride 12 need 24; send the whole frame, \
                 or correct width, height, stride or format";
    let long = "the image has 5000 bytes, and 4 x 2 pixels of rgb24 with stride 12 need only 24; correct width, \
                height, stride or format";
    check([
        (
            Source {
                stride: Some(11),
                ..RGB
            },
            "stride = 11: a row of 4 pixels of rgb24 has 12 bytes or more",
        ),
        (
            Source {
                stride: Some(3),
                ..NV12
            },
            "stride = 3: a row of 4 pixels of nv12 has 4 bytes or more",
        ),
        (
            Source {
                stride: Some(u32::MAX),
                ..RGB
            },
            longest,
        ),
        (
            Source {
                bytes: &[0; 23],
                ..RGB
            },
            short,
        ),
        (
            Source {
                bytes: &[0; 5000],
                ..RGB
            },
            long,
        ),
    ]);
}

#[test]
fn a_file_has_its_own_fields_and_format() {
    let file = read("files/420.jpg");
    let jpeg = Source {
        bytes: &file,
        ..Source::default()
    };
    let other = "the image is no png file: it starts with ff d8 ff e0 00 10 4a 46; use format = \"auto\", or name its format";
    let unknown = "the image starts with 47 49 46 38 39 61, and is no JPEG, PNG or WebP file; name the format of raw \
                   pixels: rgb24, bgr24, gray8, nv12, yuyv";
    check([
        (
            Source {
                width: Some(37),
                ..jpeg
            },
            "an image of format jpeg has no `width`; leave it out",
        ),
        (
            Source {
                format: Format::Png,
                ..jpeg
            },
            other,
        ),
        (
            Source {
                bytes: b"GIF89a",
                ..jpeg
            },
            unknown,
        ),
    ]);
}
