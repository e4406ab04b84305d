//! Answers whose steps have guesses are those without, whatever the guesses are.

use std::path::Path;
use std::sync::{Arc, Mutex};

use ganglion::engine::{
    Client, Event, FinishReason, Handle, Likelihood, Message, Options, Outcome, Role, Ticket,
};
use ganglion::guess::{Custom, Guess, MOST_GUESSES, Source};
use ganglion::guide::Grammar;
use ganglion::sampler::Parameters;
use ganglion::telemetry::Proposer;

use super::engine::{Engine, TEMPLATE};
use crate::support::tiny_gguf;

const TOKENS: usize = 60;

/// What a caller receives.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) text: String,
    reason: FinishReason,
    stop: Option<String>,
    tokens: [u32; 2],
    likelihoods: Vec<Likelihood>,
}

/// Tokens that were proposed, and those of them that were accepted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) proposed: u32,
    pub(super) accepted: u32,
}

/// Returns how tests guess, by name: as users can, and in ways that are mostly wrong.
pub(super) fn all() -> [(&'static str, Guess); 7] {
    let wrong = Custom::new(|tokens, most| {
        let seed = tokens.iter().fold(7_u64, |hash, token| {
            hash.wrapping_mul(31).wrapping_add(u64::from(*token))
        });
        let mut random = fastrand::Rng::with_seed(seed);
        (0..most).map(|_| random.u32(0..256)).collect()
    });
    let equal = Custom::new(|_, most| vec![5; most]);
    let repeats = Custom::new(|tokens, most| {
        let last = tokens.last().copied().unwrap_or_default();
        vec![last; most]
    });
    // A right beginning, as far as the conversation repeats itself, and then the neighbour of a right token.
    let nearly = Custom::new(|tokens, most| {
        let mut again: Vec<_> = tokens.iter().rev().take(most).rev().copied().collect();
        if let Some(last) = again.last_mut() {
            *last ^= 1;
        }
        again
    });
    let custom = Source::Custom;
    [
        ("lookup", Source::Lookup),
        ("auto", Source::Any),
        // Without a draft model there are no such guesses.
        ("draft", Source::Draft),
        ("wrong", custom(wrong)),
        ("equal", custom(equal)),
        ("repeats", custom(repeats)),
        ("nearly", custom(nearly)),
    ]
    .map(|(name, source)| {
        let guess = Guess {
            source,
            most: MOST_GUESSES,
            is_auto: name == "auto",
        };
        (name, guess)
    })
}

/// Returns guesses that propose nothing and learn the conversations, and guesses that are mostly right about those.
pub(crate) fn of_known_answers() -> [Guess; 2] {
    let known = Arc::new(Mutex::new(Vec::<Vec<u32>>::new()));
    let learned = known.clone();
    let learns = Custom::new(move |tokens, _| {
        let mut known = learned.lock().expect("no test has failed");
        known.retain(|one| !tokens.starts_with(one));
        known.push(tokens.to_vec());
        Vec::new()
    });
    let repeats = Custom::new(move |tokens, most| {
        let known = known.lock().expect("no test has failed");
        let Some(one) = known.iter().find(|one| one.starts_with(tokens)) else {
            return Vec::new();
        };
        let mut next: Vec<_> = one[tokens.len()..].iter().take(most).copied().collect();
        if tokens.len().is_multiple_of(3)
            && let Some(last) = next.last_mut()
        {
            *last ^= 1;
        }
        next
    });
    [learns, repeats].map(|custom| Guess {
        source: Source::Custom(custom),
        most: MOST_GUESSES,
        is_auto: false,
    })
}

pub(super) fn client(user: u32) -> Client {
    Client {
        name: format!(":1.{user}").into(),
        user,
    }
}

pub(super) fn options(user: u32, stop: Option<&str>, guess: Option<&Guess>) -> Options {
    Options {
        stop: stop.map(str::to_owned).into_iter().collect(),
        guess: guess.cloned(),
        ..Options::new(
            TOKENS,
            Parameters {
                temperature: if user.is_multiple_of(3) { 0.9 } else { 0.0 },
                repetition_penalty: if user.is_multiple_of(4) { 1.2 } else { 1.0 },
                seed: user.into(),
                logprobs: user.is_multiple_of(2).then_some(3),
                ..Parameters::default()
            },
        )
    }
}

pub(super) async fn hear(mut ticket: Ticket) -> (Answer, Outcome) {
    let (mut text, mut likelihoods) = (String::new(), Vec::new());
    loop {
        match ticket.events.recv().await.expect("it ends") {
            Event::Text(more) => text += &more,
            Event::Likelihood(likelihood) => likelihoods.push(likelihood),
            Event::Reasoning(_) | Event::Call(_) => {}
            Event::Done(outcome) => {
                assert_eq!(outcome.error, None);
                let usage = &outcome.usage;
                let answer = Answer {
                    text,
                    reason: outcome.reason,
                    stop: outcome.stop.clone(),
                    tokens: [usage.prompt_tokens, usage.completion_tokens],
                    likelihoods,
                };
                return (answer, outcome);
            }
        }
    }
}

/// Asks a question of each of some users at once. The first half of the answers ends at a text of `stops`.
pub(super) async fn ask_all(
    engine: &Handle,
    users: u32,
    stops: &[Option<String>],
    guess: Option<&Guess>,
) -> (Vec<Answer>, Counts) {
    let mut asked = Vec::new();
    for user in 0..users {
        let question = "a robot says hello, a robot says hello, and ".repeat(2);
        let message = Message::new(Role::User, format!("{question}{user}"));
        let stop = stops.get(user as usize).and_then(Option::as_deref);
        let options = options(user, stop, guess);
        let ticket = engine.generate(client(user), vec![message], options).await;
        asked.push(ticket.expect("it is accepted"));
    }
    let (mut answers, mut counts) = (Vec::new(), Counts::default());
    for ticket in asked {
        let (answer, Outcome { usage, .. }) = hear(ticket).await;
        answers.push(answer);
        counts.proposed += usage.proposed_tokens;
        counts.accepted += usage.accepted_tokens;
        let all = usage.proposals.all();
        let counted = [usage.proposed_tokens, usage.accepted_tokens].map(u64::from);
        assert_eq!([all.proposed, all.accepted], counted);
        let expected = guess.map(|guess| match guess.source {
            Source::Any => usage.proposals.most().unwrap_or(Proposer::Lookup),
            Source::Lookup => Proposer::Lookup,
            // An assistant guesses as a head.
            Source::Draft => usage.proposals.most().unwrap_or(Proposer::Draft),
            Source::Head => Proposer::Head,
            Source::Custom(_) => Proposer::Custom,
        });
        assert_eq!(usage.proposer, expected);
    }
    (answers, counts)
}

/// Some characters from the middle of a text.
pub(super) fn middle(text: &str) -> Option<String> {
    let characters: Vec<char> = text.chars().collect();
    let half = characters.len() / 2;
    let some = characters.get(half..half + 3)?;
    Some(some.iter().collect())
}

/// Writes a model without and one with recurrent layers, each into a folder of its own.
fn models() -> [tempfile::TempDir; 2] {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let tiny = tiny_gguf::with_vocabulary().file();
    std::fs::write(folders[0].path().join("tiny.gguf"), tiny).expect("it is written");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let recurrent = golden.join("tiny-qwen3_5/model.q8_0.gguf");
    std::fs::copy(recurrent, folders[1].path().join("tiny.gguf")).expect("it is copied");
    let template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}\
                    {% if add_generation_prompt %}> {% endif %}";
    std::fs::write(folders[1].path().join(TEMPLATE), template).expect("it is written");
    folders
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_change_no_answer() {
    let mut looked_up = 0;
    for folder in models() {
        let engine = Engine::start(folder.path(), 8, 8).await;
        let handle = &engine.handle;
        let [mut of_lookup, mut of_known, mut of_others] = [Counts::default(); 3];
        for users in [1, 2, 5, 8] {
            let (whole, _) = ask_all(handle, users, &[], None).await;
            let stops = whole.iter().map(|answer| middle(&answer.text));
            let stops: Vec<_> = stops.take(users as usize / 2).collect();
            let (plain, counts) = ask_all(handle, users, &stops, None).await;
            assert_eq!(counts.proposed, 0);
            let [learns, knows] = of_known_answers();
            let (answers, _) = ask_all(handle, users, &stops, Some(&learns)).await;
            assert_eq!(answers, plain, "{users} users");
            for (name, guess) in all().into_iter().chain([("known", knows)]) {
                let (answers, counts) = ask_all(handle, users, &stops, Some(&guess)).await;
                assert_eq!(answers, plain, "{name}, {users} users");
                println!("{name}, {users} users: {counts:?}");
                let sum = match name {
                    "known" => &mut of_known,
                    "lookup" | "auto" | "draft" => &mut of_lookup,
                    _ => &mut of_others,
                };
                sum.proposed += counts.proposed;
                sum.accepted += counts.accepted;
            }
        }
        looked_up += of_lookup.proposed;
        assert!(of_known.accepted > 100, "{of_known:?}");
        assert!(of_others.proposed > 2 * of_others.accepted, "{of_others:?}");
        let live = handle.live().proposals.all();
        let proposed = of_lookup.proposed + of_known.proposed + of_others.proposed;
        let accepted = of_lookup.accepted + of_known.accepted + of_others.accepted;
        assert_eq!(
            [live.proposed, live.accepted],
            [proposed, accepted].map(u64::from)
        );
    }
    // Random models seldom repeat themselves.
    assert!(looked_up > 0);
}

/// Has a conversation of a user, in which a turn is taken back.
pub(super) async fn talk(engine: &Handle, user: u32, guess: Option<&Guess>) -> Vec<Answer> {
    let session = engine.open_session(client(user), Vec::new());
    let session = session.expect("there is room");
    let mut answers: Vec<Answer> = Vec::new();
    for turn in 0..4 {
        let stop = answers.last().and_then(|before| middle(&before.text));
        let stop = stop.filter(|_| turn % 2 == 1);
        let options = options(turn, stop.as_deref(), guess);
        let sent = engine.send(session, "hello hello hello".into(), options);
        let (answer, _) = hear(sent.await.expect("it is accepted")).await;
        answers.push(answer);
        if turn == 1 {
            let rewound = engine.rewind(session, 1).await;
            rewound.expect("it has one");
        }
    }
    engine.close_session(session);
    answers
}

/// A stop text may end an answer before its last accepted guesses. Later turns, also after a rewind, are the same.
#[tokio::test(flavor = "multi_thread")]
async fn turns_after_guesses_are_the_same() {
    for folder in models() {
        let engine = Engine::start(folder.path(), 8, 8).await;
        let handle = &engine.handle;
        let plain = talk(handle, 1, None).await;
        for (user, (name, guess)) in (2..).zip(all()) {
            assert_eq!(talk(handle, user, Some(&guess)).await, plain, "{name}");
        }
    }
}

/// A user's earlier answer is looked up, and no other user's.
#[tokio::test(flavor = "multi_thread")]
async fn earlier_answers_of_the_same_user_are_looked_up() {
    let [folder, _] = models();
    let engine = Engine::start(folder.path(), 8, 8).await;
    let [(_, guess), ..] = all();
    let mut heard = Vec::new();
    for user in [1, 2, 1] {
        let question = Message::new(Role::User, "hello");
        // A sampled answer hardly repeats itself.
        let options = options(3, None, Some(&guess));
        let asked = engine
            .handle
            .generate(client(user), vec![question], options);
        let (answer, outcome) = hear(asked.await.expect("it is accepted")).await;
        heard.push((answer, outcome.usage.accepted_tokens));
    }
    let [(first, _), (second, of_other), (third, again)] = &heard[..] else {
        panic!("{heard:?}");
    };
    assert!(first == second && first == third, "{heard:?}");
    // Only the first tokens match nothing.
    let [_, all] = first.tokens;
    assert!(2 * again > all, "{again} of {all}");
    assert!(again > of_other, "{of_other} of another user");
}

/// What answers must fit: texts that are forced in part, and numbers, whose masks a limit changes.
fn grammars() -> [Grammar; 5] {
    [
        Grammar::JsonSchema(
            r#"{"type": "object", "properties": {"say": {"type": "string", "maxLength": 12}, "far": {"type": "number"},
            "how": {"enum": ["hello", "slow"]}}, "required": ["say", "far", "how"], "additionalProperties": false}"#
                .into(),
        ),
        Grammar::JsonSchema(
            r#"{"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 5}"#.into(),
        ),
        Grammar::Regex("(hello |[a-d]{1,3} ){2,9}".into()),
        Grammar::Regex("(hello ){6}".into()),
        Grammar::Json,
    ]
}

