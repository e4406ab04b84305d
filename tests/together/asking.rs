//! Single questions of new users, and their answers.

use ganglion::engine::{
    Client, Event, FinishReason, Handle, Message, Options, Outcome, Priority, Role, Ticket,
};
use ganglion::guide::Grammar;
use ganglion::sampler::Parameters;

use super::talk::GRAMMARS;

/// Asks a question for a new user, and returns its answer's events.
pub(super) async fn ask(engine: &Handle, user: u32, options: Options) -> (Ticket, String) {
    let client = Client {
        name: format!(":1.{user}").into(),
        user,
    };
    let question = Message::new(Role::User, format!("hello robot {user}"));
    let asked = engine.generate(client, vec![question], options).await;
    (asked.expect("it is accepted"), String::new())
}

/// Follows an answer to its end, or to its first text.
pub(super) async fn follow((ticket, text): &mut (Ticket, String), to_end: bool) -> Option<Outcome> {
    loop {
        match ticket.events.recv().await.expect("it ends") {
            Event::Text(more) => {
                *text += &more;
                if !to_end {
                    return None;
                }
            }
            Event::Done(outcome) => {
                assert_eq!(outcome.error, None);
                return Some(outcome);
            }
            Event::Likelihood(_) | Event::Reasoning(_) | Event::Call(_) => {}
        }
    }
}

pub(super) fn sampled(user: u32, tokens: usize, priority: Priority) -> Options {
    Options {
        priority,
        ..Options::new(
            tokens,
            Parameters {
                temperature: if user.is_multiple_of(2) { 0.0 } else { 1.0 },
                repetition_penalty: 1.3,
                seed: user.into(),
                ..Parameters::default()
            },
        )
    }
}

/// Asks several questions of a user in sequence, and returns the answers.
pub(super) async fn questions(engine: &Handle, user: u32) -> Vec<(String, FinishReason)> {
    let mut texts = Vec::new();
    for number in 0..12 {
        let seed = user * 100 + number;
        let (at, priority) = (seed as usize, Priority::ALL[seed as usize % 3]);
        let options = Options {
            grammar: GRAMMARS[at % GRAMMARS.len()].map(|schema| Grammar::JsonSchema(schema.into())),
            ..sampled(seed, 20 + at % 60, priority)
        };
        let mut asked = ask(engine, user, options).await;
        let outcome = follow(&mut asked, true).await.expect("its end");
        texts.push((asked.1, outcome.reason));
    }
    texts
}
