//! The sampling that a model's files recommend, as far as the sampler supports it.

use crate::model::checkpoint::{Recommended, Setting};
use crate::sampler::{Parameters, Partial};

/// Returns the supported values, and a text for each setting that is ignored.
pub(crate) fn sampling(recommended: &Recommended) -> (Partial, Vec<String>) {
    let mut unused = recommended.unused.clone();
    let mut number = |setting: &Option<Setting>, [least, most]: [f32; 2]| {
        let Setting { key, number } = setting.as_ref()?;
        #[allow(clippy::cast_possible_truncation)] // the sampler computes in f32
        let value = *number as f32;
        let is_allowed = (least..=most).contains(&value);
        if !is_allowed {
            unused.push(format!(
                "{key} = {number}: it must be from {least} to {most}"
            ));
        }
        is_allowed.then_some(value)
    };
    let partial = Partial {
        temperature: number(&recommended.temperature, Parameters::TEMPERATURE),
        top_k: None,
        top_p: number(&recommended.top_p, Parameters::TOP_P),
        min_p: number(&recommended.min_p, Parameters::MIN_P),
        repetition_penalty: number(
            &recommended.repetition_penalty,
            Parameters::REPETITION_PENALTY,
        ),
    };
    let top_k = recommended
        .top_k
        .as_ref()
        .and_then(|Setting { key, number }| {
            let is_allowed = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(number);
            if !is_allowed {
                unused.push(format!(
                    "{key} = {number}: it must be a whole number from 0"
                ));
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // in range
            is_allowed.then_some(*number as u32)
        });
    (Partial { top_k, ..partial }, unused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_settings_are_ignored_and_reported() {
        let set = |key, number| Some(Setting { key, number });
        let good = Recommended {
            temperature: set("temperature", 0.6),
            top_k: set("top_k", 20.0),
            top_p: set("top_p", 1.0),
            min_p: set("min_p", 0.0),
            repetition_penalty: set("repetition_penalty", 0.1),
            unused: vec!["num_beams = 4: not supported".into()],
        };
        let (partial, unused) = sampling(&good);
        let expected = Partial {
            temperature: Some(0.6),
            top_k: Some(20),
            top_p: Some(1.0),
            min_p: Some(0.0),
            repetition_penalty: Some(0.1),
        };
        assert_eq!((partial, unused.len()), (expected, 1));
        let bad = Recommended {
            temperature: set("temperature", 3.0),
            top_k: set("top_k", -1.0),
            top_p: set("top_p", f64::NAN),
            min_p: set("min_p", -0.5),
            repetition_penalty: set("repetition_penalty", 0.0),
            unused: Vec::new(),
        };
        let (partial, unused) = sampling(&bad);
        assert_eq!(partial, Partial::default());
        assert_eq!(unused.len(), 5, "{unused:?}");
        assert!(unused[0].starts_with("temperature = 3: it must be from 0 to 2"));
    }
}
