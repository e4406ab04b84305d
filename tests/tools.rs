//! Calls of tools: they have the model's own format, fit the declarations, and are separate from the text.

mod excessive;
mod random_calls;

use std::path::Path;
use std::sync::Arc;

pub(crate) use excessive::excessive_tools;

use ganglion::engine::{
    Client, Event, FinishReason, Handle, Message, Options, Outcome, Refusal, Role,
};
use ganglion::guide::{Grammar, Grammars, Limits, Next, Thoughts};
use ganglion::model::checkpoint::LanguageSource;
use ganglion::model::language::{Part, Words};
use ganglion::model::{Call, Decoder, Language};
use ganglion::tools::{AnswerPart, Format, Formats, Tools, Writing};
use serde_json::{Value, json};

use crate::guided::hot;
use crate::support::{needs, tiny_gguf};
use crate::text::python;
use crate::together::{Engine, of_known_answers};

/// Tools of robot programs.
pub(crate) const TOOLS: &str = r#"[
    {"type": "function", "function": {"name": "go", "description": "Moves the robot.", "parameters": {
        "type": "object", "properties": {"metres": {"type": "integer", "minimum": -9, "maximum": 9},
        "how": {"enum": ["fast", "slow \"and\" }{"]}}, "required": ["metres"]}}},
    {"type": "function", "function": {"name": "go_back", "parameters": {"type": "object", "properties":
        {"path": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2}}}}},
    {"type": "function", "function": {"name": "halt"}}
]"#;

/// A model with Hermes' format that reasons, with a short template.
pub(crate) fn hermes() -> crate::support::gguf_writer::GgufWriter {
    let family = families().swap_remove(0);
    tiny_gguf::with_tokens(&family.template, family.tokens)
}

/// A chat template of a known format, and the tokens of its vocabulary.
struct Family {
    format: &'static str,
    template: String,
    tokens: &'static [&'static str],
}

const TURNS: &str = "{% for m in messages %}<|start|>{{ m.role }}: {% if m.reasoning_content %}<think>{{ m.reasoning_content }}\
    </think>\n\n{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}CALL{% endfor %}<|end|>{% endfor %}<|start|>";

/// Hermes with and without a trigger token, and the other formats.
fn families() -> Vec<Family> {
    let hermes = "\n<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>";
    let tagged = "<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n\
                  {{ v if v is string else v | tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>";
    let qwen = &["<tool_call>", "</tool_call>", "<think>", "</think>"];
    let gemma = "<|tool_call>call:{{ c.function.name }}{}<tool_call|>";
    let family = |format, call: &str, known: &str, tokens| Family {
        format,
        template: format!(
            "{{% if tools %}}{{{{ tools | length }}}}{{# {known} #}}{{% endif %}}{}",
            TURNS.replace("CALL", call)
        ),
        tokens,
    };
    vec![
        family("hermes", hermes, "", qwen),
        family("hermes", hermes, "", &[]),
        family(
            "llama3",
            "{{ c.function | tojson }}",
            r#"<|start_header_id|> {"name": function name, "parameters": dictionary of argument name and its value}"#,
            &[],
        ),
        family(
            "ministral",
            "[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}",
            "",
            &["[TOOL_CALLS]", "[ARGS]"],
        ),
        family(
            "mistral-small",
            "[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]{{ c.function.arguments | tojson }}",
            "",
            &["[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"],
        ),
        family(
            "mistral-nemo",
            "[TOOL_CALLS][{{ c.function | tojson }}]",
            "",
            &["[TOOL_CALLS]"],
        ),
        family(
            "granite3",
            "<|tool_call|>[{{ c.function | tojson }}]",
            "<|tool_call|> followed by a JSON list of tools used",
            &["<|tool_call|>"],
        ),
        family(
            "functools",
            "functools[{{ c.function | tojson }}]",
            "prefix function calls with functools marker <|system|>",
            &[],
        ),
        family("qwen3-xml", tagged, "", qwen),
        family("qwen3-xml", tagged, "", &[]),
        family(
            "qwen3-6-xml",
            tagged,
            "args_value | string if args_value is string else args_value | tojson",
            qwen,
        ),
        family(
            "nemotron3",
            &format!("{tagged}\n"),
            r"</function>\n</tool_call>\n'",
            qwen,
        ),
        family(
            "gemma4",
            gemma,
            "<|tool_call>call: <|\"|>",
            &[
                "<|tool_call>",
                "<tool_call|>",
                "<|\"|>",
                "<|channel>",
                "<channel|>",
            ],
        ),
        family("gemma4", gemma, "<|tool_call>call: <|\"|>", &[]),
        family(
            "lfm2",
            "<|tool_call_start|>[{{ c.function.name }}()]<|tool_call_end|>",
            "List of tools: ",
            &["<|tool_call_start|>", "<|tool_call_end|>"],
        ),
        family(
            "phi4-mini",
            "<|tool_call|>[{{ c.function | tojson }}]<|/tool_call|>",
            "<|tool|><|/tool|>",
            &["<|tool_call|>", "<|/tool_call|>"],
        ),
    ]
}

