//! Reads rotary position embeddings from `rope_parameters`, or from the keys of older files.

use serde_json::Value;

use super::computed::{refuse_members, stated};
use crate::model::architecture::{Architecture, Keys as _};
use crate::model::error::Defect;
use crate::model::rope::{Llama3, LongRope, Rope, Scaling, Yarn};

/// The members that are read, and those without an effect.
const MEMBERS: &[&str] = &[
    "rope_theta",
    "rope_type",
    "type",
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
    "max_position_embeddings",
    "partial_rotary_factor",
    "beta_fast",
    "beta_slow",
    "truncate",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "llama_4_scaling_beta",
    "finetuned",
    // They divide a head among the coordinates of images. Those of text are equal.
    "mrope_section",
    "mrope_interleaved",
    "short_factor",
    "long_factor",
];

/// The supported kind of layers, under which `rope_parameters` may be nested.
const LAYERS: &str = "full_attention";
/// Other kinds, which the supported models do not use.
const OTHER_LAYERS: [&str; 3] = ["sliding_attention", "chunked_attention", "linear_attention"];

/// The members of those: their rotation has a base of its own and no scaling.
const OTHER_MEMBERS: &[&str] = &["rope_theta", "rope_type", "type"];

/// The keys of the parameters.
const KEYS: [&str; 2] = ["rope_scaling", "rope_parameters"];

/// The original context if a file with `LongRoPE` does not state it.
const ORIGINAL: usize = 4096;

/// Reads the parameters; `trained` is `max_position_embeddings`.
pub(super) fn read(
    config: &Value,
    architecture: &Architecture,
    trained: usize,
    head_dim: usize,
) -> Result<Rope, Defect> {
    let holds = |key: &&str| {
        let object = config.get(*key).and_then(Value::as_object);
        object.is_some_and(|object| !object.is_empty())
    };
    KEYS.iter().try_for_each(|key| refuse_scaled(key, config))?;
    let key = KEYS.into_iter().find(holds);
    let (key, parameters) = match key {
        Some(key) => of_layers(key, &config[key])?,
        None if architecture.defaults.scaled => {
            return Err(Defect::MissingKey("rope_parameters".into()));
        }
        None => ("rope_parameters".into(), &Value::Null),
    };
    let either = |name| Ok::<_, Defect>(parameters.float(name)?.or(config.float(name)?));
    let part = either("partial_rotary_factor")?;
    let part = part.unwrap_or(architecture.defaults.part);
    #[allow(clippy::float_cmp)] // one is exact
    let part = Some(part).filter(|part| *part != 1.0);
    let kind = |name| parameters.get(name).and_then(Value::as_str);
    let kind = kind("rope_type").or_else(|| kind("type"));
    let is_proportional = kind == Some("proportional");
    let rotates_parts = is_proportional || architecture.own_keys.contains(&"partial_rotary_factor");
    if let Some(factor) = part.filter(|_| !rotates_parts) {
        let allowed = "only 1 is computed";
        return Err(Defect::bad_value("partial_rotary_factor", factor, allowed));
    }
    #[allow(clippy::cast_precision_loss)] // contexts are far below 2^52
    let trained = trained as f64;
    let original = "original_max_position_embeddings";
    let original = config.float(original)?.or(parameters.float(original)?);
    let scaling = match kind {
        // The dynamic kind scales only beyond the supported context.
        None | Some("default" | "dynamic") => None,
        Some("linear") => Some(Scaling::Linear {
            factor: stated(parameters, "factor")?,
        }),
        Some("proportional") => Some(Scaling::Proportional {
            part: part.unwrap_or(1.0),
            factor: parameters.float("factor")?.unwrap_or(1.0),
        }),
        Some("llama3") => Some(Scaling::Llama3(Llama3 {
            factor: stated(parameters, "factor")?,
            low_freq_factor: stated(parameters, "low_freq_factor")?,
            high_freq_factor: stated(parameters, "high_freq_factor")?,
            original_context: original.unwrap_or(trained),
        })),
        Some("yarn") => Some(Scaling::Yarn(yarn(parameters, original, trained)?)),
        Some("longrope" | "su") => Some(Scaling::Long(long(parameters, original, trained)?)),
        Some(other) => {
            let allowed = "only default, linear, dynamic, llama3, yarn, longrope and proportional are computed";
            return Err(Defect::bad_value("rope_type", other, allowed));
        }
    };
    refuse_members(&key, parameters, MEMBERS)?;
    let theta = either("rope_theta")?.unwrap_or(architecture.defaults.theta);
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )] // a part of a head
    let dims = (part.filter(|_| !is_proportional)).map(|part| (part * head_dim as f64) as usize);
    Ok(Rope {
        theta,
        dims,
        scaling,
    })
}

