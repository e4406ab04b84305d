//! The orientation of a camera, in all formats that can have one.

use super::files::names;
use super::{decode, png, read};

/// The pixels of a row of two rows of three, as they are shown for each orientation: the figures of the Exif standard.
const SHOWN: [&[&str]; 8] = [
    &["123", "456"],
    &["321", "654"],
    &["654", "321"],
    &["456", "123"],
    &["14", "25", "36"],
    &["41", "52", "63"],
    &["63", "52", "41"],
    &["36", "25", "14"],
];

/// Returns a TIFF header with a directory of two entries.
fn exif(orientation: u16, is_big: bool) -> Vec<u8> {
    let short = |number: u16| {
        if is_big {
            number.to_be_bytes()
        } else {
            number.to_le_bytes()
        }
    };
    let long = |number: u32| {
        if is_big {
            number.to_be_bytes()
        } else {
            number.to_le_bytes()
        }
    };
    let mut bytes = Vec::from(if is_big { *b"MM" } else { *b"II" });
    bytes.extend(short(42));
    bytes.extend(long(8));
    bytes.extend(short(2));
    for (tag, value) in [(0x0100, 3), (0x0112, orientation)] {
        bytes.extend([short(tag), short(3)].concat());
        bytes.extend(long(1));
        bytes.extend([short(value), short(0)].concat());
    }
    bytes.extend(long(0));
    bytes
}

#[test]
fn an_image_is_turned_upright() {
    let pixels: Vec<u8> = (b'1'..=b'6').flat_map(|number| [number; 3]).collect();
    for (orientation, shown) in (1..).zip(SHOWN) {
        for is_big in [true, false] {
            let file = png(3, 2, &pixels, &[(b"eXIf", &exif(orientation, is_big))]);
            let image = decode(&file).unwrap();
            let numbers: String = image
                .bytes()
                .iter()
                .step_by(3)
                .map(|byte| char::from(*byte))
                .collect();
            assert_eq!(numbers, shown.concat(), "{orientation}");
            assert_eq!(image.width() as usize, shown[0].len(), "{orientation}");
        }
    }
}

#[test]
fn a_photograph_is_turned_upright() {
    let file = read("files/444.jpg");
    let stored = decode(&file).unwrap();
    let content = [b"Exif\0\0", &*exif(6, true)].concat();
    let length = u16::try_from(content.len() + 2).unwrap().to_be_bytes();
    let turned = [&file[..2], &[0xff, 0xe1], &length, &content, &file[2..]].concat();
    let image = decode(&turned).unwrap();
    assert_eq!(
        (image.width(), image.height()),
        (stored.height(), stored.width())
    );
    // The first row is the first column, from the bottom up.
    let row = stored.width() as usize * 3;
    let column = stored.bytes().chunks(row).rev().flat_map(|row| &row[..3]);
    assert!(
        image.bytes()[..stored.height() as usize * 3]
            .iter()
            .eq(column)
    );
}

#[test]
fn a_webp_file_is_turned_upright() {
    let file = read("files/lossless_alpha.webp");
    let image = decode(&file).unwrap();
    let content = exif(3, false);
    let chunk = |name: &[u8], content: &[u8]| {
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        let padding = vec![0; content.len() % 2];
        [name, &length, content, &padding].concat()
    };
    // Alpha and Exif; then width and height less one.
    let header = [0x18, 0, 0, 0, 36, 0, 0, 25, 0, 0];
    let pixels = &file[12..];
    let chunks = [
        chunk(b"VP8X", &header),
        pixels.to_vec(),
        chunk(b"EXIF", &content),
    ]
    .concat();
    let turned = chunk(b"RIFF", &[b"WEBP", &*chunks].concat());
    let turned = decode(&turned).unwrap();
    let backwards = image.bytes().rchunks(3).flatten();
    assert!(turned.bytes().iter().eq(backwards));
}

#[test]
fn a_wrong_orientation_is_ignored() {
    let upright = png(1, 2, &[1, 1, 1, 2, 2, 2], &[]);
    let upright = decode(&upright).unwrap();
    let full = exif(6, true);
    let mut others: Vec<Vec<u8>> = (0..full.len() - 5)
        .map(|length| full[..length].to_vec())
        .collect();
    others.extend([exif(0, true), exif(9, false), exif(0x0600, true)]);
    // A directory far away.
    others.push([b"MM\0*", &u32::MAX.to_be_bytes()[..]].concat());
    for exif in others {
        let length = exif.len();
        let file = png(1, 2, &[1, 1, 1, 2, 2, 2], &[(b"eXIf", &exif)]);
        let image = decode(&file).unwrap();
        // The value of the last entry decides, so a file that is cut behind it is turned.
        assert!(image == upright || length >= full.len() - 8, "{length}");
    }
    assert!(!names().is_empty());
}
