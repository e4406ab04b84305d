//! Answers under schemas at a temperature that allows almost any token: each complete answer is valid.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use ganglion::engine::{
    Client, Event, FinishReason, Handle, Message, Options, Outcome, Refusal, Role,
};
use ganglion::guide::Grammar;
use ganglion::sampler::Parameters;
use serde_json::Value;

use super::decimals::as_doubles;
use super::schemas::{Group, is_multiple, judge};

/// As many as an engine has rows.
const AT_ONCE: u32 = 8;
/// Tokens of an answer at first. Long free JSON rarely ends, so there are twice as many only after incomplete answers.
const TOKENS: usize = 12;
const CUT: u64 = 6;
/// Seeds until an answer is complete. The last one may have 384 tokens.
const SEEDS: u64 = 6 * CUT;

/// The results per schema and answer.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) refused: usize,
    pub(crate) accepted: usize,
    pub(crate) answers: usize,
    /// Incomplete answers.
    pub(crate) cut: usize,
    pub(crate) completed: usize,
    /// Complete answers with numbers that no double represents, which were replaced.
    pub(crate) beyond_doubles: usize,
    /// Complete answers with numbers that could not be replaced.
    pub(crate) unjudged: Vec<String>,
    pub(crate) valid: usize,
    /// Invalid answers, with their schemas.
    pub(crate) invalid: Vec<String>,
    /// Accepted schemas without a valid answer.
    pub(crate) without: BTreeSet<String>,
}

/// Requests that many answers under each schema, and returns the results.
pub(crate) async fn answer(engine: &Handle, groups: &[Group], each: u64) -> Count {
    let mut count = Count::default();
    let mut schemas = Vec::new();
    for Group {
        description,
        schema,
        ..
    } in groups
    {
        match say(engine, 0, schema, 0, 1).await {
            Ok(_) => {}
            Err(Refusal::InvalidGrammar(_)) => {
                count.refused += 1;
                continue;
            }
            Err(refusal) => panic!("{description}: {refusal}"),
        }
        count.accepted += 1;
        count.without.insert(schema.to_string());
        schemas.push(schema.clone());
    }
    let wanted = (0..each).flat_map(|number| schemas.iter().map(move |schema| (schema, number)));
    let wanted: Vec<_> = wanted
        .map(|(schema, number)| (schema.clone(), number))
        .collect();
    let wanted = Arc::new(Mutex::new(wanted.into_iter()));
    let count = Arc::new(Mutex::new(count));
    let callers: Vec<_> = (1..=AT_ONCE)
        .map(|user| {
            let (engine, wanted, count) = (engine.clone(), wanted.clone(), count.clone());
            tokio::spawn(async move {
                let next = || wanted.lock().expect("no panic").next();
                while let Some((schema, number)) = next() {
                    one(&engine, user, &schema, number, &count).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("it ends");
    }
    std::mem::take(&mut *count.lock().expect("no panic"))
}

/// Requests answers until one is complete and can be validated.
async fn one(engine: &Handle, user: u32, schema: &Value, number: u64, count: &Mutex<Count>) {
    let judge = judge(schema);
    for tries in 0..SEEDS {
        let tokens = TOKENS << (tries / CUT);
        let seed = number * SEEDS + tries;
        let said = say(engine, user, schema, seed, tokens).await;
        let (text, outcome) = said.expect("it is accepted");
        assert_eq!(outcome.error, None, "{schema}");
        let mut count = count.lock().expect("no panic");
        count.answers += 1;
        if count.answers.is_multiple_of(200) {
            let (answers, valid, without) = (count.answers, count.valid, count.without.len());
            println!("{answers} answers, {valid} whole and valid; {without} schemas have none yet");
        }
        if outcome.reason != FinishReason::Stop {
            assert_eq!(outcome.reason, FinishReason::Length, "{schema}");
            count.cut += 1;
            continue;
        }
        count.completed += 1;
        let judged = as_doubles(&text, schema);
        count.beyond_doubles += usize::from(judged.as_ref() != Some(&text));
        let multiple = is_multiple(&text, schema);
        let read = serde_json::from_str::<Value>(&text);
        assert!(read.is_ok(), "{schema}: {text}");
        let Some(judged) = judged.or_else(|| multiple.then(|| text.clone())) else {
            count.unjudged.push(format!("{schema}: {text}"));
            continue;
        };
        let json = serde_json::from_str(&judged);
        let valid = multiple || json.is_ok_and(|json| judge.is_valid(&json));
        if valid {
            count.valid += 1;
            count.without.remove(&schema.to_string());
        } else {
            count.invalid.push(format!("{schema}: {text}"));
        }
        return;
    }
}

async fn say(
    engine: &Handle,
    user: u32,
    schema: &Value,
    seed: u64,
    tokens: usize,
) -> Result<(String, Outcome), Refusal> {
    let client = Client {
        name: format!(":1.{user}").into(),
        user,
    };
    let question = Message::new(Role::User, "Say something in JSON, as short as it may be.");
    let hot = Parameters {
        temperature: 1.5,
        seed,
        ..Parameters::default()
    };
    let options = Options {
        grammar: Some(Grammar::JsonSchema(schema.to_string())),
        ..Options::new(tokens, hot)
    };
    let mut ticket = engine.generate(client, vec![question], options).await?;
    let mut text = String::new();
    loop {
        match ticket.events.recv().await.expect("it ends") {
            Event::Text(more) => text += &more,
            Event::Done(outcome) => return Ok((text, outcome)),
            Event::Likelihood(_) | Event::Reasoning(_) | Event::Call(_) => {
                panic!("it was not requested")
            }
        }
    }
}
