//! Pre-tokenizers and merges compared with the Python package `tokenizers`, on random text.

use ganglion::model::Language;
use ganglion::model::checkpoint::{HuggingFaceFiles, LanguageSource};
use serde_json::{Value, json};

use super::{load, python, smollm2};

use crate::support::needs;

/// Deterministic: the same texts in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

const PIECES: [&str; 48] = [
    "the",
    " robot",
    "I'm",
    "We'LL",
    "don't",
    "IT'S",
    "'s",
    " naïve",
    "cafe\u{301}",
    "ﬁ",
    "Ａ",
    " Straße",
    "привет",
    " мир",
    "こんにちは",
    "世界",
    "한국어",
    "שלום",
    "مرحبا",
    "हिन्दी",
    "ไทย",
    "🤖",
    "👩‍🔬",
    "🇩🇪",
    "12345",
    " 67.89",
    "٣٤",
    "Ⅻ",
    "½",
    " ",
    "  ",
    "   \t",
    "\n",
    "\r\n",
    "\n\n ",
    "\u{a0}",
    "\u{3000}",
    "...",
    " ==>",
    "$(x)^~|`",
    "“quote”",
    "—",
    "_under_score",
    "camelCase",
    " HTTPServer",
    "/usr/bin/",
    "://\n",
    "\u{1}",
];

fn texts() -> Vec<String> {
    let mut random = Random(7);
    let mut text = |len| -> String {
        (0..len)
            .map(|_| match random.below(8) {
                0 => char::from_u32(u32::try_from(random.below(0x3000)).unwrap())
                    .unwrap()
                    .to_string(),
                1 => char::from_u32(0x4E00 + u32::try_from(random.below(0x5000)).unwrap())
                    .unwrap()
                    .to_string(),
                _ => random.of(&PIECES).to_owned(),
            })
            .collect()
    };
    (0..300).map(|n| text(1 + n % 40)).collect()
}

#[test]
fn every_pre_tokenizer_gives_the_ids_of_the_python_package() {
    if !(needs::python() && needs::smollm2()) {
        return;
    }
    let texts = texts();
    let directory = tempfile::tempdir().unwrap();
    for pre in [
        "smollm",
        "qwen2",
        "llama-bpe",
        "smaug-bpe",
        "tekken",
        "gpt-2",
        "falcon",
        "deepseek-coder",
        "default",
    ] {
        let mut vocabulary = smollm2();
        vocabulary.pre = Some(pre.into());
        let special: Vec<usize> = (0..vocabulary.tokens.len())
            .filter(|&id| vocabulary.token_types[id] == 3)
            .collect();
        let saved = directory.path().join(format!("{pre}.json"));
        let theirs = python(
            "tokenizer.py",
            &json!({
                "tokens": vocabulary.tokens, "merges": vocabulary.merges, "special": special,
                "pre": pre, "texts": texts, "save": saved,
            }),
        );
        let theirs: Vec<Vec<u32>> = serde_json::from_value(theirs).unwrap();
        let gguf = load(vocabulary);
        let json = Language::load(&LanguageSource::HuggingFace(HuggingFaceFiles {
            tokenizer: saved,
            tokenizer_config: None,
            generation_config: None,
            chat_template: None,
            vocabulary: gguf.vocabulary(),
        }))
        .unwrap();
        for (text, theirs) in texts.iter().zip(&theirs) {
            assert_eq!(
                gguf.encode_plain(text),
                *theirs,
                "{pre} from GGUF: {text:?}"
            );
            assert_eq!(
                json.encode_plain(text),
                *theirs,
                "{pre} from tokenizer.json: {text:?}"
            );
        }
    }
}

/// Added tokens of all flags: white space, tags, words, and one that only a normalized text contains.
fn added() -> Vec<Value> {
    let token = |content: &str, on: &[&str]| {
        let mut token = json!({"content": content, "normalized": false});
        for flag in on {
            token[flag] = true.into();
        }
        token
    };
    vec![
        token("<|user|>", &["special", "rstrip"]),
        token("<|bot|>", &["special", "lstrip"]),
        token("<|end|>", &["special", "lstrip", "rstrip"]),
        token("<mask>", &["special", "lstrip", "single_word"]),
        token("  ", &[]),
        token("    ", &[]),
        token("\t\t", &["normalized"]),
        token("the", &["single_word"]),
        token("theory", &["single_word", "normalized"]),
        token("é", &["normalized"]),
        token("<br>", &["rstrip", "normalized"]),
        token("x\n", &["lstrip"]),
    ]
}

#[test]
fn added_tokens_match_as_in_the_python_package() {
    const ADDED: [&str; 22] = [
        "<|user|>", "<|bot|>", "<|end|>", "<mask>", " ", "  ", "   ", "    ", "\t\t", "\n", "the",
        "theory", " the ", "e\u{301}", "é", "<br>", "x\n", "_", "½", "!", "\u{3000}", "word",
    ];
    if !(needs::python() && needs::smollm2()) {
        return;
    }
    let mut random = Random(11);
    let mut text = |len| -> String {
        let inner: String = (0..len).map(|_| random.of(&ADDED)).collect();
        // A template strips white space at its ends.
        format!("[{inner}]")
    };
    let texts: Vec<String> = (0..120).map(|n| text(1 + n % 25)).collect();
    let directory = tempfile::tempdir().unwrap();
    for pre in ["gpt-2", "qwen2"] {
        let vocabulary = smollm2();
        let saved = directory.path().join(format!("{pre}.json"));
        let theirs = python(
            "tokenizer.py",
            &json!({
                "tokens": vocabulary.tokens, "merges": vocabulary.merges, "special": [], "added": added(),
                "pre": pre, "texts": texts, "save": saved,
            }),
        );
        let theirs: Vec<Vec<u32>> = serde_json::from_value(theirs).unwrap();
        for (text, theirs) in texts.iter().zip(&theirs) {
            let language = Language::load(&LanguageSource::HuggingFace(HuggingFaceFiles {
                tokenizer: saved.clone(),
                tokenizer_config: None,
                generation_config: None,
                chat_template: Some(format!("{{% raw %}}{text}{{% endraw %}}").into()),
                vocabulary: 50_000,
            }))
            .unwrap();
            let prompt = language.prompt(&[], None).unwrap();
            assert_eq!(prompt.tokens, *theirs, "{pre}: {text:?}");
        }
    }
}
