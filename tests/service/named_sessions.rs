//! Named sessions survive their callers, the daemon and a power cut, and belong to their user alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ganglion::bus::Error;
use ganglion::bus::proxy::{DiagnosticsProxy, Fields, SessionProxy};
use ganglion::files::Disk;
use ganglion::model::{Message, Role};
use ganglion::session_store::{Durability, Name, Quota, Store};
use ganglion::telemetry::FinishReason;
use zbus::Variant;

use crate::support::attack::calls;
use crate::support::daemon::{Client, EVENTUALLY, until};
use crate::support::needs;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::restartable::Restartable;
use crate::support::stream::Reader;
use crate::support::tiny_gguf;
use crate::support::unchecked_bus::{UncheckedBus, UncheckedClient};

fn fields<'a, const N: usize>(entries: [(&'a str, Variant<'a>); N]) -> Fields<'a> {
    Fields::from(entries)
}

/// A bus, a folder for sessions, and the daemon that uses both.
struct Robot {
    bus: PrivateBus,
    folder: tempfile::TempDir,
    daemon: Option<Process>,
}

impl Robot {
    fn new() -> Self {
        Self {
            bus: PrivateBus::start(),
            folder: tempfile::tempdir().expect("a temporary folder"),
            daemon: None,
        }
    }

    /// Starts the daemon. A running one is killed first, like by a power cut.
    async fn start(&mut self, script: &str, more: &str) -> Client {
        drop(self.daemon.take());
        let folder = self.folder.path().join("sessions");
        let config = format!("sessions.directory = '{}'\n{more}", folder.display());
        self.daemon = Some(Process::start(&self.bus, script, &config).await);
        self.client().await
    }

    /// Starts the daemon with a model.
    async fn start_model(&mut self, model: &str, more: &str) -> Client {
        drop(self.daemon.take());
        let folder = self.folder.path().join("sessions");
        let config = format!(
            "backend = 'cpu'\nmodel.path = '{model}'\nkv.context = 2048\nsessions.directory = '{}'\n{more}",
            folder.display()
        );
        self.daemon = Some(Process::serving(&self.bus, &config).await);
        self.client().await
    }

    async fn client(&self) -> Client {
        Client::connect(&self.bus).await
    }
}

async fn open(client: &Client, name: &str) -> Result<SessionProxy<'static>, Error> {
    let options = fields([("name", name.into())]);
    let path = client.manager.open_session(options).await?;
    Ok(client.session(path).await)
}

async fn say(session: &SessionProxy<'_>, text: &str) -> String {
    let (_, stream) = session.send(text, fields([])).await.expect("it is sent");
    let answer = Reader::new(stream).answer().await;
    assert_eq!(answer.error, None);
    answer.text
}

