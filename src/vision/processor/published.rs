//! Settings from the files that are published with a model: config.json and the processor's.

use serde_json::Value;

use super::super::resize::Filter;
use super::normalization::Normalization;
use super::rule::{Lfm2Vl, Rule};
use super::settings::Settings;
use super::settings_error::SettingsError;

/// The published files, parsed. Models have one file for the processor, or two, or none.
#[derive(Clone, Copy, Debug)]
pub struct Published<'a> {
    /// config.json.
    pub config: &'a Value,
    /// preprocessor_config.json.
    pub preprocessor: Option<&'a Value>,
    /// processor_config.json, which can contain the former.
    pub processor: Option<&'a Value>,
}

const CONFIG: &str = "config.json";
const PROCESSOR: &str = "preprocessor_config.json";
/// Above all values of real models, so that no product of a few of them overflows.
const MOST: u64 = 1 << 24;

impl Published<'_> {
    /// Returns the settings. What the processor's files leave out is as the family's processor has it by default.
    ///
    /// # Errors
    /// Returns an error if the family is unknown, or if a value is of another kind. `Processor::new` checks the numbers.
    pub fn settings(&self) -> Result<Settings, SettingsError> {
        let family = self.config.get("model_type").and_then(Value::as_str);
        let settings = match family {
            Some("qwen3_vl" | "qwen3_vl_moe" | "qwen3_5" | "qwen3_5_moe") => self.qwen(),
            Some("gemma3") => self.gemma3(),
            Some("gemma4") => self.gemma4(),
            Some("smolvlm" | "idefics3") => self.smolvlm(),
            Some("lfm2_vl") => self.lfm2_vl(),
            _ => {
                let value = self.config.get("model_type").cloned().unwrap_or_default();
                let allowed = "images are supported for qwen3_vl, qwen3_5, gemma3, gemma4, smolvlm, idefics3 and lfm2_vl";
                return Err(bad(CONFIG, "model_type", &value, allowed));
            }
        }?;
        Ok(Settings {
            filter: self.filter(settings.filter)?,
            normalization: self.normalization(settings.normalization)?,
            ..settings
        })
    }

    fn qwen(&self) -> Result<Settings, SettingsError> {
        let usual = Settings::qwen();
        let Rule::Qwen {
            min_pixels,
            max_pixels,
        } = usual.rule
        else {
            return Ok(usual);
        };
        // They are numbers of pixels, whatever their names say.
        let pixels = |inner: &str, old: &str, usual: u64| {
            let key = ["size", inner];
            match self.number(&key)? {
                Some(pixels) => Ok(pixels),
                None => Ok(self.number(&[old])?.unwrap_or(usual)),
            }
        };
        let rule = Rule::Qwen {
            min_pixels: pixels("shortest_edge", "min_pixels", min_pixels)?,
            max_pixels: pixels("longest_edge", "max_pixels", max_pixels)?,
        };
        Ok(Settings {
            rule,
            patch: self.side(&["patch_size"], usual.patch)?,
            merge: self.side(&["merge_size"], usual.merge)?,
            repeats: self.side(&["temporal_patch_size"], usual.repeats)?,
            ..usual
        })
    }

    fn gemma3(&self) -> Result<Settings, SettingsError> {
        let usual = Settings::gemma3();
        let side = self.side(&["size", "height"], 896)?;
        if self.flag("do_pan_and_scan", false) {
            let allowed = "it must be false or null";
            return Err(bad(
                PROCESSOR,
                "do_pan_and_scan",
                &Value::Bool(true),
                allowed,
            ));
        }
        let patch = self.vision("patch_size")?;
        let tokens = self
            .config
            .get("mm_tokens_per_image")
            .and_then(Value::as_u64);
        let tokens = tokens
            .and_then(|tokens| u32::try_from(tokens).ok())
            .unwrap_or(256);
        let merge = (side / patch).checked_div(tokens.isqrt()).unwrap_or(0);
        Ok(Settings {
            rule: Rule::Gemma3 { side },
            patch,
            merge,
            ..usual
        })
    }

    fn gemma4(&self) -> Result<Settings, SettingsError> {
        let usual = Settings::gemma4();
        Ok(Settings {
            rule: Rule::Gemma4 {
                tokens: self.side(&["max_soft_tokens"], 280)?,
            },
            patch: self.side(&["patch_size"], usual.patch)?,
            merge: self.side(&["pooling_kernel_size"], usual.merge)?,
            ..usual
        })
    }

    fn smolvlm(&self) -> Result<Settings, SettingsError> {
        let usual = Settings::smolvlm();
        let tile = self.side(&["max_image_size", "longest_edge"], 512)?;
        let longest = self.side(&["size", "longest_edge"], 4 * tile)?;
        // Without tiles, the image has the size of one.
        let longest = if self.flag("do_image_splitting", true) {
            longest
        } else {
            tile
        };
        let merge = self.config.get("scale_factor").and_then(Value::as_u64);
        let merge = merge.and_then(|merge| u32::try_from(merge).ok());
        Ok(Settings {
            rule: Rule::SmolVlm { longest, tile },
            patch: self.vision("patch_size")?,
            merge: merge.unwrap_or(usual.merge),
            ..usual
        })
    }

    fn lfm2_vl(&self) -> Result<Settings, SettingsError> {
        let usual = Settings::lfm2_vl();
        let Rule::Lfm2Vl(numbers) = usual.rule else {
            return Ok(usual);
        };
        let tolerance = self
            .value(&["max_pixels_tolerance"])
            .and_then(Value::as_f64);
        let max_tiles = self.side(&["max_tiles"], numbers.max_tiles)?;
        let rule = Rule::Lfm2Vl(Lfm2Vl {
            min_tokens: self
                .number(&["min_image_tokens"])?
                .unwrap_or(numbers.min_tokens),
            max_tokens: self
                .number(&["max_image_tokens"])?
                .unwrap_or(numbers.max_tokens),
            tolerance: tolerance.unwrap_or(numbers.tolerance),
            tile: self.side(&["tile_size"], numbers.tile)?,
            min_tiles: self.side(&["min_tiles"], numbers.min_tiles)?,
            max_tiles: if self.flag("do_image_splitting", true) {
                max_tiles
            } else {
                0
            },
            has_thumbnail: self.flag("use_thumbnail", numbers.has_thumbnail),
        });
        Ok(Settings {
            rule,
            patch: self.side(&["encoder_patch_size"], usual.patch)?,
            merge: self.side(&["downsample_factor"], usual.merge)?,
            ..usual
        })
    }

    fn filter(&self, usual: Filter) -> Result<Filter, SettingsError> {
        match self.value(&["resample"]) {
            None => Ok(usual),
            Some(value) => match value.as_u64() {
                Some(1) => Ok(Filter::Lanczos3),
                Some(2) => Ok(Filter::Triangle),
                Some(3) => Ok(Filter::Cubic),
                _ => Err(bad(PROCESSOR, "resample", value, "it must be 1, 2 or 3")),
            },
        }
    }

    #[allow(clippy::cast_possible_truncation)] // float32 is the reference
    fn normalization(&self, usual: Normalization) -> Result<Normalization, SettingsError> {
        const SCALE: f64 = 1.0 / 255.0;
        let scale = self.value(&["rescale_factor"]);
        if let Some(scale) =
            scale.filter(|scale| !scale.as_f64().is_some_and(|one| (one - SCALE).abs() < 1e-9))
        {
            return Err(bad(PROCESSOR, "rescale_factor", scale, "it must be 1/255"));
        }
        let is_scaled = usual == Normalization::Scaled;
        if !self.flag("do_normalize", !is_scaled) {
            return Ok(Normalization::Scaled);
        }
        let three = |key: &str| {
            let Some(value) = self.value(&[key]) else {
                return Ok([0.5; 3]);
            };
            let numbers = value
                .as_array()
                .map(|numbers| numbers.iter().filter_map(Value::as_f64));
            let numbers: Vec<_> = numbers
                .into_iter()
                .flatten()
                .map(|number| number as f32)
                .collect();
            let three: Result<[f32; 3], _> = numbers.try_into();
            three.map_err(|_| bad(PROCESSOR, key, value, "it must be three numbers"))
        };
        let (mean, deviation) = (three("image_mean")?, three("image_std")?);
        if deviation.contains(&0.0) {
            let value = self.value(&["image_std"]).cloned().unwrap_or_default();
            return Err(bad(PROCESSOR, "image_std", &value, "it must not be zero"));
        }
        Ok(Normalization::Standardized { mean, deviation })
    }

    /// Returns a value of the processor's files that is not null.
    fn value(&self, path: &[&str]) -> Option<&Value> {
        let inner = self.processor.and_then(|one| one.get("image_processor"));
        let files = [inner, self.preprocessor, self.processor]
            .into_iter()
            .flatten();
        let mut found =
            files.filter_map(|file| path.iter().try_fold(file, |value, key| value.get(key)));
        found.find(|value| !value.is_null())
    }

    fn flag(&self, key: &str, usual: bool) -> bool {
        self.value(&[key]).and_then(Value::as_bool).unwrap_or(usual)
    }

    fn number(&self, path: &[&str]) -> Result<Option<u64>, SettingsError> {
        let Some(value) = self.value(path) else {
            return Ok(None);
        };
        match value.as_u64() {
            Some(number @ 1..=MOST) => Ok(Some(number)),
            _ => Err(bad(
                PROCESSOR,
                &path.join("."),
                value,
                "it must be a number from 1 to 16777216",
            )),
        }
    }

    /// Returns a number that counts pixels of a side, patches or tiles.
    fn side(&self, path: &[&str], usual: u32) -> Result<u32, SettingsError> {
        const LONGEST: u64 = 1 << 13;
        match self.number(path)? {
            None => Ok(usual),
            Some(number) if number > LONGEST => {
                let allowed = "it must be at most 8192";
                Err(bad(PROCESSOR, &path.join("."), &number.into(), allowed))
            }
            Some(number) => Ok(u32::try_from(number).unwrap_or(usual)),
        }
    }

    /// Returns a number of the tower.
    fn vision(&self, key: &str) -> Result<u32, SettingsError> {
        let value = self
            .config
            .get("vision_config")
            .and_then(|tower| tower.get(key));
        let key = format!("vision_config.{key}");
        let value = value.ok_or_else(|| SettingsError::Missing {
            file: CONFIG,
            key: key.clone(),
        })?;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let number = number.filter(|number| (1..=256).contains(number));
        number.ok_or_else(|| bad(CONFIG, &key, value, "it must be a number from 1 to 256"))
    }
}

fn bad(file: &'static str, key: &str, value: &Value, allowed: &'static str) -> SettingsError {
    const SHOWN: usize = 60;
    let (key, value) = (
        key.to_owned(),
        value.to_string().chars().take(SHOWN).collect(),
    );
    SettingsError::BadValue {
        file,
        key,
        value,
        allowed,
    }
}
