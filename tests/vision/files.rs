//! Files of all formats, compared with their pixels as Pillow decodes them.

use ganglion::vision::{Format, Limits, Source};

use super::{decode, golden, read};

/// Returns the names of all still files.
pub(crate) fn names() -> Vec<String> {
    let entries = std::fs::read_dir(golden("files")).expect("golden data is in the repository");
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_still = |name: &String| !name.ends_with(".pixels.png") && !name.starts_with("animated");
    let mut names: Vec<_> = names.filter(is_still).collect();
    names.sort();
    assert!(names.len() >= 15, "{names:?}");
    names
}

/// Returns the end of a file's name.
pub(crate) fn kind(name: &str) -> &str {
    name.rsplit('.').next().unwrap()
}

#[test]
fn pixels_are_those_of_pillow() {
    for name in names() {
        let found = decode(&read(&format!("files/{name}")))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let wanted = decode(&read(&format!("files/{name}.pixels.png"))).unwrap();
        assert_eq!((found.width(), found.height()), (37, 26), "{name}");
        let pairs = found.bytes().iter().zip(wanted.bytes());
        let differences: Vec<u32> = pairs
            .map(|(found, wanted)| found.abs_diff(*wanted).into())
            .collect();
        let most = differences.iter().copied().max().unwrap();
        let sum: u32 = differences.iter().sum();
        // JPEG's transform is not defined to the bit. Found: 3 at most, and 0.37 in the mean.
        let is_exact = kind(&name) != "jpg";
        let count = u32::try_from(differences.len()).unwrap();
        let (allowed, sum_allowed) = if is_exact { (0, 0) } else { (4, count / 2) };
        assert!(
            most <= allowed && sum <= sum_allowed,
            "{name}: {most} at most, {sum} in {count} bytes"
        );
    }
}

#[test]
fn a_file_is_recognized_by_its_first_bytes() {
    let limits = Limits::default();
    for name in names() {
        let bytes = read(&format!("files/{name}"));
        let format = match kind(&name) {
            "jpg" => Format::Jpeg,
            "png" => Format::Png,
            _ => Format::WebP,
        };
        for named in [Format::Auto, format] {
            let source = Source {
                bytes: &bytes,
                format: named,
                ..Source::default()
            };
            assert_eq!(
                source.open(&limits).unwrap().source().format,
                format,
                "{name}"
            );
        }
    }
}

/// The segments of a JPEG file up to its pixels, by their places.
pub(crate) fn segments(file: &[u8]) -> Vec<(u8, std::ops::Range<usize>)> {
    let (mut segments, mut at) = (Vec::new(), 2);
    loop {
        let length = usize::from(u16::from_be_bytes([file[at + 2], file[at + 3]]));
        segments.push((file[at + 1], at..at + 2 + length));
        at += 2 + length;
        if segments.last().unwrap().0 == 0xda {
            return segments;
        }
    }
}

#[test]
fn a_frame_of_a_video_without_huffman_tables_is_decoded() {
    let file = read("files/420.jpg");
    let mut short = file.clone();
    for (marker, range) in segments(&file).into_iter().rev() {
        if marker == 0xc4 {
            short.drain(range);
        }
    }
    assert!(short.len() + 400 < file.len(), "the tables are gone");
    assert_eq!(decode(&short), decode(&file));
}

#[test]
fn memory_is_estimated_from_above() {
    for name in names() {
        let bytes = read(&format!("files/{name}"));
        let source = Source {
            bytes: &bytes,
            ..Source::default()
        };
        let memory = source.open(&Limits::default()).unwrap().memory();
        assert!(memory > 37 * 26 * 3, "{name}: {memory}");
    }
}
