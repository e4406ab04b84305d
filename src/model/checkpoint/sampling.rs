//! Reads the sampling that a model's files recommend: `general.sampling.*` of a GGUF file as in llama.cpp, or
//! `generation_config.json` as in transformers. The values are not checked here.

use serde_json::{Map, Value};

use crate::model::error::Defect;

/// A file's recommendation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recommended {
    pub temperature: Option<Setting>,
    pub top_k: Option<Setting>,
    pub top_p: Option<Setting>,
    pub min_p: Option<Setting>,
    pub repetition_penalty: Option<Setting>,
    /// Settings that are unsupported or not numbers, each with the reason.
    pub unused: Vec<String>,
}

/// A number, and the file's name for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub key: &'static str,
    pub number: f64,
}

/// Unsupported settings of a GGUF file that change the choice, unless they have this value.
const OTHERS_OF_GGUF: [(&str, f64); 2] = [
    ("general.sampling.xtc_probability", 0.0),
    ("general.sampling.mirostat", 0.0),
];

/// Unsupported settings of generation_config.json, unless they have this value.
const OTHERS_OF_CONFIG: [(&str, f64); 7] = [
    ("num_beams", 1.0),
    ("typical_p", 1.0),
    ("epsilon_cutoff", 0.0),
    ("eta_cutoff", 0.0),
    ("no_repeat_ngram_size", 0.0),
    ("penalty_alpha", 0.0),
    ("top_h", 0.0),
];

/// The defaults of transformers if `do_sample` is true.
const OF_TRANSFORMERS: [(&str, f64); 2] = [("temperature", 1.0), ("top_k", 50.0)];

/// The number of tokens that llama.cpp applies a penalty to by default.
const LAST: i64 = 64;

/// Reads the keys of a GGUF file. `get` returns a number; its error shows a value that is not a number.
pub(super) fn of_gguf(get: impl Fn(&str) -> Option<Result<f64, String>>) -> Recommended {
    let mut read = Reading::new(get);
    let whole = |setting: Setting| Setting {
        // llama.cpp truncates fractions, and a number below 1 keeps all tokens.
        number: setting.number.trunc().max(0.0),
        ..setting
    };
    let greedy = |setting: Setting| Setting {
        number: setting.number.max(0.0),
        ..setting
    };
    let last = read.number("general.sampling.penalty_last_n");
    #[allow(clippy::cast_possible_truncation)] // llama.cpp cuts a fraction off
    let last = last.map_or(LAST, |setting| setting.number as i64);
    let penalty = read.number("general.sampling.penalty_repeat");
    if ![0, LAST].contains(&last) && penalty.is_some() {
        read.unused.push(format!(
            "general.sampling.penalty_last_n = {last}: a penalty applies to the last {LAST} tokens"
        ));
    }
    let mut recommended = Recommended {
        temperature: read.number("general.sampling.temp").map(greedy),
        top_k: read.number("general.sampling.top_k").map(whole),
        top_p: read.number("general.sampling.top_p"),
        min_p: read.number("general.sampling.min_p"),
        // A penalty of no tokens has no effect.
        repetition_penalty: penalty.filter(|_| last != 0),
        unused: Vec::new(),
    };
    read.others(&OTHERS_OF_GGUF);
    recommended.unused = read.unused;
    recommended
}

/// Reads the text of a generation_config.json.
///
/// # Errors
/// If it is not a JSON object.
pub(super) fn of_generation_config(text: &str) -> Result<Recommended, Defect> {
    let config: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| Defect::Malformed(error.to_string()))?;
    let mut read = Reading::new(|key: &str| match config.get(key)? {
        Value::Null => None,
        value => Some(value.as_f64().ok_or_else(|| value.to_string())),
    });
    let mut recommended = Recommended {
        temperature: read.number("temperature"),
        top_k: read.number("top_k"),
        top_p: read.number("top_p"),
        min_p: read.number("min_p"),
        repetition_penalty: read.number("repetition_penalty"),
        unused: Vec::new(),
    };
    read.others(&OTHERS_OF_CONFIG);
    recommended.unused = read.unused;
    match config.get("do_sample") {
        Some(Value::Bool(true)) => {
            let [temperature, top_k] = OF_TRANSFORMERS.map(|(key, number)| Setting { key, number });
            recommended.temperature.get_or_insert(temperature);
            recommended.top_k.get_or_insert(top_k);
        }
        // transformers is greedy by default, even if the file has a temperature.
        None | Some(Value::Null | Value::Bool(false)) => {
            let number = 0.0;
            let key = "do_sample";
            recommended.temperature = Some(Setting { key, number });
        }
        Some(other) => {
            let other = format!("do_sample = {other}: it must be true or false");
            recommended.unused.push(other);
        }
    }
    Ok(recommended)
}

