//! Constrained answers: they fit their constraint whatever else runs, and unsupported constraints are refused at once.

mod decimals;
pub(crate) mod hostile;
mod hot_answers;
mod lenient;
mod numbers;
mod schemas;
mod suite;

use std::time::Duration;

use ganglion::engine::{
    Client, Event, FinishReason, Handle, Likelihood, Message, Options, Outcome, Refusal, Role,
    Ticket,
};
use ganglion::guide::{Grammar, GrammarError, Grammars, Guide, Limits, Next, Thoughts};
use ganglion::sampler::{Mask, Parameters};
use serde_json::Value;

use crate::support::tiny_gguf;
use crate::text;
use crate::together::Engine;

/// Schemas of robot programs: repetitions are bounded.
const SCHEMAS: &[&str] = &[
    r#"{"type": "object", "properties": {"action": {"enum": ["go", "stop", "turn left"]}, "metres": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["action"], "additionalProperties": false}"#,
    r#"{"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}"#,
    r##"{"$defs": {"point": {"type": "array", "items": {"type": "integer", "minimum": -9, "maximum": 9}, "minItems": 2, "maxItems": 2}}, "type": "object", "properties": {"from": {"$ref": "#/$defs/point"}, "to": {"$ref": "#/$defs/point"}}, "required": ["from", "to"], "additionalProperties": false}"##,
    r#"{"type": "string", "maxLength": 8}"#,
    r#"{"anyOf": [{"const": "done"}, {"type": "object", "properties": {"say": {"type": "string", "pattern": "^[a-z ]{0,12}$"}}, "required": ["say"], "additionalProperties": false}]}"#,
];

/// Sampling parameters that choose almost any token.
pub(crate) fn hot(seed: u64) -> Parameters {
    Parameters {
        temperature: 1.5,
        seed,
        ..Parameters::default()
    }
}

pub(crate) fn options(grammar: Grammar, seed: u64) -> Options {
    Options {
        grammar: Some(grammar),
        ..Options::new(120, hot(seed))
    }
}

async fn ask(engine: &Handle, user: u32, options: Options) -> Result<(String, Outcome), Refusal> {
    let client = Client {
        name: format!(":1.{user}").into(),
        user,
    };
    let question = Message::new(Role::User, "hello a robot");
    let ticket = engine.generate(client, vec![question], options).await?;
    let (text, _, outcome) = hear(ticket).await;
    Ok((text, outcome))
}

async fn hear(mut ticket: Ticket) -> (String, Vec<Likelihood>, Outcome) {
    let (mut text, mut likelihoods) = (String::new(), Vec::new());
    loop {
        match ticket.events.recv().await.expect("it ends") {
            Event::Text(more) => text += &more,
            Event::Likelihood(likelihood) => likelihoods.push(likelihood),
            Event::Reasoning(_) | Event::Call(_) => panic!("it was not requested"),
            Event::Done(outcome) => return (text, likelihoods, outcome),
        }
    }
}

fn fits(grammar: &Grammar, text: &str) -> bool {
    let json = || serde_json::from_str::<Value>(text).ok();
    match grammar {
        Grammar::JsonSchema(schema) => {
            let schema = serde_json::from_str(schema).expect("it is JSON");
            json().is_some_and(|json| jsonschema::is_valid(&schema, &json))
        }
        Grammar::Json => json().is_some_and(|json| json.is_object()),
        Grammar::Choice(texts) => texts.iter().any(|choice| choice == text),
        Grammar::Regex(_) => text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit()),
        Grammar::LenientSchema(_) | Grammar::Tools { .. } => {
            unreachable!("nothing here is lenient")
        }
        Grammar::Lark(_) => text.split("->").all(|part| ["go", "stop"].contains(&part)),
    }
}

