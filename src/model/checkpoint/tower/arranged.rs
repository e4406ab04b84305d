//! Matrices of a tower whose elements have another order in the file than in the tower.

use crate::model::error::Defect;
use crate::model::weights::Tensor;
use crate::quant::Format;

/// A tensor of a tower as it is computed with, and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct TowerTensor {
    /// Name, dimensions and format in the tower. Only `Arrangement::Stored` can be read at its place.
    pub tensor: Tensor,
    pub(super) arrangement: Arrangement,
}

/// How a tensor follows from the file's.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Arrangement {
    /// As it is stored.
    Stored,
    /// The rows are the columns of the file's.
    Transposed(Tensor),
    /// A row is (y, x, channel), and (channel, y, x) in the file.
    ChannelsLast { stored: Tensor, channels: usize },
    /// The sum of the kernels of two pictures, in f32: each its own tensor (channel, y, x).
    TwoFrames([Tensor; 2]),
    /// The same with one tensor, whose rows are (channel, picture, y, x).
    FramesWithin { stored: Tensor, channels: usize },
}

impl TowerTensor {
    pub(super) fn stored(tensor: Tensor) -> Self {
        Self {
            tensor,
            arrangement: Arrangement::Stored,
        }
    }

    /// Returns a matrix whose rows are the columns of `stored`.
    pub(super) fn transposed(stored: Tensor) -> Result<Self, Defect> {
        let stored = whole_elements(stored)?;
        Ok(Self {
            tensor: Tensor {
                rows: stored.columns,
                columns: stored.rows,
                ..stored.clone()
            },
            arrangement: Arrangement::Transposed(stored),
        })
    }

    /// Returns a matrix with the channels of a pixel next to each other.
    pub(super) fn channels_last(stored: Tensor, channels: usize) -> Result<Self, Defect> {
        let stored = whole_elements(stored)?;
        Ok(Self {
            tensor: stored.clone(),
            arrangement: Arrangement::ChannelsLast { stored, channels },
        })
    }

    /// Returns the sum of the kernels of two pictures.
    pub(super) fn two_frames(frames: [Tensor; 2]) -> Result<Self, Defect> {
        let [first, second] = frames;
        let frames = [whole_elements(first)?, whole_elements(second)?];
        Ok(Self {
            tensor: Tensor {
                format: Format::F32,
                ..frames[0].clone()
            },
            arrangement: Arrangement::TwoFrames(frames),
        })
    }

    /// Returns the sum of the kernels of two pictures in one tensor.
    pub(super) fn frames_within(stored: Tensor, channels: usize) -> Result<Self, Defect> {
        let stored = whole_elements(stored)?;
        Ok(Self {
            tensor: Tensor {
                columns: stored.columns / 2,
                format: Format::F32,
                ..stored.clone()
            },
            arrangement: Arrangement::FramesWithin { stored, channels },
        })
    }

    /// Computes the bytes of the tensor in its format from those of the file's tensors.
    pub(super) fn arrange(&self, stored: &[Vec<u8>]) -> Vec<u8> {
        let Tensor { rows, columns, .. } = self.tensor;
        let size = self.tensor.format.row_bytes(1);
        let of = |bytes: &[Vec<u8>]| bytes.first().cloned().unwrap_or_default();
        match &self.arrangement {
            Arrangement::Stored => of(stored),
            Arrangement::Transposed(_) => {
                let from = of(stored);
                let mut out = Vec::with_capacity(from.len());
                for row in 0..rows {
                    for column in 0..columns {
                        let at = (column * rows + row) * size;
                        out.extend_from_slice(&from[at..at + size]);
                    }
                }
                out
            }
            Arrangement::ChannelsLast { channels, .. } => {
                let from = of(stored);
                let pixels = columns / channels;
                let mut out = Vec::with_capacity(from.len());
                for row in from.chunks_exact(columns * size) {
                    for pixel in 0..pixels {
                        for channel in 0..*channels {
                            let at = (channel * pixels + pixel) * size;
                            out.extend_from_slice(&row[at..at + size]);
                        }
                    }
                }
                out
            }
            Arrangement::TwoFrames(frames) => {
                let values = frames.iter().zip(stored);
                let values = values.map(|(tensor, bytes)| numbers(tensor, bytes));
                let sums = values.reduce(|mut sums, values| {
                    sums.iter_mut().zip(values).for_each(|(sum, x)| *sum += x);
                    sums
                });
                bytes(sums.unwrap_or_default())
            }
            Arrangement::FramesWithin {
                stored: tensor,
                channels,
            } => {
                let values = numbers(tensor, &of(stored));
                let pixels = columns / channels;
                let of_channels = values.chunks_exact(2 * pixels);
                let sums = of_channels.flat_map(|frames| {
                    let (first, second) = frames.split_at(pixels);
                    first.iter().zip(second).map(|(a, b)| a + b)
                });
                bytes(sums.collect())
            }
        }
    }

    /// The file's tensors that the tensor follows from.
    pub(super) fn sources(&self) -> Vec<&Tensor> {
        match &self.arrangement {
            Arrangement::Stored => vec![&self.tensor],
            Arrangement::Transposed(stored)
            | Arrangement::ChannelsLast { stored, .. }
            | Arrangement::FramesWithin { stored, .. } => vec![stored],
            Arrangement::TwoFrames(frames) => frames.iter().collect(),
        }
    }
}

/// Returns a tensor whose elements can be moved by themselves.
fn whole_elements(tensor: Tensor) -> Result<Tensor, Defect> {
    if tensor.format.block_len() > 1 {
        let problem = format!(
            "is {:?}, and only F32, F16 and BF16 can be rearranged: take an F16 file of the tower",
            tensor.format
        );
        return Err(Defect::tensor(&tensor.name, problem));
    }
    Ok(tensor)
}

fn numbers(tensor: &Tensor, bytes: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0; bytes.len() / tensor.format.row_bytes(1)];
    tensor.format.dequantize(bytes, &mut values);
    values
}

fn bytes(values: Vec<f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}