async fn texts(session: &SessionProxy<'_>) -> Vec<String> {
    let history = session.history().await.expect("it is read");
    history.into_iter().map(|(_, text)| text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_session_outlives_its_caller_and_the_daemon() {
    let mut robot = Robot::new();
    let first = robot.start("", "").await;
    let options = || {
        fields([
            ("name", "talk".into()),
            ("system", "be brief".into()),
            ("max_tokens", 3u32.into()),
        ])
    };
    let path = first.manager.open_session(options()).await.unwrap();
    let session = first.session(path.clone()).await;
    assert_eq!(say(&session, "one two three four").await, "sim: one two");

    // Another connection gets it only with `take`, and the first then loses it.
    let second = robot.client().await;
    let held = open(&second, "talk").await.expect_err("it is held");
    let holder = first.connection.unique_name().expect("a name").to_string();
    assert!(
        matches!(&held, Error::Busy(why) if why.contains(&holder)),
        "{held}"
    );
    let take = fields([("name", "talk".into()), ("take", true.into())]);
    let taken = second.manager.open_session(take).await.unwrap();
    let taken = second.session(taken).await;
    let gone = session.send("x", fields([])).await;
    assert!(matches!(gone, Err(Error::Bus(_))), "{gone:?}");
    assert_eq!(say(&taken, "five six seven").await, "sim: five six");
    let expected = [
        "be brief",
        "one two three four",
        "sim: one two",
        "five six seven",
        "sim: five six",
    ];
    assert_eq!(texts(&taken).await, expected);
    drop((second, taken, session));

    // The caller has left. Its first options may be repeated, and no others.
    let third = robot.client().await;
    let session = loop {
        match third.manager.open_session(options()).await {
            Ok(path) => break third.session(path).await,
            Err(Error::Busy(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(texts(&session).await, expected);
    session.close().await.unwrap();
    let other = fields([("name", "talk".into()), ("system", "be long".into())]);
    let refused = third.manager.open_session(other).await;
    assert!(
        matches!(refused, Err(Error::InvalidOption(_))),
        "{refused:?}"
    );

    // The daemon is killed.
    let client = robot.start("", "").await;
    let listed = client.manager.list_sessions().await.unwrap();
    assert_eq!(listed.keys().collect::<Vec<_>>(), ["talk"]);
    assert_eq!(u32::try_from(&listed["talk"]["turns"]).unwrap(), 2);
    let session = open(&client, "talk").await.unwrap();
    assert_eq!(texts(&session).await, expected);
    assert_eq!(session.turns().await.unwrap(), 2);
    assert_eq!(
        say(&session, "a b c d").await,
        "sim: a b",
        "its options, too"
    );
    session.rewind(2).await.unwrap();
    let diagnostics = DiagnosticsProxy::new(&client.connection).await.unwrap();
    let timing = diagnostics.timing().await.unwrap();
    assert_eq!(u64::try_from(&timing["commits"]).unwrap(), 2);

    let client = robot.start("", "").await;
    let session = open(&client, "talk").await.unwrap();
    assert_eq!(texts(&session).await, expected[..3], "the rewind is stored");
    let refused = client.manager.delete_session("talk").await;
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    session.close().await.unwrap();
    client.manager.delete_session("talk").await.unwrap();
    assert!(client.manager.list_sessions().await.unwrap().is_empty());
    let client = robot.start("", "").await;
    assert!(client.manager.list_sessions().await.unwrap().is_empty());
}

/// A turn whose caller leaves keeps its partial answer, and the next turn continues from there.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_turn_keeps_its_partial_answer() {
    let mut robot = Robot::new();
    let client = robot
        .start("tokens=100000,delay=1ms", "limits.max_tokens = 100000")
        .await;
    let session = open(&client, "talk").await.unwrap();
    let options = fields([("max_tokens", 100_000u32.into())]);
    let (request, stream) = session.send("go", options).await.unwrap();
    let mut reader = Reader::new(stream);
    for _ in 0..5 {
        reader.next().await.expect("a frame");
    }
    client.request(request).await.cancel().await.unwrap();
    reader.rest().await;
    let said = texts(&session).await;
    assert!(said[1].starts_with("sim: go go"), "{said:?}");
    let client = robot.start("", "").await;
    let session = open(&client, "talk").await.unwrap();
    assert_eq!(texts(&session).await, said);
    let messages = session.messages().await.unwrap();
    assert!(bool::try_from(&messages[1].1["partial"]).unwrap());
    session.rewind(1).await.unwrap();
    assert!(texts(&session).await.is_empty());
}

/// With a script, whose daemon is ready at once. `GANGLION_KILLS` sets more kills.
#[tokio::test(flavor = "multi_thread")]
async fn every_reported_answer_survives_kill_9() {
    let kills = std::env::var("GANGLION_KILLS").ok();
    let kills: u32 = kills.map_or(20, |kills| kills.parse().expect("a number"));
    killed(kills, None).await;
}

/// With SmolLM2, where each kill takes some seconds; `GANGLION_MODEL_KILLS` sets more.
#[tokio::test(flavor = "multi_thread")]
async fn every_answer_of_a_model_outlives_kill_9() {
    let Ok(kills) = std::env::var("GANGLION_MODEL_KILLS") else {
        return;
    };
    if !needs::smollm2() {
        return;
    }
    let model = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/target/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    );
    let kills = kills.parse().expect("a number");
    killed(kills, Some(model)).await;
}

/// Returns a short answer after its reported end, or `None` if the daemon ends first.
async fn short(session: &SessionProxy<'_>, text: &str) -> Option<String> {
    let options = fields([("max_tokens", 4u32.into())]);
    let (_, stream) = session.send(text, options).await.ok()?;
    let (mut reader, mut answer) = (Reader::new(stream), String::new());
    loop {
        match reader.next().await? {
            ganglion::bus::Frame::Text { text, .. } => answer += &text,
            ganglion::bus::Frame::Done { .. } => return Some(answer),
            _ => {}
        }
    }
}

/// Kills a daemon that many times at a random moment of its first turns, and compares the stored turns with the
/// reported ones.
async fn killed(kills: u32, model: Option<&str>) {
    // The most turns of a session: a model prefills them again after each kill.
    let turns = if model.is_some() { 4 } else { 40 };
    let mut robot = Robot::new();
    // The time limit of a model's kill is the length of its last turn.
    let mut within = Duration::from_millis(40);
    let mut random = fastrand::Rng::with_seed(9);
    // The reported answers of each session.
    let mut reported: Vec<Vec<String>> = vec![Vec::new()];
    let mut acknowledged = 0;
    for kill in 0..kills {
        let config = "sessions.mib_per_user = 1024\nsessions.per_user = 1024";
        let client = match model {
            None => robot.start("", config).await,
            Some(model) => robot.start_model(model, config).await,
        };
        if reported
            .last()
            .is_some_and(|reported| reported.len() > turns)
        {
            reported.push(Vec::new());
        }
        let session = open(&client, &format!("talk{}", reported.len()))
            .await
            .unwrap();
        let found = texts(&session).await;
        let reported = reported.last_mut().expect("there is one");
        let answers: Vec<_> = found.into_iter().skip(1).step_by(2).collect();
        // The last turn may be stored although its end was not reported.
        let more = answers.len().checked_sub(reported.len());
        assert!(
            more.is_some_and(|more| more < 2) && answers.starts_with(reported),
            "kill {kill}: {reported:?} was reported, {answers:?} is stored"
        );
        *reported = answers;
        let before = reported.len();
        let mut asked = (0..).map(|n| format!("{kill} {n}"));
        // The slow model has completed up to two turns and is in the middle of the next.
        let ended = if model.is_some() { kill % 3 } else { 0 };
        for text in asked.by_ref().take(ended as usize) {
            let begun = Instant::now();
            reported.push(short(&session, &text).await.expect("it lives"));
            within = begun.elapsed();
        }
        let talks = async {
            for text in asked {
                match short(&session, &text).await {
                    Some(answer) => reported.push(answer),
                    None => return,
                }
            }
        };
        // The kill happens at any moment within this time.
        let until = within.mul_f64(random.f64());
        let _ = tokio::time::timeout(until, talks).await;
        acknowledged += reported.len() - before;
    }
    // The sessions of earlier kills are unchanged.
    let client = robot.start("", "sessions.per_user = 1024").await;
    let (last, before) = reported.split_last().expect("there is one");
    for (at, reported) in before.iter().enumerate() {
        let session = open(&client, &format!("talk{}", at + 1)).await.unwrap();
        let found = texts(&session).await;
        let answers: Vec<_> = found.into_iter().skip(1).step_by(2).collect();
        assert!(answers.starts_with(reported) && answers.len() < reported.len() + 2);
        session.close().await.unwrap();
    }
    assert!(acknowledged > 0, "{last:?}");
}

/// With the stored tokens a conversation continues as if nothing had happened.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_continues_after_a_restart() {
    let mut served = Restartable::new();
    let folder = served.folder.path().join("sessions");
    let config = format!(
        "kv.context = 256\nsessions.directory = '{}'\n",
        folder.display()
    );
    let turns = ["one", "two", "three"];
    let mut whole = Vec::new();
    let client = served.start(&config).await;
    let options = || {
        fields([
            ("max_tokens", 12u32.into()),
            ("temperature", 1.0.into()),
            ("seed", 7u64.into()),
        ])
    };
    let scored = || ("logprobs", 1u32.into());
    let path = client.manager.open_session(options()).await.unwrap();
    let session = client.session(path).await;
    for turn in turns {
        let (_, stream) = session.send(turn, fields([scored()])).await.unwrap();
        let answer = Reader::new(stream).answer().await;
        whole.push((answer.text, answer.usage.prompt_tokens, answer.logprobs));
    }
    let mut parts = Vec::new();
    for turn in turns {
        let client = served.start(&config).await;
        let session = open(&client, "talk").await.unwrap();
        let mut with = options();
        with.extend([scored()]);
        let (_, stream) = session.send(turn, with).await.unwrap();
        let answer = Reader::new(stream).answer().await;
        parts.push((answer.text, answer.usage.prompt_tokens, answer.logprobs));
    }
    assert_eq!(parts, whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_be_stored_is_refused_with_a_remedy() {
    let mut robot = Robot::new();
    let client = robot.start("", "sessions.per_user = 1").await;
    let session = open(&client, "one").await.unwrap();
    say(&session, "hello").await;
    match open(&client, "two").await {
        Err(Error::QuotaExceeded(why)) => assert!(why.contains("sessions.per_user"), "{why}"),
        other => panic!("{other:?}"),
    }
    let memory = fields([("name", "two".into()), ("persistent", false.into())]);
    client
        .manager
        .open_session(memory)
        .await
        .expect("it is not kept");
    let differs = fields([
        ("name", "one".into()),
        ("persistent", false.into()),
        ("take", true.into()),
    ]);
    let refused = client.manager.open_session(differs).await;
    assert!(
        matches!(refused, Err(Error::InvalidOption(_))),
        "{refused:?}"
    );

    // The folder is replaced by a file.
    let sessions = robot.folder.path().join("sessions");
    let client = robot.start("", "").await;
    std::fs::remove_dir_all(&sessions).unwrap();
    std::fs::write(&sessions, "").unwrap();
    let refusals = [
        open(&client, "one").await.map(drop),
        client.manager.list_sessions().await.map(drop),
        client.manager.delete_session("one").await,
    ];
    for refused in refusals {
        assert!(
            matches!(refused, Err(Error::EngineFailed(_))),
            "{refused:?}"
        );
    }
}

/// A branch has the same prefix without a prefill, and both continue separately.
#[tokio::test(flavor = "multi_thread")]
async fn a_branch_shares_the_prefix_and_continues_separately() {
    let mut served = Restartable::new();
    let folder = served.folder.path().join("sessions");
    let config = format!(
        "kv.context = 256\nsessions.directory = '{}'\n",
        folder.display()
    );
    let client = served.start(&config).await;
    let session = open(&client, "talk").await.unwrap();
    let options = || fields([("max_tokens", 8u32.into())]);
    let (_, stream) = session.send("one", options()).await.unwrap();
    Reader::new(stream).answer().await;
    let path = session.branch().await.unwrap();
    let branch = client.session(path).await;
    assert_eq!(texts(&branch).await, texts(&session).await);
    let (_, stream) = branch.send("two", options()).await.unwrap();
    let other = Reader::new(stream).answer().await;
    assert!(other.usage.cached_tokens > 10, "{other:?}");
    assert_eq!(
        (
            session.turns().await.unwrap(),
            branch.turns().await.unwrap()
        ),
        (1, 2)
    );
    let (_, stream) = session.send("two", options()).await.unwrap();
    assert_eq!(Reader::new(stream).answer().await.text, other.text);
    branch.close().await.unwrap();
    assert_eq!(session.turns().await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn appended_messages_are_stored_and_belong_to_the_next_turn() {
    let mut robot = Robot::new();
    let client = robot.start("", "").await;
    let session = open(&client, "talk").await.unwrap();
    say(&session, "one").await;
    let seen = |text: &'static str| [("user", fields([("content", text.into())]))];
    session.append(&seen("a door")).await.unwrap();
    let client = robot.start("", "").await;
    let session = open(&client, "talk").await.unwrap();
    assert_eq!(texts(&session).await, ["one", "sim: one", "a door"]);
    session.rewind(0).await.unwrap();
    assert_eq!(texts(&session).await, ["one", "sim: one"]);
    session.append(&seen("a wall")).await.unwrap();
    say(&session, "two").await;
    let whole = ["one", "sim: one", "a wall", "two", "sim: two"];
    assert_eq!(texts(&session).await, whole);
    let client = robot.start("", "").await;
    let session = open(&client, "talk").await.unwrap();
    assert_eq!(texts(&session).await, whole);
    assert_eq!(session.turns().await.unwrap(), 2);
    session.rewind(1).await.unwrap();
    assert_eq!(texts(&session).await, ["one", "sim: one"]);
}

/// With a script, whose words are its tokens.
#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_turns_make_room_at_the_contexts_end() {
    let mut robot = Robot::new();
    let client = robot.start("context=40", "").await;
    let options = |overflow: &'static str| {
        fields([
            ("name", overflow.into()),
            ("system", "be brief".into()),
            ("max_tokens", 4u32.into()),
            ("context_overflow", overflow.into()),
        ])
    };
    let path = client.manager.open_session(options("error")).await.unwrap();
    let strict = client.session(path).await;
    let path = client
        .manager
        .open_session(options("truncate_oldest"))
        .await
        .unwrap();
    let session = client.session(path).await;
    let mut dropped = Vec::new();
    for n in 0..8 {
        let text = format!("{n} two three four five");
        // The prefix without the dropped turn is prefilled in advance, and cached afterwards.
        session.prewarm(&text).await.unwrap();
        let (_, stream) = session.send(&text, fields([])).await.unwrap();
        let answer = Reader::new(stream).answer().await;
        assert_eq!(answer.error, None);
        assert!(answer.usage.prompt_tokens <= 36, "{answer:?}");
        dropped.push(answer.usage.dropped_turns);
        if n < 3 {
            say(&strict, &text).await;
        }
    }
    // Two words and nine per turn: the fourth would leave no room for its answer, and seven words of each quarter are
    // free.
    assert_eq!(dropped, [0, 0, 0, 0, 2, 0, 2, 0]);
    let full = strict
        .send(
            "x two three four five six seven eight nine ten eleven",
            fields([]),
        )
        .await;
    assert!(matches!(full, Err(Error::ContextFull(_))), "{full:?}");
    let full = strict
        .prewarm("x two three four five six seven eight nine ten eleven")
        .await;
    assert!(matches!(full, Err(Error::ContextFull(_))), "{full:?}");
    assert_eq!(strict.turns().await.unwrap(), 3, "nothing is lost");
    let said = texts(&session).await;
    assert_eq!(said[0], "be brief");
    assert!(said[1].starts_with('4'), "{said:?}");
    let client = robot.start("context=40", "").await;
    let session = open(&client, "truncate_oldest").await.unwrap();
    assert_eq!(texts(&session).await, said);
    assert_eq!(session.turns().await.unwrap(), 4);
    session.rewind(3).await.unwrap();
    assert_eq!(texts(&session).await, said[..3]);
    say(&session, "it goes on").await;
}

/// The typed text so far is cached when the rest arrives; nothing else changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_prewarmed_prefix_is_not_prefilled_again() {
    let mut served = Restartable::new();
    let client = served.start("kv.context = 256\n").await;
    let mut answers = Vec::new();
    // No other prefix is cached.
    for (system, warm) in [("a", false), ("b", true), ("b", false)] {
        let options = fields([("max_tokens", 8u32.into()), ("system", system.into())]);
        let path = client.manager.open_session(options).await.unwrap();
        let session = client.session(path).await;
        let (_, stream) = session.send("one", fields([])).await.unwrap();
        Reader::new(stream).answer().await;
        let before = texts(&session).await;
        if warm {
            session.prewarm("the quick brown").await.unwrap();
            session
                .prewarm("the quick brown fox jumps over")
                .await
                .unwrap();
            assert!(!session.busy().await.unwrap());
            until(async || client.manager.queue_length().await.unwrap() == 0).await;
            assert_eq!(texts(&session).await, before);
            assert_eq!(session.turns().await.unwrap(), 1);
        }
        let text = "the quick brown fox jumps over it";
        let (_, stream) = session.send(text, fields([])).await.unwrap();
        answers.push(Reader::new(stream).answer().await);
        if warm {
            // A waiting prefill is preempted.
            session.prewarm("and then").await.unwrap();
            let (_, stream) = session.send("and now", fields([])).await.unwrap();
            assert_eq!(Reader::new(stream).answer().await.error, None);
            // So is it by two at once, neither of which ends the other.
            for _ in 0..8 {
                session.prewarm("and then").await.unwrap();
                let (one, other) = tokio::join!(
                    session.send("left", fields([])),
                    session.send("right", fields([]))
                );
                assert!(one.is_ok() || other.is_ok(), "{one:?} {other:?}");
                let mut turns = 0;
                for (_, stream) in [one, other].into_iter().flatten() {
                    let answer = Reader::new(stream).answer().await;
                    assert_ne!(answer.reason, FinishReason::Cancelled);
                    turns += 1;
                }
                session.rewind(turns).await.unwrap();
            }
            session.prewarm("and then").await.unwrap();
            session.branch().await.unwrap();
            session.prewarm("and then").await.unwrap();
            session.rewind(1).await.unwrap();
            assert_eq!(session.turns().await.unwrap(), 2);
        }
        session.close().await.unwrap();
    }
    let [cold, warm, again] = &answers[..] else {
        panic!("three");
    };
    assert_eq!(warm.text, again.text);
    let more = warm.usage.cached_tokens - cold.usage.cached_tokens;
    assert!(more > 10, "{cold:?} {warm:?}");
}

/// Users are identified by the bus.
#[test]
fn a_session_belongs_to_its_user_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = format!(
        "sessions.directory = '{}/sessions'\n",
        folder.path().display()
    );
    let bus = UncheckedBus::start();
    let daemon = Process::on(bus.text(), &["--sim="], &config);
    let [mut owner, mut other] = [1001, 1002].map(|user| bus.client(user));
    bus.wait_for_daemon();
    daemon.settle();
    let named = || calls::open_session([("name", "secret".into()), ("system", "mine".into())]);
    let ask = |client: &mut UncheckedClient, call| {
        let sent = client.send(call).expect("it is connected");
        client.reply(sent, EVENTUALLY).expect("an answer")
    };
    let opened = ask(&mut owner, named());
    assert_eq!(opened.error, "");
    let path = opened.text().expect("a session");
    let listed = ask(&mut owner, calls::manager("ListSessions"));
    assert!(
        listed.error.is_empty() && listed.has("secret"),
        "{listed:?}"
    );
    let listed = ask(&mut other, calls::manager("ListSessions"));
    assert!(
        listed.error.is_empty() && !listed.has("secret"),
        "{listed:?}"
    );
    // The error does not reveal that another user has a session of that name.
    let delete = || calls::manager("DeleteSession").with("secret");
    let refused = ask(&mut other, delete());
    assert!(refused.error.ends_with("InvalidOption"), "{refused:?}");
    let refused = ask(&mut owner, delete());
    assert!(refused.error.ends_with("Busy"), "{refused:?}");
    // The other user's session of that name is separate.
    let theirs = ask(&mut other, calls::open_session([("name", "secret".into())]));
    assert_eq!(theirs.error, "");
    assert_ne!(theirs.text().expect("a session"), path);
    let history = ask(&mut owner, calls::session(&path, "History"));
    assert_eq!(history.error, "", "it is still the first one's");
    let history = ask(&mut other, calls::session(&path, "History"));
    assert!(history.error.ends_with("UnknownObject"), "{history:?}");
    for user in ["1001", "1002"] {
        let file = folder
            .path()
            .join("sessions")
            .join(user)
            .join("secret.session");
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file).unwrap());
        assert_eq!(mode & 0o777, 0o600);
        let above = std::fs::metadata(file.parent().unwrap()).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&above) & 0o777, 0o700);
    }
}