fn formats() -> Formats {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/tools");
    Formats::read(&folder).expect("they are right")
}

impl Family {
    async fn engine(&self, rows: usize) -> (tempfile::TempDir, Engine) {
        let folder = tempfile::tempdir().expect("a folder");
        let model = tiny_gguf::with_tokens(&self.template, self.tokens).file();
        std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
        let engine = Engine::with_context(folder.path(), rows, rows, 512).await;
        (folder, engine)
    }

    fn format(&self) -> Arc<Format> {
        let formats = formats();
        let format = formats.of(&self.template).expect("it is known");
        assert_eq!(format.name, self.format);
        format.clone()
    }
}

pub(crate) fn tools(choice: Option<&str>, parallel: bool) -> Arc<Tools> {
    Arc::new(Tools::read(TOOLS, choice, parallel).expect("they are right"))
}

fn user(text: &str) -> Message {
    Message::new(Role::User, text)
}

/// An answer as its caller receives it.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    text: String,
    reasoning: String,
    /// The names and the joined arguments.
    calls: Vec<(String, String)>,
}

async fn ask(
    engine: &Handle,
    messages: Vec<Message>,
    options: Options,
) -> Result<(Answer, Outcome), Refusal> {
    let client = Client {
        name: ":1.1".into(),
        user: 1,
    };
    let mut ticket = engine.generate(client, messages, options).await?;
    let mut answer = Answer::default();
    loop {
        match ticket.events.recv().await.expect("it ends") {
            Event::Text(text) => {
                assert!(answer.calls.is_empty(), "no text follows a call");
                answer.text += &text;
            }
            Event::Reasoning(text) => answer.reasoning += &text,
            Event::Call(piece) => {
                if let (Some(name), Some(_)) = (piece.name, piece.id) {
                    assert_eq!(piece.index, answer.calls.len(), "it begins once");
                    answer.calls.push((name, String::new()));
                }
                assert_eq!(piece.index + 1, answer.calls.len());
                let call = answer.calls.last_mut().expect("it has begun");
                call.1 += &piece.arguments;
            }
            Event::Likelihood(_) => {}
            Event::Done(outcome) => return Ok((answer, outcome)),
        }
    }
}

/// Whether an independent validator accepts a call's name and arguments for the declared tools.
pub(crate) fn fits(name: &str, arguments: &str) -> bool {
    let declared: Value = serde_json::from_str(TOOLS).expect("JSON");
    let declared = declared.as_array().expect("an array").iter();
    let functions = declared.map(|tool| &tool["function"]);
    let mut named = functions.filter(|function| function["name"] == name);
    let Some(function) = named.next() else {
        return false;
    };
    let schema = match &function["parameters"] {
        Value::Null => json!({"type": "object", "maxProperties": 0}),
        schema => schema.clone(),
    };
    let arguments = serde_json::from_str(arguments);
    arguments.is_ok_and(|arguments| jsonschema::is_valid(&schema, &arguments))
}

