//! Cancelled turns of a session. A partial answer stays and is marked; without one the session is unchanged.

use ganglion::bus::proxy::{Fields, SessionProxy};
use ganglion::engine::FinishReason;
use zbus::Variant;

use super::fields;
use crate::support::daemon::{Client, Daemon, until};
use crate::support::stream::Reader;

/// More tokens than any test reads.
const SLOW: &str = "tokens=4000,delay=5ms";

async fn open(client: &Client) -> SessionProxy<'static> {
    let path = client.manager.open_session(fields([])).await.unwrap();
    client.session(path).await
}

fn long() -> Fields<'static> {
    fields([("max_tokens", 4096u32.into())])
}

/// Role, text, and whether the message is partial.
async fn messages(session: &SessionProxy<'_>) -> Vec<(String, String, bool)> {
    let messages = session.messages().await.unwrap();
    let read = messages.into_iter().map(|(role, mut fields)| {
        let text = String::try_from(fields.remove("content").unwrap()).unwrap();
        let partial = fields
            .remove("partial")
            .is_some_and(|partial| *partial == Variant::from(true));
        assert!(fields.is_empty(), "{fields:?}");
        (role, text, partial)
    });
    read.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn before_its_first_token_a_cancelled_turn_leaves_the_session_as_it_was() {
    let daemon = Daemon::start("first=3600s").await;
    let client = daemon.client().await;
    let (session, other) = (open(&client).await, open(&client).await);
    // One request prefills, the other waits.
    for session in [&session, &other] {
        let (request, stream) = session.send("one", fields([])).await.unwrap();
        client.request(request).await.cancel().await.unwrap();
        let answer = Reader::new(stream).answer().await;
        assert_eq!(
            (answer.reason, answer.text.as_str()),
            (FinishReason::Cancelled, "")
        );
        assert_eq!(messages(session).await, []);
        assert_eq!(
            (
                session.turns().await.unwrap(),
                session.context_used().await.unwrap()
            ),
            (0, 0)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_answers_a_cancelled_turn_keeps_its_part_which_is_marked() {
    let daemon = Daemon::start(SLOW).await;
    let client = daemon.client().await;
    let session = open(&client).await;
    let (request, stream) = session.send("word", long()).await.unwrap();
    let mut reader = Reader::new(stream);
    for _ in 0..3 {
        reader.next().await;
    }
    client.request(request).await.cancel().await.unwrap();
    let answer = reader.answer().await;
    assert_eq!(answer.reason, FinishReason::Cancelled);
    let [(user, question, false), (assistant, said, true)] = &messages(&session).await[..] else {
        panic!("{:?}", messages(&session).await);
    };
    assert_eq!([user, question, assistant], ["user", "word", "assistant"]);
    assert!(
        said.starts_with("sim: word word") && said.ends_with(&answer.text),
        "{said}"
    );
    assert_eq!(
        said.split(' ').count(),
        answer.usage.completion_tokens as usize
    );

    // The next turn continues from the partial answer, and is complete.
    let short = || fields([("max_tokens", 2u32.into())]);
    let (_, stream) = session.send("next", short()).await.unwrap();
    let next = Reader::new(stream).answer().await;
    let cached = next.usage.cached_tokens;
    assert_eq!(
        cached,
        answer.usage.prompt_tokens + answer.usage.completion_tokens
    );
    let marks: Vec<_> = messages(&session)
        .await
        .into_iter()
        .map(|(_, _, partial)| partial)
        .collect();
    assert_eq!(marks, [false, true, false, false]);

    // The messages can be sent in another request.
    let mut asked = session.messages().await.unwrap();
    asked.push((
        "user".into(),
        [("content".to_owned(), zbus::Str::from("again").into())].into(),
    ));
    let asked: Vec<_> = asked
        .iter()
        .map(|(role, fields)| {
            let fields = fields
                .iter()
                .map(|(name, value)| (name.as_str(), value.try_clone().unwrap().into()));
            (role.as_str(), fields.collect::<Fields<'_>>())
        })
        .collect();
    let (_, stream) = client.manager.generate(&asked, short()).await.unwrap();
    assert_eq!(Reader::new(stream).answer().await.text, "sim: again");

    session.rewind(1).await.unwrap();
    assert!(messages(&session).await[1].2);
    session.rewind(1).await.unwrap();
    assert_eq!(messages(&session).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_that_is_closed_and_a_deadline_of_signals_cancel_alike() {
    let daemon = Daemon::start(SLOW).await;
    let client = daemon.client().await;
    let session = open(&client).await;
    let (_, stream) = session.send("word", long()).await.unwrap();
    let mut reader = Reader::new(stream);
    reader.next().await;
    drop(reader);
    until(async || !session.busy().await.unwrap()).await;
    let kept = messages(&session).await;
    assert!(
        kept.len() == 2 && kept[1].2 && kept[1].1.starts_with("sim:"),
        "{kept:?}"
    );

    let path = session.submit("word", long()).await.unwrap();
    let request = client.request(path).await;
    until(async || request.read(0).await.unwrap().1 > 0).await;
    request.cancel().await.unwrap();
    until(async || !session.busy().await.unwrap()).await;
    let kept = messages(&session).await;
    assert!(kept.len() == 4 && kept[3].2, "{kept:?}");
}

/// No connection can reach the session any more: it goes, and other sessions stay.
#[tokio::test(flavor = "multi_thread")]
async fn a_leaving_client_closes_its_session() {
    let daemon = Daemon::start(SLOW).await;
    let (client, other) = (daemon.client().await, daemon.client().await);
    let (session, kept) = (open(&client).await, open(&other).await);
    let (_, stream) = session.send("word", long()).await.unwrap();
    Reader::new(stream).next().await;
    drop((session, client));
    until(async || other.manager.sessions().await.unwrap() == 1).await;
    until(async || other.manager.queue_length().await.unwrap() == 0).await;
    assert_eq!(messages(&kept).await, []);
}

/// An error is not an answer: the text before it is not reliable.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_fails_leaves_the_session_as_it_was() {
    let daemon = Daemon::start("tokens=9,fail_after=2").await;
    let client = daemon.client().await;
    let session = open(&client).await;
    let (_, stream) = session.send("word", fields([])).await.unwrap();
    assert_eq!(
        Reader::new(stream).answer().await.reason,
        FinishReason::Error
    );
    assert_eq!(messages(&session).await, []);
}
