//! What requests of one user share: prefixes, and their part of the cache.

use ganglion::engine::{Client, Event, Held, Limits, Message, Options, Refusal, Role, UserLimits};
use ganglion::sampler::Parameters;

use super::asking::follow;
use super::engine::{Engine, LIMITS, hold_device};
use crate::support::tiny_gguf;

/// Simultaneous requests of one user prefill their common prefix once; another user's request prefills it again.
#[tokio::test(flavor = "multi_thread")]
async fn simultaneous_requests_of_a_user_prefill_their_common_prefix_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    let engine = Engine::with_context(folder.path(), 8, 4, 512).await;
    let hold = hold_device(&engine.handle, Held::All, "until all wait");
    let rules = "hello a robot ".repeat(30);
    let mut tickets = Vec::new();
    for (number, user) in (0..).zip([1, 1, 2, 1]) {
        let client = Client {
            name: format!(":1.{number}").into(),
            user,
        };
        let said = vec![
            Message::new(Role::System, rules.clone()),
            Message::new(Role::User, ["hello", "a", "robot", "hello a"][number]),
        ];
        let options = Options::new(8, Parameters::default());
        let asked = engine.handle.generate(client, said, options).await;
        tickets.push((asked.expect("it is accepted"), String::new()));
    }
    drop(hold);
    let mut cached = Vec::new();
    for asked in &mut tickets {
        let usage = loop {
            if let Some(outcome) = follow(asked, true).await {
                break outcome.usage;
            }
        };
        assert!(usage.prompt_tokens > 128, "{usage:?}");
        cached.push(usage.cached_tokens);
    }
    let (first, others) = (cached[0], [cached[1], cached[3]]);
    assert_eq!((first, cached[2]), (0, 0), "{cached:?}");
    assert!(others.iter().all(|cached| *cached > 128), "{cached:?}");
}

/// A user beyond its share of the cache waits for its own requests, and delays no other user. A request that could
/// never start is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_a_share_of_the_cache() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = tiny_gguf::with_vocabulary().file();
    std::fs::write(folder.path().join("tiny.gguf"), model).expect("it is written");
    // Eight pages.
    let engine = Engine::start(folder.path(), 8, 2).await;
    let share = |kv_percent| {
        let user = UserLimits {
            kv_percent,
            ..LIMITS.user
        };
        engine.handle.set_limits(Limits { user, ..LIMITS });
    };
    let ask = |user: u32| {
        let client = Client {
            name: format!(":1.{user}").into(),
            user,
        };
        let question = Message::new(Role::User, "hello");
        let options = Options::new(200, Parameters::default());
        engine.handle.generate(client, vec![question], options)
    };
    share(25);
    let refused = ask(1).await;
    assert!(
        matches!(
            refused,
            Err(Refusal::UserPages {
                user: 1,
                share: 2,
                percent: 25,
                ..
            })
        ),
        "{refused:?}"
    );
    share(50);
    let hold = hold_device(&engine.handle, Held::All, "until all wait");
    let mut tickets = Vec::new();
    for user in [1, 1, 2] {
        tickets.push(ask(user).await.expect("it is within its share"));
    }
    drop(hold);
    let ids: Vec<u64> = tickets.iter().map(|ticket| ticket.id).collect();
    for mut ticket in tickets {
        while !matches!(ticket.events.recv().await, Some(Event::Done(_))) {}
    }
    engine.handle.idle().await;
    let events = engine.journal.take();
    let at = |id: u64, field: &str| {
        let of = events.iter().position(|entry| {
            entry.get("request_id").map(String::as_str) == Some(&id.to_string())
                && entry.contains_key(field)
        });
        of.expect("an event")
    };
    let [began, ended] = ["sequence", "finish_reason"];
    assert!(at(ids[2], began) < at(ids[0], ended), "{events:?}");
    assert!(at(ids[1], began) > at(ids[0], ended), "{events:?}");
}