/// Answers at a high temperature of a model with random weights, eight together and each alone.
#[tokio::test(flavor = "multi_thread")]
async fn hot_answers_call_declared_tools_and_are_the_same_alone() {
    let (mut whole, mut several, mut texts, mut accepted) = (0, 0, 0, 0);
    for family in families() {
        family.format();
        let (_folder, together) = family.engine(8).await;
        let (_other, alone) = family.engine(1).await;
        for (choice, most) in [
            (Some("required"), None),
            (Some("required"), Some(2)),
            (Some("go"), Some(2)),
            (None, None),
            (Some("none"), None),
        ] {
            let offered = Arc::new(Tools::clone(&tools(choice, true)).at_most(most));
            let options = |seed| Options {
                tools: Some(offered.clone()),
                thinking: Some(seed % 2 == 0),
                thinking_tokens: Some(7),
                ..Options::new(150, hot(seed))
            };
            let asked: Vec<_> = (0..12)
                .map(|seed| {
                    let engine = together.handle.clone();
                    let options = options(seed);
                    tokio::spawn(async move { ask(&engine, vec![user("hello")], options).await })
                })
                .collect();
            for (seed, asked) in (0..).zip(asked) {
                let what = format!("{} with {choice:?} and seed {seed}", family.format);
                let (answer, outcome) = asked.await.expect("it ends").expect("it is accepted");
                assert_eq!(outcome.error, None, "{what}");
                let lonely = ask(&alone.handle, vec![user("hello")], options(seed)).await;
                let (lonely, other) = lonely.expect("it is accepted");
                assert_eq!(answer, lonely, "{what}");
                assert_eq!(outcome.calls, other.calls, "{what}: also the ids");
                assert_eq!(outcome.reasoning, answer.reasoning, "{what}");
                let guesses = of_known_answers().map(Some);
                for guess in guesses.into_iter().filter(|_| seed < 4) {
                    let options = Options {
                        guess,
                        ..options(seed)
                    };
                    let same = ask(&together.handle, vec![user("hello")], options).await;
                    let (same, other) = same.expect("it is accepted");
                    assert_eq!(answer, same, "{what}");
                    assert_eq!(outcome.calls, other.calls, "{what}");
                    assert_eq!(outcome.reason, other.reason, "{what}");
                    accepted += other.usage.accepted_tokens;
                }
                for (call, heard) in outcome.calls.iter().zip(&answer.calls) {
                    assert_eq!((&call.name, &call.arguments), (&heard.0, &heard.1));
                    assert!(fits(&call.name, &call.arguments), "{what}: {call:?}");
                    assert!(
                        call.id.len() == 9 && call.id.bytes().all(|c| c.is_ascii_alphanumeric())
                    );
                }
                if outcome.reason == FinishReason::ToolCalls {
                    assert_eq!(outcome.calls.len(), answer.calls.len(), "{what}");
                    assert_ne!(choice, Some("none"));
                    assert!(choice != Some("go") || outcome.calls[0].name == "go");
                    // A tool that is chosen by its name is called once.
                    let bound = if choice == Some("go") { Some(1) } else { most };
                    let calls = u32::try_from(outcome.calls.len()).expect("few");
                    assert!(
                        bound.is_none_or(|bound| calls <= bound),
                        "{what}: {calls} calls"
                    );
                    whole += 1;
                    several += usize::from(outcome.calls.len() > 1);
                } else if outcome.reason == FinishReason::Stop {
                    assert!(choice.is_none_or(|choice| choice == "none"), "{what}");
                    texts += 1;
                }
                if matches!(choice, Some("required" | "go")) {
                    assert_eq!(answer.text, "", "{what}");
                }
            }
        }
    }
    assert!(whole > 60, "{whole} answers called");
    assert!(several > 0 && texts > 0, "{several} {texts}");
    assert!(accepted > 100, "{accepted} guesses were right");
}