/// Asks a question of each of some users at once, whose answers must fit one of the grammars.
pub(super) async fn ask_guided(
    engine: &Handle,
    users: u32,
    guess: Option<&Guess>,
) -> (Vec<Answer>, Counts) {
    let all = grammars();
    // Each grammar is answered by greedy and sampled answers, with and without probabilities.
    let grammar = |user| all[(user + users) as usize % all.len()].clone();
    ask_fitting(engine, users, guess, grammar).await
}

/// Asks a question of each of some users at once, whose answers must fit the user's grammar.
pub(super) async fn ask_fitting(
    engine: &Handle,
    users: u32,
    guess: Option<&Guess>,
    grammar: impl Fn(u32) -> Grammar,
) -> (Vec<Answer>, Counts) {
    let mut asked = Vec::new();
    for user in 0..users {
        let message = Message::new(Role::User, format!("hello hello hello hello {user}"));
        let options = Options {
            grammar: Some(grammar(user)),
            ..options(user, None, guess)
        };
        let ticket = engine.generate(client(user), vec![message], options).await;
        asked.push(ticket.expect("it is accepted"));
    }
    let (mut answers, mut counts) = (Vec::new(), Counts::default());
    for ticket in asked {
        let (answer, Outcome { usage, .. }) = hear(ticket).await;
        answers.push(answer);
        counts.proposed += usage.proposed_tokens;
        counts.accepted += usage.accepted_tokens;
    }
    (answers, counts)
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_change_no_guided_answer() {
    for folder in models() {
        let engine = Engine::start(folder.path(), 8, 8).await;
        let handle = &engine.handle;
        let [mut of_known, mut of_others] = [Counts::default(); 2];
        for users in [1, 2, 3, 4, 5, 8] {
            let (plain, counts) = ask_guided(handle, users, None).await;
            assert_eq!(counts.proposed, 0);
            let [learns, knows] = of_known_answers();
            let (answers, _) = ask_guided(handle, users, Some(&learns)).await;
            assert_eq!(answers, plain, "{users} users");
            for (name, guess) in all().into_iter().chain([("known", knows)]) {
                let (answers, counts) = ask_guided(handle, users, Some(&guess)).await;
                assert_eq!(answers, plain, "{name}, {users} users");
                println!("{name}, {users} users: {counts:?}");
                let sum = if name == "known" {
                    &mut of_known
                } else {
                    &mut of_others
                };
                sum.proposed += counts.proposed;
                sum.accepted += counts.accepted;
            }
        }
        assert!(of_known.accepted > 50, "{of_known:?}");
        assert!(of_others.proposed > of_others.accepted, "{of_others:?}");
    }
}
