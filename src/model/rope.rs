//! The angles of rotary position embeddings (Su et al. 2021, arXiv:2104.09864), in float32 and in the
//! order of operations of Hugging Face transformers.

/// How positions turn: the base, and the scaling if there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rope {
    pub(super) theta: f64,
    pub(super) scaling: Option<Llama3Scaling>,
}

/// The scaling that Llama 3.1 introduced: long wavelengths are slowed by `factor`, short ones kept, and
/// those between blended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Llama3Scaling {
    pub(super) factor: f64,
    pub(super) low_freq_factor: f64,
    pub(super) high_freq_factor: f64,
    pub(super) original_context: f64,
}

impl Rope {
    /// (`head_dim` / 2): radians per position, `theta^(-2i / head_dim)`, scaled.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // float32 is the reference
    pub(super) fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        (0..head_dim / 2)
            .map(|pair| 1.0 / (self.theta as f32).powf((2 * pair) as f32 / head_dim as f32))
            .map(|frequency| match &self.scaling {
                Some(scaling) => scaling.apply(frequency),
                None => frequency,
            })
            .collect()
    }
}

impl Llama3Scaling {
    /// The frequency that takes the place of `frequency`. Divisions by it are products with its
    /// reciprocal, as in the reference.
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