/// An unenforceable keyword refuses no other tool, unless a call is required; required members are declared.
#[tokio::test(flavor = "multi_thread")]
async fn keywords_of_tools_that_cannot_be_enforced_are_listed_or_refused() {
    const OFFER: &str = r#"[
        {"type": "function", "function": {"name": "halt", "parameters": {"type": "object", "required": ["now"]}}},
        {"type": "function", "function": {"name": "send", "parameters": {"type": "object", "properties": {
            "to": {"type": "string", "pattern": "^a(?!b)"}, "format": {"type": "string", "format": "robot"}}}}}
    ]"#;
    let family = families().swap_remove(0);
    let (_folder, engine) = family.engine(1).await;
    let asked = |choice: Option<&str>, lenient| {
        let tools = Tools::read(OFFER, choice, true).expect("they are right");
        Options {
            tools: Some(Arc::new(tools)),
            schema_lenient: lenient,
            ..Options::new(20, hot(1))
        }
    };
    for (choice, lenient) in [(None, false), (Some("required"), true)] {
        let (_, outcome) = ask(&engine.handle, vec![user("hello")], asked(choice, lenient))
            .await
            .expect("it is accepted");
        let pointer = "/1/function/parameters/properties/to/pattern";
        assert_eq!(outcome.unchecked, [pointer]);
    }
    let refused = ask(
        &engine.handle,
        vec![user("hello")],
        asked(Some("required"), false),
    )
    .await;
    let why = refused.expect_err("it is strict").to_string();
    assert!(
        why.contains("\"send\"")
            && why.contains("/properties/to")
            && why.contains("schema_lenient"),
        "{why}"
    );
    let unknown = r#"[{"type": "function", "function": {"name": "go", "parameters": {"metres": {"type": "integer"}}}}]"#;
    let why = Tools::read(unknown, None, true).expect_err("it has no keyword");
    assert!(why.to_string().contains("no keyword"), "{why}");
}

/// Reasoning that the prompt or the answer starts is separate, ends in time, and precedes the answer.
#[tokio::test(flavor = "multi_thread")]
async fn reasoning_is_separate_and_bounded() {
    // An answer that begins with space does so after reasoning as well.
    let choices = [" yes".to_owned(), "\nno".to_owned()];
    for opened in [false, true] {
        let mut family = families().swap_remove(0);
        if opened {
            family.template += "<think>\n";
        }
        let (_folder, engine) = family.engine(2).await;
        let (mut thought, mut ended) = (0, 0);
        for seed in 0..12 {
            for grammar in [None, Some(Grammar::Choice(choices.to_vec()))] {
                let options = Options {
                    grammar: grammar.clone(),
                    thinking_tokens: Some(5),
                    ..Options::new(60, hot(seed))
                };
                let asked = ask(&engine.handle, vec![user("hello")], options).await;
                let (answer, outcome) = asked.expect("it is accepted");
                assert_eq!(outcome.error, None);
                // No token of this vocabulary has more bytes.
                assert!(answer.reasoning.len() <= 5 * "hello".len(), "{answer:?}");
                assert!(grammar.is_some() || !answer.text.starts_with('\n'));
                assert!(!answer.text.contains("think>"));
                thought += usize::from(!answer.reasoning.is_empty());
                if grammar.is_some() && outcome.reason == FinishReason::Stop {
                    assert!(choices.contains(&answer.text), "{answer:?}");
                    ended += 1;
                }
            }
        }
        assert!(ended > 6, "{ended} answers");
        assert!(!opened || thought > 12, "{thought} thought");
    }
}

/// Reasoning is text, whatever must follow it.
#[test]
fn reasoning_contains_no_special_token_except_its_end() {
    let words = words(&families().swap_remove(0));
    let grammars = Grammars::new(words.clone());
    let thoughts = Thoughts {
        allowed: true,
        most: None,
    };
    let choice = Grammar::Choice(vec!["yes".into()]);
    let guide = grammars.guide(&choice, Limits::USUAL, &[], thoughts);
    let mut guide = guide.expect("it is allowed");
    let [begin, end] = words.thinking().expect("it thinks");
    guide.take(begin);
    let Ok(Next::Allowed(mask)) = guide.follows() else {
        panic!("{guide:?}");
    };
    for (special, spelling) in words.specials() {
        assert_eq!(mask.allows(special), special == end, "{spelling}");
    }
    let text = words.encode("hello \u{e9}");
    assert!(text.iter().all(|token| mask.allows(*token)));
}

