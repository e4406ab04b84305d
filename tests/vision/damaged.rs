//! Damaged files are refused or decoded, and never end the program.

use std::cell::Cell;

use ganglion::vision::{Format, ImageError, Limits, Source, is_decoding};

use super::files::{kind, names};
use super::{decode, read};

#[test]
fn a_file_that_ends_early_is_refused() {
    for name in names() {
        let file = read(&format!("files/{name}"));
        // The end of a PNG file has no pixels: checksums, the last chunk, and unused bits.
        let is_png = kind(&name) == "png";
        let needed = if is_png {
            file.len() - 24
        } else {
            file.len() - 1
        };
        for length in 0..=needed {
            let error = decode(&file[..length]).expect_err(&format!("{name}, {length} bytes"));
            let is_short = matches!(
                error,
                ImageError::Truncated { .. } | ImageError::UnknownFormat { .. } | ImageError::Empty
            );
            // The pixels of a PNG file are compressed, and their end can be missed in other ways.
            assert!(is_short || is_png, "{name}, {length} bytes: {error}");
        }
    }
}

#[test]
fn what_follows_an_image_is_ignored() {
    for name in names() {
        let file = read(&format!("files/{name}"));
        let longer = [&file[..], &[0xff, 0xd8, 0, 7, 0x50]].concat();
        assert_eq!(decode(&longer), decode(&file), "{name}");
    }
}

#[test]
fn changed_bytes_are_survived() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut decoded, mut refused) = (0, 0);
    for name in names() {
        let file = read(&format!("files/{name}"));
        for _ in 0..300 {
            let mut changed = file.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(12..file.len());
                match random.u8(0..4) {
                    0 => changed[at] ^= 1 << random.u8(0..8),
                    1 => changed[at] = *random.choice(&[0, 0xff, 0x7f, 0x80]).unwrap(),
                    2 => changed[at..].rotate_left(1),
                    _ => changed[at] = random.u8(..),
                }
            }
            match decode(&changed) {
                Ok(_) => decoded += 1,
                Err(_) => refused += 1,
            }
            assert!(!is_decoding(), "{name}");
        }
    }
    assert!(decoded > 100 && refused > 100, "{decoded} and {refused}");
}

#[test]
fn a_cancelled_image_is_left_at_once() {
    let limits = Limits::default();
    for name in names() {
        let bytes = read(&format!("files/{name}"));
        let opened = Source {
            bytes: &bytes,
            ..Source::default()
        }
        .open(&limits)
        .unwrap();
        assert_eq!(
            opened.decode(&|| true),
            Err(ImageError::Cancelled),
            "{name}"
        );
        // Small files are read in one go, but for rows.
        let asked = Cell::new(0);
        let later = || asked.replace(asked.get() + 1) > 0;
        let result = opened.decode(&later);
        assert!(
            asked.get() > 0 && (result.is_ok() || result == Err(ImageError::Cancelled)),
            "{name}: {result:?}"
        );
    }
    let source = Source {
        bytes: &[0; 30],
        format: Format::Gray8,
        width: Some(3),
        height: Some(10),
        ..Source::default()
    };
    let asked = Cell::new(0);
    let later = || asked.replace(asked.get() + 1) > 4;
    assert_eq!(
        source.open(&limits).unwrap().decode(&later),
        Err(ImageError::Cancelled)
    );
    assert_eq!(asked.get(), 6);
}