fn grammars() -> Vec<Grammar> {
    let schemas = SCHEMAS
        .iter()
        .map(|text| Grammar::JsonSchema((*text).into()));
    let choices = ["yes", "no", "yes \"and\" no", "hello"].map(String::from);
    let others = [
        Grammar::Choice(choices.into()),
        Grammar::Regex("[0-9]{4}".into()),
        Grammar::Lark(r#"start: step ("->" step){0,3}\nstep: "go" | "stop""#.replace("\\n", "\n")),
    ];
    schemas.chain(others).collect()
}

/// Answers at a high temperature of a model with random weights, eight together and each alone.
#[tokio::test(flavor = "multi_thread")]
async fn answers_fit_their_constraint_and_are_the_same_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let together = Engine::start(folder.path(), 8, 8).await;
    let alone = Engine::start(folder.path(), 1, 1).await;
    let mut whole = 0;
    for grammar in grammars() {
        let mut asked = Vec::new();
        for seed in 0..16 {
            let (engine, options) = (together.handle.clone(), options(grammar.clone(), seed));
            let user = u32::try_from(seed).expect("it is small");
            asked.push(tokio::spawn(
                async move { ask(&engine, user, options).await },
            ));
        }
        for (seed, asked) in (0..).zip(asked) {
            let (text, outcome) = asked.await.expect("it ends").expect("it is accepted");
            assert_eq!(outcome.error, None, "{grammar:?}");
            let (lonely, _) = ask(&alone.handle, 7, options(grammar.clone(), seed))
                .await
                .expect("it is accepted");
            assert_eq!(text, lonely, "{grammar:?} with seed {seed}");
            if outcome.reason == FinishReason::Stop {
                assert!(fits(&grammar, &text), "{grammar:?}: {text:?}");
                whole += 1;
            } else {
                assert_eq!(outcome.reason, FinishReason::Length);
            }
        }
    }
    assert!(whole > 100, "{whole} answers came to their end");
}