/// Numbers of a file by their keys, and the unusable settings found so far.
struct Reading<G> {
    get: G,
    unused: Vec<String>,
}

impl<G: Fn(&str) -> Option<Result<f64, String>>> Reading<G> {
    fn new(get: G) -> Self {
        Self {
            get,
            unused: Vec::new(),
        }
    }

    fn number(&mut self, key: &'static str) -> Option<Setting> {
        match (self.get)(key)? {
            Ok(number) => Some(Setting { key, number }),
            Err(shown) => {
                self.unused
                    .push(format!("{key} = {shown}: it must be a number"));
                None
            }
        }
    }

    /// Records settings that differ from their value without an effect.
    fn others(&mut self, others: &[(&'static str, f64)]) {
        for (key, neutral) in others {
            let value = self.number(key);
            if let Some(Setting { number, .. }) =
                value.filter(|value| value.number.total_cmp(neutral).is_ne())
            {
                self.unused.push(format!("{key} = {number}: not supported"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(read: &Recommended) -> [Option<f64>; 5] {
        let Recommended {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            ..
        } = read;
        [temperature, top_k, top_p, min_p, repetition_penalty]
            .map(|setting| setting.as_ref().map(|setting| setting.number))
    }

    #[test]
    fn a_generation_config_is_read_as_transformers_reads_it() {
        for (text, expected) in [
            ("{}", [Some(0.0), None, None, None, None]),
            (
                r#"{"eos_token_id": 2, "do_sample": null}"#,
                [Some(0.0), None, None, None, None],
            ),
            (
                r#"{"do_sample": true, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.05}"#,
                [Some(0.7), Some(20.0), Some(0.8), None, Some(1.05)],
            ),
            (
                r#"{"do_sample": true}"#,
                [Some(1.0), Some(50.0), None, None, None],
            ),
            (
                r#"{"do_sample": false, "temperature": 0.7, "min_p": 0.1}"#,
                [Some(0.0), None, None, Some(0.1), None],
            ),
            (
                r#"{"temperature": 0.6, "top_p": null}"#,
                [Some(0.0), None, None, None, None],
            ),
        ] {
            let read = of_generation_config(text).expect("an object");
            assert_eq!(numbers(&read), expected, "{text}");
            assert!(read.unused.is_empty(), "{read:?}");
        }
        let odd = r#"{"do_sample": 1, "top_p": "0.9", "num_beams": 4, "typical_p": 1.0}"#;
        let read = of_generation_config(odd).expect("an object");
        assert_eq!(numbers(&read), [None; 5]);
        let unused = read.unused.join("; ");
        for part in ["top_p = \"0.9\"", "num_beams = 4", "do_sample = 1"] {
            assert!(unused.contains(part), "{unused}");
        }
        assert_eq!(read.unused.len(), 3, "{unused}");
        assert!(of_generation_config("[]").is_err());
    }

    #[test]
    fn keys_of_a_gguf_file_are_read_as_llama_cpp_reads_them() {
        let read = |keys: &[(&str, f64)]| {
            of_gguf(|key| {
                let (_, number) = keys.iter().find(|(of, _)| *of == key)?;
                Some(Ok(*number))
            })
        };
        assert_eq!(read(&[]), Recommended::default());
        let all = read(&[
            ("general.sampling.temp", 0.6),
            ("general.sampling.top_k", 20.9),
            ("general.sampling.top_p", 0.95),
            ("general.sampling.min_p", 0.01),
            ("general.sampling.penalty_repeat", 1.1),
            ("general.sampling.mirostat", 2.0),
        ]);
        let expected = [Some(0.6), Some(20.0), Some(0.95), Some(0.01), Some(1.1)];
        assert_eq!(numbers(&all), expected);
        assert_eq!(all.unused, ["general.sampling.mirostat = 2: not supported"]);
        // Negative values mean 0; a penalty of no tokens means none.
        let off = read(&[
            ("general.sampling.temp", -1.0),
            ("general.sampling.top_k", -1.0),
            ("general.sampling.penalty_repeat", 1.1),
            ("general.sampling.penalty_last_n", 0.0),
        ]);
        assert_eq!(numbers(&off), [Some(0.0), Some(0.0), None, None, None]);
        let last = read(&[
            ("general.sampling.penalty_repeat", 1.1),
            ("general.sampling.penalty_last_n", -1.0),
        ]);
        assert_eq!(numbers(&last)[4], Some(1.1));
        assert_eq!(last.unused.len(), 1, "{last:?}");
    }
}