/// An answer with optional calls may end within its reasoning, as without tools.
#[test]
fn an_answer_with_tools_may_end_in_reasoning() {
    let family = families().swap_remove(0);
    let words = words(&family);
    let writing = Writing::new(family.format(), words.clone());
    let thoughts = Thoughts {
        allowed: true,
        most: None,
    };
    let [begin, _] = words.thinking().expect("it thinks");
    for (choice, may_end) in [(None, true), (Some("required"), false)] {
        let grammar = grammar(&writing, &tools(choice, true), false);
        let grammars = Grammars::new(words.clone());
        let guide = grammars.guide(&grammar, Limits::USUAL, &[], thoughts);
        let mut guide = guide.expect("it is allowed");
        guide.take(begin);
        let Ok(Next::Allowed(mask)) = guide.follows() else {
            panic!("{guide:?}");
        };
        for end in words.ends() {
            assert_eq!(mask.allows(*end), may_end, "{choice:?}");
        }
    }
}

/// Returns the grammar of an answer with calls.
fn grammar(writing: &Writing, tools: &Tools, lenient: bool) -> Grammar {
    Grammar::Tools {
        lark: writing.grammar(tools),
        arguments: writing.arguments(tools),
        lenient,
        bytes: 0,
        trigger: writing.spelled_trigger().map(Box::from),
        syntax: writing.syntax().map(Box::new),
    }
}

fn call(id: &str, name: &str, arguments: &str) -> Call {
    Call {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    }
}