/// Returns the parameters of the supported layers, and their key.
fn of_layers<'a>(key: &str, parameters: &'a Value) -> Result<(String, &'a Value), Defect> {
    let is_nested = |kind: &&str| parameters.get(*kind).is_some();
    if !OTHER_LAYERS.iter().any(is_nested) && !is_nested(&LAYERS) {
        return Ok((key.into(), parameters));
    }
    let all = [&[LAYERS][..], &OTHER_LAYERS].concat();
    refuse_members(key, parameters, &all)?;
    let name = format!("{key}.{LAYERS}");
    match parameters.get(LAYERS).filter(|own| own.is_object()) {
        Some(own) => Ok((name, own)),
        None => Err(Defect::MissingKey(name)),
    }
}

/// Refuses a scaling of the layers of other kinds.
fn refuse_scaled(key: &str, config: &Value) -> Result<(), Defect> {
    for kind in OTHER_LAYERS {
        let (key, own) = (format!("{key}.{kind}"), &config[key][kind]);
        refuse_members(&key, own, OTHER_MEMBERS)?;
        for name in ["rope_type", "type"] {
            let stated = own.get(name).filter(|kind| !kind.is_null());
            if let Some(other) = stated.filter(|kind| *kind != "default") {
                let key = format!("{key}.{name}");
                let other = other.as_str().map_or_else(|| other.to_string(), Into::into);
                return Err(Defect::bad_value(key, other, "only default is computed"));
            }
        }
    }
    Ok(())
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // contexts are far below 2^52
fn long(parameters: &Value, original: Option<f64>, trained: f64) -> Result<LongRope, Defect> {
    let factors = |key: &str| {
        let numbers = parameters.get(key).and_then(Value::as_array);
        let numbers = numbers.and_then(|list| list.iter().map(Value::as_f64).collect());
        numbers.ok_or_else(|| Defect::MissingKey(format!("{key} of the rope scaling")))
    };
    let original = original.unwrap_or(ORIGINAL as f64);
    let ratio = match parameters.float("factor")? {
        Some(factor) => factor,
        None => trained / original,
    };
    let stated = parameters.float("attention_factor")?;
    let original_context = original as usize;
    Ok(LongRope {
        short: factors("short_factor")?,
        long: factors("long_factor")?,
        original_context,
        amplitude: stated.unwrap_or_else(|| LongRope::growth(ratio, original_context)),
    })
}

fn yarn(parameters: &Value, original: Option<f64>, trained: f64) -> Result<Yarn, Defect> {
    let number = |key| parameters.float(key);
    let set = |value: Option<f64>| value.filter(|value| *value != 0.0);
    let factor = match (number("factor")?, original) {
        (Some(factor), _) => factor,
        (None, Some(original)) => trained / original,
        (None, None) => stated(parameters, "factor")?,
    };
    let scales = set(number("mscale")?).zip(set(number("mscale_all_dim")?));
    let amplitude = match (number("attention_factor")?, scales) {
        (Some(factor), _) => factor,
        (None, Some((scale, all))) => Yarn::growth(factor, scale) / Yarn::growth(factor, all),
        (None, None) => Yarn::growth(factor, 1.0),
    };
    let truncate = parameters.get("truncate").and_then(Value::as_bool);
    Ok(Yarn {
        factor,
        original_context: original.unwrap_or(trained),
        beta_fast: set(number("beta_fast")?).unwrap_or(32.0),
        beta_slow: set(number("beta_slow")?).unwrap_or(1.0),
        truncate: truncate.unwrap_or(true),
        amplitude,
    })
}