/// The reported probabilities are the model's alone, whatever selected the token.
#[tokio::test(flavor = "multi_thread")]
async fn reported_probabilities_change_no_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let engine = Engine::start(folder.path(), 4, 4).await;
    for grammar in [None, Some(Grammar::JsonSchema(SCHEMAS[2].into()))] {
        let mut options = options(Grammar::Json, 3);
        options.grammar = grammar;
        options.max_tokens = 30;
        let (plain, _) = ask(&engine.handle, 1, options.clone())
            .await
            .expect("it is accepted");
        options.sampling.logprobs = Some(3);
        let ticket = engine.handle.generate(
            Client {
                name: ":1.1".into(),
                user: 1,
            },
            vec![Message::new(Role::User, "hello a robot")],
            options,
        );
        let (text, likelihoods, outcome) = hear(ticket.await.expect("it is accepted")).await;
        assert_eq!(text, plain);
        let tokens = outcome.usage.completion_tokens as usize;
        assert!(likelihoods.len() + 1 >= tokens && likelihoods.len() <= tokens);
        for likelihood in &likelihoods {
            let best = &likelihood.best;
            assert_eq!(best.len(), 3);
            assert!(best.is_sorted_by(|a, b| a.logprob >= b.logprob), "{best:?}");
            assert!(likelihood.logprob <= best[0].logprob && best[0].logprob <= 0.0);
        }
        assert!(likelihoods.iter().any(|one| one.token != one.best[0].token));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_constraint_is_refused_with_its_option() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let engine = Engine::start(folder.path(), 2, 2).await;
    let wrong = [
        (Grammar::JsonSchema("{".into()), "json_schema"),
        (
            Grammar::JsonSchema(r#"{"type": "robot"}"#.into()),
            "json_schema",
        ),
        (
            Grammar::JsonSchema(r#"{"type": "array", "uniqueItems": true}"#.into()),
            "json_schema",
        ),
        (Grammar::Regex("(".into()), "regex"),
        (Grammar::Lark("start: missing".into()), "grammar"),
        (Grammar::Regex("a".repeat(300_000)), "regex"),
    ];
    for (grammar, option) in wrong {
        let refused = ask(&engine.handle, 1, options(grammar, 0)).await;
        let Err(Refusal::InvalidGrammar(error)) = &refused else {
            panic!("{refused:?}");
        };
        println!("{error}");
        let named = match error {
            GrammarError::Wrong { option, .. } | GrammarError::TooLong { option, .. } => option,
            GrammarError::TooDeep { .. }
            | GrammarError::TooWide { .. }
            | GrammarError::NoVocabulary
            | GrammarError::TooLarge { .. }
            | GrammarError::Stopped { .. }
            | GrammarError::NoProcess { .. }
            | GrammarError::Unwanted => panic!("{error}"),
        };
        assert_eq!(*named, option);
        assert!(error.to_string().len() < 2_000, "{error}");
    }
    let no_json = Grammar::JsonSchema("an object, please".into());
    let refused = ask(&engine.handle, 1, options(no_json, 0)).await;
    let refused = refused.expect_err("it is not JSON").to_string();
    assert!(refused.contains("it is not JSON: "), "{refused}");
    for (schema, pointer) in [
        (
            r#"{"type": "object", "properties": {"a": {}, "b/c": {"items": {"contains": {}}}}}"#,
            "/properties/b~1c/items/contains",
        ),
        (
            r##"{"$defs": {"x": {"anyOf": [{"type": "null"}, {"type": "robot"}]}}, "items": {"$ref": "#/$defs/x"}}"##,
            "/$defs/x/anyOf/1/type",
        ),
    ] {
        let grammar = Grammar::JsonSchema(schema.into());
        let refused = ask(&engine.handle, 1, options(grammar, 0)).await;
        let why = refused.expect_err("it is wrong").to_string();
        assert!(why.contains(&format!("at {pointer:?}; change it")), "{why}");
    }
    // A refused request takes no place.
    tokio::time::timeout(Duration::from_secs(60), engine.handle.idle())
        .await
        .expect("no request is left");
}

/// Returns what may come next as a mask; `None` at the end of the answer.
fn next_mask(guide: &mut Guide, vocabulary: usize) -> Option<Mask> {
    match guide.follows().expect("it goes on") {
        Next::Allowed(mask) => Some(mask),
        Next::Forced(tokens) => Some(Mask::only(tokens[0], vocabulary)),
        Next::Nothing | Next::Anything => None,
    }
}

/// The masks after guesses are those that the answer meets later, and wrong guesses change nothing.
#[test]
fn masks_after_guesses_are_those_that_the_answer_meets() {
    let language = text::load(text::qwen3_style());
    let words = language.words();
    let vocabulary = words.count() as usize;
    let grammars_of_words = Grammars::new(words.clone());
    let mut random = fastrand::Rng::with_seed(29);
    let (mut right, mut forced) = (0, 0);
    for grammar in grammars().into_iter().chain([Grammar::Json]) {
        let guide = || {
            let guide = grammars_of_words.guide(&grammar, Limits::USUAL, &[], Thoughts::NONE);
            guide.expect("it is compiled")
        };
        for _ in 0..6 {
            let (mut tokens, mut masks, mut alone) = (Vec::new(), Vec::new(), guide());
            while let Some(mask) = next_mask(&mut alone, vocabulary) {
                let ends = words.ends();
                let may = (0..words.count()).filter(|one| mask.allows(*one) && !ends.contains(one));
                let may: Vec<_> = may.collect();
                // What follows the last token is known, too.
                masks.push(mask);
                let Some(token) = random.choice(&may).filter(|_| tokens.len() < 60) else {
                    break;
                };
                tokens.push(*token);
                alone.take(*token);
            }
            let (mut other, mut at) = (guide(), 0);
            while at < tokens.len() {
                // The guesses may be requested before the mask is known.
                if random.bool() {
                    assert_eq!(next_mask(&mut other, vocabulary).as_ref(), Some(&masks[at]));
                }
                let count = random.usize(0..8).min(tokens.len() - at);
                let mut guesses = tokens[at..at + count].to_vec();
                assert_eq!(other.plausible(&guesses), count, "{grammar:?}");
                let wrong = random.usize(0..12);
                if let Some(one) = guesses.get_mut(wrong) {
                    *one = random.u32(0..words.count());
                }
                let promised = other.guess(&guesses).expect("it has masks");
                for (index, promise) in promised.iter().enumerate().take(wrong) {
                    let later = masks.get(at + index + 1);
                    assert_eq!(promise.wait(), later, "{grammar:?}, {guesses:?}");
                    right += 1;
                    forced += usize::from(later.is_some_and(one_token));
                }
                // Neither the mask nor what follows several tokens has changed.
                assert_eq!(next_mask(&mut other, vocabulary).as_ref(), Some(&masks[at]));
                let taken = random.usize(1..=count.max(1)).min(tokens.len() - at);
                other.take_all(&tokens[at..at + taken]);
                at += taken;
            }
            assert_eq!(next_mask(&mut other, vocabulary).as_ref(), masks.get(at));
        }
    }
    assert!(right > 300 && forced > 50, "{right}, {forced} forced");
}

/// The masks of a long text are computed to its end: each of its nodes counts once.
#[test]
fn masks_after_guesses_of_a_long_text_do_not_end() {
    let language = text::load(text::qwen3_style());
    let words = language.words();
    let grammars_of_words = Grammars::new(words.clone());
    let schema = r#"{"type": "string", "minLength": 600, "maxLength": 700}"#;
    let grammar = Grammar::JsonSchema(schema.into());
    let guide = || {
        let guide = grammars_of_words.guide(&grammar, Limits::USUAL, &[], Thoughts::NONE);
        guide.expect("it is compiled")
    };
    let mut random = fastrand::Rng::with_seed(31);
    let (mut alone, mut tokens) = (guide(), Vec::new());
    while tokens.len() < 300
        && let Some(mask) = next_mask(&mut alone, words.count() as usize)
    {
        let may = (0..words.count()).filter(|one| mask.allows(*one) && !words.ends().contains(one));
        let may: Vec<_> = may.collect();
        let token = *random.choice(&may).expect("one is allowed");
        alone.take(token);
        tokens.push(token);
    }
    let mut other = guide();
    let (mut kept, mut all) = (0, 0);
    for next in tokens.chunks(4) {
        let _ = other.follows().expect("it goes on");
        let promised = other.guess(next).expect("it has masks");
        kept += promised.iter().filter(|mask| mask.wait().is_some()).count();
        all += next.len();
        other.take_all(next);
    }
    assert!(all > 100 && kept + 4 > all, "{kept} of {all}");
}

/// Whether a mask allows one token.
fn one_token(mask: &Mask) -> bool {
    mask.words()
        .iter()
        .map(|word| word.count_ones())
        .sum::<u32>()
        == 1
}

/// A grammar accepts only its own bytes, whatever the model's tokenizer composes, marks or puts before a text.
#[test]
fn text_that_a_tokenizer_composes_stays_unchanged() {
    let composing = text::load(text::qwen3_style());
    let marking = text::load(text::sentencepiece::sentence_piece(true));
    let texts = [
        (&composing, "e\u{301}te\u{301}"),
        (&composing, "5 \u{2126}"),
        (&marking, "{\"a\": \"the  ☃ here\\n\"}"),
        (&marking, " ▁ \u{1}"),
    ];
    for (language, said) in texts {
        let words = language.words();
        let grammars = Grammars::new(words.clone());
        let grammar = Grammar::Choice(vec![said.into()]);
        let guide = grammars.guide(&grammar, Limits::USUAL, &[], Thoughts::NONE);
        let (mut guide, mut bytes) = (guide.expect("it is compiled"), Vec::new());
        loop {
            let tokens = match guide.follows().expect("it goes on") {
                Next::Forced(tokens) => tokens,
                Next::Allowed(mask) => (0..words.count())
                    .find(|token| mask.allows(*token))
                    .into_iter()
                    .collect(),
                Next::Nothing | Next::Anything => break,
            };
            if tokens.iter().any(|token| words.ends().contains(token)) {
                break;
            }
            for token in tokens {
                bytes.extend_from_slice(words.bytes(token));
                guide.take(token);
            }
        }
        assert_eq!(String::from_utf8(bytes).as_deref(), Ok(said));
    }
}
