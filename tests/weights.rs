//! Weights as files store them: their values, their order, and the files they come in.

use std::path::Path;
use std::process::Command;

use ganglion::model::Format;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Runs a script of `tests/reference` in the virtual environment that `make deps` prepares.
fn reference(script: &str, arguments: &[&Path]) {
    let python = Path::new(ROOT).join("target/venv/bin/python");
    assert!(
        python.exists(),
        "{} is missing: run `make deps`",
        python.display()
    );
    let script = Path::new(ROOT).join("tests/reference").join(script);
    let status = Command::new(python).arg(&script).args(arguments).status();
    assert!(status.unwrap().success(), "{} failed", script.display());
}

#[test]
fn every_format_dequantizes_bit_for_bit_as_the_python_package_does() {
    let directory = tempfile::tempdir().unwrap();
    reference("dequantize.py", &[directory.path()]);
    let formats = [
        Format::F32,
        Format::F16,
        Format::BF16,
        Format::Q8_0,
        Format::Q4_0,
        Format::Q4_1,
        Format::Q5_0,
        Format::Q5_1,
        Format::Q4_K,
        Format::Q5_K,
        Format::Q6_K,
    ];
    for format in formats {
        let read =
            |kind| std::fs::read(directory.path().join(format!("{format:?}.{kind}"))).unwrap();
        let (blocks, expected) = (read("blocks"), read("values"));
        let expected: Vec<f32> = expected
            .as_chunks()
            .0
            .iter()
            .map(|b| f32::from_le_bytes(*b))
            .collect();
        assert!(expected.len() >= 1 << 16);
        let mut values = vec![0.0; expected.len()];
        format.dequantize(&blocks, &mut values);
        for (index, (value, expected)) in values.iter().zip(&expected).enumerate() {
            assert!(
                value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan(),
                "{format:?} value {index}: {value:e}, the reference has {expected:e}"
            );
        }
    }
}