/// An option that its user may no longer use does not make a session inaccessible.
#[test]
fn a_priority_that_is_no_longer_allowed_keeps_a_session_accessible() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("sessions");
    let config = format!("sessions.directory = '{}'\n", root.display());
    let quota = Quota {
        sessions: 1,
        bytes: 1 << 20,
    };
    let store = Store::new(Arc::new(Disk), root, Durability::Turn, quota).expect("a thread");
    let options = serde_json::Map::from_iter([("priority".to_owned(), "realtime".into())]);
    let name = Name::new("talk").expect("a name");
    let said = vec![Message::new(Role::User, "hello")];
    drop(
        store
            .create(1001, &name, said, options)
            .expect("it is made"),
    );

    let bus = UncheckedBus::start();
    let daemon = Process::on(bus.text(), &["--sim="], &config);
    let mut owner = bus.client(1001);
    bus.wait_for_daemon();
    daemon.settle();
    let mut ask = |call| {
        let sent = owner.send(call).expect("it is connected");
        owner.reply(sent, EVENTUALLY).expect("an answer")
    };
    let urgent = [("name", "talk".into()), ("priority", "realtime".into())];
    let refused = ask(calls::open_session(urgent));
    assert!(refused.error.ends_with("InvalidOption"), "{refused:?}");
    let opened = ask(calls::open_session([("name", "talk".into())]));
    assert_eq!(opened.error, "");
}

/// A prefix that was cached for one user is prefilled again for another, who learns nothing of it.
#[test]
fn a_prefix_of_one_user_serves_no_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("tiny.gguf");
    std::fs::write(&model, tiny_gguf::with_vocabulary().file()).expect("it is written");
    let config = format!(
        "backend = 'cpu'\nmodel.path = '{}'\nkv.context = 256\n",
        model.display()
    );
    let bus = UncheckedBus::start();
    let _daemon = Process::on(bus.text(), &[], &config);
    let cached = |user: u32| {
        let mut client = bus.client(user);
        let until = Instant::now() + EVENTUALLY;
        loop {
            let call = calls::complete("a secret of mine", [("max_tokens", 2u32.into())]);
            // The daemon may still be starting.
            let sent = client.send(call).ok();
            let reply = sent.and_then(|sent| client.reply(sent, EVENTUALLY));
            match reply {
                Some(reply) if reply.error.is_empty() => {
                    break reply.number("cached_tokens").expect("a number");
                }
                other => assert!(Instant::now() < until, "{other:?}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    assert_eq!(cached(1001), 0);
    assert!(cached(1001) > 0);
    assert_eq!(cached(1002), 0);
    assert!(cached(1002) > 0);
}