/// A grammar accepts the calls that a trained model writes. The parsed calls equal the written ones, and public parsers
/// agree.
#[tokio::test]
async fn calls_are_parsed_as_they_are_written() {
    let (mut jobs, mut expected) = (Vec::new(), Vec::new());
    let calls = [
        call(
            "aB3dE6gH9",
            "go",
            r#"{"metres": -3, "how": "slow \"and\" }{"}"#,
        ),
        call("000000000", "halt", "{}"),
        call("zzzzzzzzz", "go_back", r#"{"path": [true, false]}"#),
    ];
    for family in families() {
        let format = family.format();
        let words = words(&family);
        let writing = Writing::new(format.clone(), words.clone()).of(&tools(None, true));
        let grammars = Grammars::new(words.clone());
        let grammar = grammar(&writing, &tools(None, true), true);
        let parallel = !matches!(family.format, "llama3");
        let count = if parallel { calls.len() } else { 1 };
        let begins = family.format == "llama3";
        if begins {
            hears_only_text(&writing, &words, &mut language(&family).decoder());
        }
        for text in if begins {
            &[""][..]
        } else {
            &["", "I go <tool> [TOOL\n", "né "]
        } {
            let written = format!("{text}{}", format.write(&calls[..count]));
            let mut taken = Vec::new();
            let mut listener = writing.listener(1);
            let mut decoder = language(&family).decoder();
            let mut heard = Vec::new();
            for part in words.parts(&written) {
                for token in tokens(&words, part) {
                    taken.push(token);
                    heard.extend(listener.take(token, &mut decoder));
                }
            }
            heard.extend(listener.finish(""));
            let fits = grammars.fits(&grammar, Limits::USUAL, &taken);
            let (allowed, _) = fits.expect("it is a grammar");
            assert!(allowed, "{}: {written:?}", family.format);
            let said: String = heard
                .iter()
                .filter_map(|heard| match heard {
                    AnswerPart::Text(text) => Some(text.as_str()),
                    AnswerPart::Call(_) => None,
                })
                .collect();
            assert_eq!(said, text.trim_end(), "{}", family.format);
            let mut made = listener.calls().to_vec();
            if family.format != "mistral-small" {
                // Only models of this format write ids.
                for (made, call) in made.iter_mut().zip(&calls) {
                    made.id.clone_from(&call.id);
                }
            }
            // Arguments may be in alphabetical order.
            let parsed = |calls: &[Call]| -> Vec<_> {
                let each = calls
                    .iter()
                    .map(|call| (call.id.clone(), as_parsers_have_it(call)));
                each.collect()
            };
            assert_eq!(
                parsed(&made),
                parsed(&calls[..count]),
                "{}: {written:?}",
                family.format
            );
            // mlx-lm and trl have no parser of them.
            if matches!(family.format, "functools" | "granite3" | "phi4-mini") {
                continue;
            }
            let declared: Value = serde_json::from_str(TOOLS).expect("JSON");
            jobs.push(json!({"format": family.format, "text": written, "tools": declared}));
            let read: Value = calls[..count].iter().map(as_parsers_have_it).collect();
            expected.push(json!({"content": text.trim(), "calls": read}));
        }
    }
    if needs::parsers() {
        assert_eq!(python("calls.py", &jobs.into()), Value::from(expected));
    }
}

/// Values without quotes: numbers with far bounds, and texts of an `enum` that a reader would take for others.
#[test]
fn arguments_without_quotes_are_within_their_schema() {
    let mut families = families().into_iter();
    let family = families.find(|family| family.format == "qwen3-xml");
    let family = family.expect("it is listed");
    let words = words(&family);
    let grammars = Grammars::new(words.clone());
    for (schema, allowed, refused) in [
        (
            r#"{"type": "integer", "minimum": 1e15}"#,
            &["1000000000000000", "9007199254740993"][..],
            &["999999999999999", "1"][..],
        ),
        (
            r#"{"type": "integer", "exclusiveMinimum": 9007199254740992}"#,
            &["9007199254740994"],
            &["9007199254740992", "9007199254740991"],
        ),
        (
            r#"{"type": "number", "maximum": -1e18}"#,
            &["-1000000000000000000", "-2000000000000000000.5"],
            &["-999999999999999999", "1"],
        ),
        (
            r#"{"enum": ["12", "fast", "true", "nONE", 5, null]}"#,
            &["fast", "true", "5", "None"],
            &["12", "nONE", "slow"],
        ),
        (
            r#"{"enum": ["12", "true", "null"]}"#,
            &["12", "true", "null"],
            &["5"],
        ),
    ] {
        let offer = format!(
            r#"[{{"type": "function", "function": {{"name": "go", "parameters": {{"properties": {{"x": {schema}}}}}}}}}]"#
        );
        let tools = Tools::read(&offer, Some("required"), true).expect("they are right");
        let writing = Writing::new(family.format(), words.clone()).of(&tools);
        let grammar = grammar(&writing, &tools, false);
        let each = allowed.iter().map(|value| (value, true));
        for (value, fits) in each.chain(refused.iter().map(|value| (value, false))) {
            let call = format!(
                "<tool_call>\n<function=go>\n<parameter=x>\n{value}\n</parameter>\n</function>\n</tool_call>"
            );
            let parts = words.parts(&call).into_iter();
            let call: Vec<_> = parts.flat_map(|part| tokens(&words, part)).collect();
            let found = grammars.fits(&grammar, Limits::USUAL, &call);
            let (found, _) = found.expect("it is a grammar");
            assert_eq!(found, fits, "{value} for {schema}");
        }
    }
}

/// Returns its name and its arguments.
pub(crate) fn as_parsers_have_it(call: &Call) -> Value {
    let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
    json!([call.name, arguments])
}

/// With a repeated id, one result would answer two calls.
#[test]
fn each_call_has_its_own_id_whatever_the_model_writes() {
    let mut families = families();
    let family = families.remove(4);
    let words = words(&family);
    let mut listener = Writing::new(family.format(), words.clone()).listener(1);
    let mut decoder = language(&family).decoder();
    let twice = call("aB3dE6gH9", "halt", "{}");
    let written = family.format().write(&[twice.clone(), twice.clone()]);
    for part in words.parts(&written) {
        for token in tokens(&words, part) {
            listener.take(token, &mut decoder);
        }
    }
    let [first, second] = listener.calls() else {
        panic!("{:?}", listener.calls());
    };
    assert_eq!(first, &twice);
    assert!(second.id != first.id && second.id.len() == 9, "{second:?}");
}

/// Writes calls in the form of a model.
fn tokens(words: &Words, part: Part) -> Vec<u32> {
    match part {
        Part::Special(id) => vec![id],
        Part::Text(text) => words.encode(&text),
    }
}

/// If the beginning of an answer decides whether it calls, no later text does.
fn hears_only_text(writing: &Writing, words: &Words, decoder: &mut Decoder) {
    let answer = "he llo {\"name\": \"halt\", \"parameters\": {}}";
    let mut listener = writing.listener(1);
    let mut said = String::new();
    let mut heard = Vec::new();
    for token in words.encode(answer) {
        heard.extend(listener.take(token, decoder));
    }
    heard.extend(listener.finish(""));
    for heard in heard {
        match heard {
            AnswerPart::Text(text) => said += &text,
            AnswerPart::Call(piece) => panic!("{piece:?}"),
        }
    }
    assert_eq!(said, answer);
}

fn language(family: &Family) -> Language {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tiny.gguf");
    let model = tiny_gguf::with_tokens(&family.template, family.tokens).file();
    std::fs::write(&path, model).expect("it is written");
    let checkpoint = ganglion::model::Checkpoint::open(&path).expect("it is whole");
    let source: &LanguageSource = checkpoint.language_source().expect("it has one");
    Language::load(source).expect("it is known")
}

fn words(family: &Family) -> Words {
    language(family).words()
}

/// SmolLM3's template has tools but neither calls nor reasoning: both are in the text, in the model's form.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_a_template_does_not_know_are_text() {
    let family = Family {
        format: "hermes",
        template: "{% if tools %}<tool_call></tool_call>{% endif %}{% for m in messages %}<|start|>{{ m.role }}: \
                   {{ m.content }}<|end|>{% endfor %}<|start|>"
            .into(),
        tokens: &["<tool_call>", "</tool_call>", "<think>", "</think>"],
    };
    let (_folder, engine) = family.engine(1).await;
    let written = family.format().write(&[call("1", "halt", "{}")]);
    let apart = Message {
        reasoning: "hm".into(),
        calls: vec![call("1", "halt", "{}")],
        ..Message::new(Role::Assistant, "I do.")
    };
    let text = format!("<think>\nhm\n</think>\n\nI do.\n{written}");
    let mut tokens = Vec::new();
    for said in [apart, Message::new(Role::Assistant, text)] {
        let messages = vec![user("stop"), said, Message::new(Role::Tool, "done")];
        let asked = ask(&engine.handle, messages, Options::new(1, hot(0))).await;
        let (_, outcome) = asked.expect("it is accepted");
        tokens.push((outcome.usage.prompt_tokens, outcome.usage.cached_tokens));
    }
    let [(apart, _), (text, cached)] = tokens[..] else {
        unreachable!()
    };
    // The second one shares the first one's prompt to its last page.
    assert_eq!(text, apart);
    assert!(cached + 16 >= apart, "{cached} of {apart}");
}

