//! The common name of the format of a model's weights.

use crate::model::weights::{Tensor, Weights};

/// `general.file_type` of GGUF files by llama.cpp's numbers, and the names in published files.
const FILE_TYPES: [(usize, &str); 22] = [
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (7, "Q8_0"),
    (8, "Q5_0"),
    (9, "Q5_1"),
    (10, "Q2_K"),
    (11, "Q3_K_S"),
    (12, "Q3_K_M"),
    (13, "Q3_K_L"),
    (14, "Q4_K_S"),
    (15, "Q4_K_M"),
    (16, "Q5_K_S"),
    (17, "Q5_K_M"),
    (18, "Q6_K"),
    (21, "Q2_K_S"),
    (23, "IQ3_XXS"),
    (25, "IQ4_NL"),
    (26, "IQ3_S"),
    (30, "IQ4_XS"),
    (32, "BF16"),
];

/// Returns the name of the file's type if a weight has its format, or else that of the format of most bytes.
pub(super) fn name(weights: &Weights<Tensor>, file_type: Option<usize>) -> String {
    let mut bytes: Vec<(String, usize)> = Vec::new();
    let _ = weights.try_map(|tensor| {
        // Vectors are F32 in any file.
        if tensor.rows > 1 {
            let format = format!("{:?}", tensor.format);
            match bytes.iter_mut().find(|(name, _)| *name == format) {
                Some((_, all)) => *all += tensor.bytes(),
                None => bytes.push((format, tensor.bytes())),
            }
        }
        Ok::<_, std::convert::Infallible>(())
    });
    let mut types = FILE_TYPES.iter();
    let named = types.find(|(number, _)| Some(*number) == file_type);
    let is_there = |name: &str| bytes.iter().any(|(format, _)| name.starts_with(format));
    match named {
        Some((_, name)) if is_there(name) => (*name).to_owned(),
        _ => {
            let most = bytes.into_iter().max_by_key(|(_, all)| *all);
            most.map(|(name, _)| name).unwrap_or_default()
        }
    }
}
