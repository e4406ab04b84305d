//! Images: decoded files, and the patches and prompts of each family, compared with the reference programs
//! (`tests/golden/README.md`); and files that must be refused.

mod damaged;
mod files;
mod processors;
mod raw;
mod refused;
mod settings;
mod upright;

use std::path::PathBuf;

use ganglion::vision::{ImageError, Limits, RgbImage, Source};

/// Returns a path in the references.
fn golden(name: &str) -> PathBuf {
    let root = env!("CARGO_MANIFEST_DIR");
    PathBuf::from(root).join("tests/golden/vision").join(name)
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(golden(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Decodes a file within the usual limits.
fn decode(bytes: &[u8]) -> Result<RgbImage, ImageError> {
    let source = Source {
        bytes,
        ..Source::default()
    };
    let opened = source.open(&Limits::default())?;
    let image = opened.decode(&|| false)?;
    assert_eq!(
        (image.width(), image.height()),
        (opened.width(), opened.height())
    );
    Ok(image)
}

/// Returns a PNG file of 8-bit pixels, with further chunks before them.
fn png(width: u32, height: u32, pixels: &[u8], chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().unwrap();
    for (name, content) in chunks {
        writer
            .write_chunk(png::chunk::ChunkType(**name), content)
            .unwrap();
    }
    writer.write_image_data(pixels).unwrap();
    writer.finish().unwrap();
    file
}
