//! The angles of rotary position embeddings (Su et al. 2021, arXiv:2104.09864), in float32 and in the order of
//! operations of Hugging Face transformers.

use super::error::Defect;
use crate::tape::Angles;

/// The frequencies that are allowed.
pub(super) const FREQUENCIES: &str =
    "it must be positive and finite: check the rope base and its scaling";

/// The rotation: its base, and an optional scaling.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rope {
    pub(super) theta: f64,
    /// The number of elements of a head that rotate, from the first; `None` means all.
    pub(super) dims: Option<usize>,
    pub(super) scaling: Option<Scaling>,
}

/// The scaling that extends a model's original context.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scaling {
    /// Divides positions by a factor.
    Linear {
        factor: f64,
    },
    /// Rotates only a part of the pairs, from the first, and divides positions by a factor (Gemma 4). The frequencies
    /// are those of all pairs.
    Proportional {
        part: f64,
        factor: f64,
    },
    Llama3(Llama3),
    Yarn(Yarn),
    Long(LongRope),
}

/// The scaling of Llama 3.1: long wavelengths are slowed by `factor`, short ones kept, and those between blended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Llama3 {
    pub(super) factor: f64,
    pub(super) low_freq_factor: f64,
    pub(super) high_freq_factor: f64,
    pub(super) original_context: f64,
}

/// `YaRN` (Peng et al. 2023, arXiv:2309.00071). Pairs that turn more than `beta_fast` times over the original context
/// are kept. Pairs that turn less than `beta_slow` times are slowed by `factor`, and those between are blended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Yarn {
    pub(super) factor: f64,
    pub(super) original_context: f64,
    pub(super) beta_fast: f64,
    pub(super) beta_slow: f64,
    /// Whether the blend begins and ends at whole pairs.
    pub(super) truncate: bool,
    /// The factor of sines and cosines.
    pub(super) amplitude: f64,
}

/// `LongRoPE` (Ding et al. 2024, arXiv:2402.13753): a divisor of each pair's frequency, in one list up to the original
/// context and in another one beyond it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LongRope {
    /// (pairs) each
    pub(super) short: Vec<f64>,
    pub(super) long: Vec<f64>,
    pub(super) original_context: usize,
    /// The factor of sines and cosines, for both lists.
    pub(super) amplitude: f64,
}

impl Rope {
    /// Returns the angles of a head with `head_dim` elements in radians per position: `theta^(-2i / dims)`, scaled.
    pub(super) fn angles(&self, head_dim: usize) -> Angles {
        self.angles_by(head_dim, |long| &long.short)
    }