/// A useless format file is refused when it is read, not when a model calls.
#[test]
fn invalid_format_files_are_refused_with_the_reason() {
    let known = "template = ['x']\n";
    let call = "call = '<{name}|{arguments}>'\n";
    for (text, why) in [
        ("template = []\n".to_owned() + call, "template is []; list"),
        (known.to_owned(), "missing field `call`"),
        (
            format!("{known}call = '{{arguments}}{{name}}'"),
            r#"call is "{arguments}{name}"; write {name}"#,
        ),
        (
            format!("{known}call = '{{name}}:{{arguments}}'"),
            "write a text before {name}",
        ),
        (
            format!("{known}call = '<{{name}}x{{arguments}}>'"),
            "it could belong to the name",
        ),
        (
            format!("{known}call = '<{{name}}|{{id}}x{{arguments}}>'"),
            "it could belong to the id",
        ),
        (
            format!("{known}call = '<{{id}}|{{name}}|{{arguments}}>'"),
            "write {id} between",
        ),
        (
            format!("{known}{call}trigger = '>'"),
            r#"trigger is ">"; write the text with which begin starts"#,
        ),
        (
            format!("{known}{call}trigger = ''"),
            r#"trigger is ""; remove it"#,
        ),
        (
            format!("{known}{call}parallel = true\nend = '<'"),
            r#"end is "<"; begin it with another character"#,
        ),
        (
            format!("{known}{call}colour = 'red'"),
            "line 3: unknown field `colour`, expected one of",
        ),
        (format!("{known}{call}parallel = 1"), "line 3: invalid type"),
    ] {
        refuses(&text, why);
    }
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(
        Formats::read(&folder.path().join("none"))
            .expect("none")
            .names(),
        ""
    );
    std::fs::write(folder.path().join("one.toml"), "template = 1").expect("it is written");
    let error = Formats::read(folder.path())
        .expect_err("it is wrong")
        .to_string();
    assert!(
        error.contains("one.toml") && error.contains("hermes.toml"),
        "{error}"
    );
}