    /// Returns the angles of a cache that is longer than a number of positions, if they differ.
    pub(super) fn far_angles(&self, head_dim: usize) -> Option<(usize, Angles)> {
        let Some(Scaling::Long(LongRope {
            original_context, ..
        })) = &self.scaling
        else {
            return None;
        };
        Some((
            *original_context,
            self.angles_by(head_dim, |long| &long.long),
        ))
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )] // float32 is the reference
    fn angles_by(&self, head_dim: usize, divisors: fn(&LongRope) -> &Vec<f64>) -> Angles {
        let dims = self.dims.unwrap_or(head_dim);
        let power = |pair| (self.theta as f32).powf((2 * pair) as f32 / dims as f32);
        let plain = |pair| 1.0 / power(pair);
        let scaled = |pair| match &self.scaling {
            Some(Scaling::Linear { factor }) => plain(pair) / *factor as f32,
            Some(Scaling::Proportional { part, factor }) => {
                if pair < (part * dims as f64 / 2.0) as usize {
                    plain(pair) / *factor as f32
                } else {
                    0.0
                }
            }
            Some(Scaling::Llama3(scaling)) => scaling.apply(plain(pair)),
            Some(Scaling::Yarn(scaling)) => scaling.apply(plain(pair), pair, self.theta, dims),
            Some(Scaling::Long(scaling)) => 1.0 / (divisors(scaling)[pair] as f32 * power(pair)),
            None => plain(pair),
        };
        Angles {
            frequencies: (0..dims / 2).map(scaled).collect(),
            amplitude: match &self.scaling {
                Some(Scaling::Yarn(scaling)) => scaling.amplitude as f32,
                Some(Scaling::Long(scaling)) => scaling.amplitude as f32,
                Some(
                    Scaling::Linear { .. } | Scaling::Proportional { .. } | Scaling::Llama3(_),
                )
                | None => 1.0,
            },
        }
    }

    /// Returns the context after `YaRN`'s scaling; 0 without it.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is bounded where a shape is checked
    pub(super) fn scaled_context(&self) -> usize {
        match self.scaling {
            Some(Scaling::Yarn(Yarn {
                factor,
                original_context,
                ..
            })) => (factor * original_context).round() as usize,
            _ => 0,
        }
    }

    /// Checks that the rotation fits heads of `head_dim` elements.
    pub(super) fn check(&self, head_dim: usize) -> Result<(), Defect> {
        let dims = self.dims.unwrap_or(head_dim);
        if !dims.is_multiple_of(2) || dims > head_dim {
            let allowed = format!("it must be even and at most {head_dim}, the head's dimension");
            return Err(Defect::bad_value(
                "rotated elements of a head",
                dims,
                allowed,
            ));
        }
        let Some(Scaling::Long(LongRope { short, long, .. })) = &self.scaling else {
            return self.check_frequencies(head_dim);
        };
        for (key, list) in [("short_factor", short), ("long_factor", long)] {
            if list.len() != dims / 2 {
                let allowed = format!("it must have one for each of {} pairs", dims / 2);
                let found = format!("{} numbers", list.len());
                return Err(Defect::bad_value(key, found, allowed));
            }
        }
        self.check_frequencies(head_dim)
    }

    /// Checks that every pair rotates, unless a part is meant not to.
    fn check_frequencies(&self, head_dim: usize) -> Result<(), Defect> {
        let far = self.far_angles(head_dim).map(|(_, far)| far);
        let tables = std::iter::once(self.angles(head_dim)).chain(far);
        let rotates = |pair: usize| match self.scaling {
            Some(Scaling::Proportional { .. }) => pair == 0,
            _ => true,
        };
        let mut pairs = tables.flat_map(|table| table.frequencies.into_iter().enumerate());
        match pairs
            .find(|(pair, frequency)| rotates(*pair) && (frequency.is_nan() || *frequency <= 0.0))
        {
            Some((_, bad)) => Err(Defect::bad_value("rope frequency", bad, FREQUENCIES)),
            None => Ok(()),
        }
    }
}

impl LongRope {
    /// Returns the factor of sines and cosines of a context that is `ratio` times the original one.
    pub(super) fn growth(ratio: f64, original_context: usize) -> f64 {
        #[allow(clippy::cast_precision_loss)] // contexts are far below 2^52
        let original = original_context as f64;
        if ratio > 1.0 {
            (1.0 + ratio.ln() / original.ln()).sqrt()
        } else {
            1.0
        }
    }
}

impl Llama3 {
    /// Scales a frequency. Divisions by it are products with its reciprocal, as in the reference.
    #[allow(clippy::cast_possible_truncation)] // float32 is the reference
    fn apply(&self, frequency: f32) -> f32 {
        let wavelength = 1.0 / frequency * std::f32::consts::TAU;
        if wavelength < (self.original_context / self.high_freq_factor) as f32 {
            frequency
        } else if wavelength > (self.original_context / self.low_freq_factor) as f32 {
            frequency / self.factor as f32
        } else {
            let smooth = (1.0 / wavelength * self.original_context as f32
                - self.low_freq_factor as f32)
                / (self.high_freq_factor - self.low_freq_factor) as f32;
            (1.0 - smooth) * frequency / self.factor as f32 + smooth * frequency
        }
    }
}

impl Yarn {
    /// Returns the growth of scores of the paper's section 3.4, `0.1 scale ln(factor) + 1`, which applies to q and to
    /// k.
    pub(super) fn growth(factor: f64, scale: f64) -> f64 {
        if factor > 1.0 {
            0.1 * scale * factor.ln() + 1.0
        } else {
            1.0
        }
    }

    /// Scales the frequency of a pair.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // float32 is the reference
    fn apply(&self, frequency: f32, pair: usize, theta: f64, dims: usize) -> f32 {
        let dims = dims as f64;
        // Returns the pair that turns this often over the original context.
        let turns = |times: f64| {
            let per_turn = self.original_context / (times * std::f64::consts::TAU);
            dims * per_turn.ln() / (2.0 * theta.ln())
        };
        let (mut low, mut high) = (turns(self.beta_fast), turns(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, mut high) = (low.max(0.0), high.min(dims - 1.0));
        if high - low == 0.0 {
            high += 0.001;
        }
        let slowed = ((pair as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
        let kept = 1.0 - slowed;
        frequency / self.factor as f32 * (1.0 - kept) + frequency * kept
    }
}