/// The same for the keys of arguments that are no JSON.
#[test]
fn invalid_forms_of_arguments_are_refused_with_the_reason() {
    let arguments = "template = ['x']\ncall = '<{name}|{arguments}>'\n[arguments]\nargument = ";
    for (text, why) in [
        (
            format!("{arguments}'{{value}}={{key}}'"),
            r#"arguments.argument is "{value}={key}"; write {key}"#,
        ),
        (
            format!("{arguments}'{{key}}{{value}}'"),
            "between {key} and {value}",
        ),
        (
            format!("{arguments}'{{key}}={{value}}'\ntext = 'raw'"),
            "a raw text ends with it",
        ),
        (
            format!("{arguments}'{{key}}={{value}};'\nnever = ['x']"),
            r#"arguments.never is ["x"]; remove it"#,
        ),
        (
            format!("{arguments}'{{key}}={{value}};'\ntext = ['', 'x']"),
            r#"arguments.text is ["", "x"]; write two marks"#,
        ),
        (
            format!("{arguments}'{{key}}={{value}};'\nwords = ['1', 'no', 'none']"),
            r#"arguments.words is ["1", "no", "none"]; write words of the letters"#,
        ),
        (
            format!("{arguments}'{{key}}={{value}};'\nwords = ['yes', 'no', 'no']"),
            "three different words",
        ),
        (
            format!("{arguments}'{{key}}={{value}};'\n[arguments.nested]\ncolon = '='"),
            r#"arguments.nested.colon is "="; write a colon"#,
        ),
        (
            format!("{arguments}'{{key}}={{value}};'\n[arguments.nested]\nseparator = ';'"),
            r#"arguments.nested.separator is ";"; write a comma"#,
        ),
        (
            format!(
                "{arguments}'{{key}}={{value}};'\ntext = 'raw'\n[arguments.nested]\nwords = ['True', 'False', 'None']"
            ),
            r#"arguments.nested.words is ["True", "False", "None"]; remove it"#,
        ),
        (
            format!(
                "{arguments}'{{key}}={{value}};'\ntext = 'raw'\n[arguments.nested]\nbare = true"
            ),
            "arguments.nested.bare is true; remove it",
        ),
        (
            format!("{arguments}'>{{key}}={{value}};'"),
            "could not begin another argument",
        ),
        (
            format!("{arguments}'{{key}}={{value}};'\nquotes = 'none'"),
            "quotes",
        ),
    ] {
        refuses(&text, why);
    }
}

fn refuses(text: &str, why: &str) {
    let refused = Format::parse("one", text);
    let error = refused.expect_err("it is not a format").to_string();
    assert!(error.contains(why), "{error}");
}
