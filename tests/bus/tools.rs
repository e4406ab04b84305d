//! Tools over the bus: calls arrive in frames and results, and tools' results are part of the next prompt.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use ganglion::bus::proxy::{Fields, Info, SessionProxy};
use ganglion::bus::{Error, Frame};
use ganglion::telemetry::FinishReason;
use serde_json::Value;
use zbus::{OwnedFd, Variant};

use super::{ask, fields};
use crate::support::daemon::until;
use crate::support::needs;
use crate::support::restartable::Restartable;
use crate::support::stream::Reader;
use crate::tools::{TOOLS, fits, hermes};

const CONFIG: &str = "kv.context = 512\nsampling.max_tokens = 150\nsampling.seed = 3\n";

fn offered(choice: &str) -> Fields<'_> {
    fields([
        ("tools", TOOLS.into()),
        ("tool_choice", choice.into()),
        ("parallel_tool_calls", false.into()),
        ("thinking", false.into()),
    ])
}

fn text(info: &Info, key: &str) -> Option<String> {
    match info.get(key).map(|value| &**value) {
        Some(Variant::Str(text)) => Some(text.to_string()),
        _ => None,
    }
}

/// The only call of a result.
fn only_call(calls: &Value) -> (String, String, String) {
    let [call] = &calls.as_array().expect("an array")[..] else {
        panic!("{calls}");
    };
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let function = &call["function"];
    let (name, arguments) = (text(&function["name"]), text(&function["arguments"]));
    assert!(
        call["type"] == "function" && fits(&name, &arguments),
        "{call}"
    );
    (text(&call["id"]), name, arguments)
}

/// Returns the joined pieces of calls, and the last frame's calls.
async fn read(stream: OwnedFd) -> (String, (String, String, String)) {
    let mut reader = Reader::new(stream);
    let (mut said, mut name, mut arguments) = (String::new(), String::new(), String::new());
    loop {
        match reader.next().await.expect("it goes on") {
            Frame::Text { text, .. } => said += &text,
            Frame::Reasoning { reasoning, .. } => panic!("{reasoning}"),
            Frame::ToolCall { tool_call, .. } => {
                assert_eq!(tool_call.index, 0);
                name += tool_call.name.as_deref().unwrap_or_default();
                arguments += &tool_call.arguments;
            }
            Frame::Done {
                finish_reason,
                tool_calls,
                ..
            } => {
                assert_eq!(finish_reason, FinishReason::ToolCalls);
                let call = only_call(&tool_calls.expect("there are some"));
                assert_eq!((&call.1, &call.2), (&name, &arguments));
                return (said, call);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_arrive_in_frames_and_results_and_results_return_in_messages() {
    let mut served = Restartable::with(&hermes());
    let client = served.start(CONFIG).await;
    let (_, stream) = ask(&client, "hello", offered("required")).await.unwrap();
    let (said, (id, ..)) = read(stream).await;
    assert_eq!(said, "");

    let (said, info) = client
        .manager
        .complete("hello", offered("required"))
        .await
        .unwrap();
    assert_eq!(text(&info, "finish_reason").as_deref(), Some("tool_calls"));
    let calls = text(&info, "tool_calls").expect("they are there");
    assert_eq!(said, "");
    assert_eq!(only_call(&serde_json::from_str(&calls).unwrap()).0, id);

    // The call and its result, in the form that a client with its own history sends.
    let said = |calls: &str, id: &str| {
        let user = ("user", fields([("content", "hello".into())]));
        let called = (
            "assistant",
            fields([("tool_calls", calls.to_owned().into())]),
        );
        let result = [
            ("content", "bump".into()),
            ("tool_call_id", id.to_owned().into()),
        ];
        [user, called, ("tool", fields(result))]
    };
    let path = client
        .manager
        .submit(&said(&calls, &id), offered("go"))
        .await
        .unwrap();
    let request = client.request(path).await;
    until(async || request.state().await.unwrap() == "finished").await;
    let result = request.result().await.unwrap();
    let again = text(&result, "tool_calls").expect("it calls again");
    let again = only_call(&serde_json::from_str(&again).unwrap());
    assert!(again.1 == "go" && again.0 != id, "{again:?}");

    let unknown = client
        .manager
        .submit(&said(&calls, "another"), offered("go"))
        .await;
    assert!(
        matches!(&unknown, Err(Error::InvalidMessages(why)) if why.contains("\"another\"")),
        "{unknown:?}"
    );
}

/// Clients without a JSON library declare the same tools by D-Bus types.
#[tokio::test(flavor = "multi_thread")]
async fn tools_are_offered_as_dictionaries_too() {
    let mut served = Restartable::with(&hermes());
    let client = served.start(CONFIG).await;
    let dictionary = |entries: Vec<(&'static str, Variant<'static>)>| {
        Variant::from(entries.into_iter().collect::<HashMap<_, _>>())
    };
    let offer = |least: Variant<'static>| {
        let metres = dictionary(vec![
            ("type", "integer".into()),
            ("minimum", least),
            ("maximum", 9.0.into()),
        ]);
        let parameters = HashMap::from([
            ("type", Variant::from("object")),
            ("properties", dictionary(vec![("metres", metres)])),
            ("required", vec!["metres"].into()),
        ]);
        Variant::from(vec![("go", "Moves the robot.", parameters)])
    };
    let text = r#"[{"type": "function", "function": {"name": "go", "description": "Moves the robot.", "parameters":
        {"type": "object", "properties": {"metres": {"type": "integer", "minimum": -9, "maximum": 9}}, "required": ["metres"]}}}]"#;
    let asked = |tools: Variant<'static>| {
        let mut options = offered("required");
        options.insert("tools", tools);
        client.manager.complete("hello", options)
    };
    let calls = |info: &Info| self::text(info, "tool_calls").expect("it calls");
    let (_, by_types) = asked(offer((-9i64).into())).await.unwrap();
    let (_, by_text) = asked(text.into()).await.unwrap();
    assert_eq!(calls(&by_types), calls(&by_text));
    only_call(&serde_json::from_str(&calls(&by_types)).unwrap());

    let nothing = HashMap::<&str, Variant<'_>>::new();
    let bare = Variant::from(vec![("halt", "", nothing)]);
    let (_, info) = asked(bare).await.unwrap();
    assert_eq!(
        only_call(&serde_json::from_str(&calls(&info)).unwrap()).1,
        "halt"
    );

    // JSON has no paths and no number that is not finite.
    let path = zbus::ObjectPath::try_from("/a").expect("a path");
    for odd in [Variant::from(f64::NAN), path.into()] {
        let refused = asked(offer(odd)).await.map(drop);
        assert!(
            matches!(&refused, Err(Error::InvalidOption(why)) if why.contains("of type a(ssa{sv})")),
            "{refused:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_its_own_tools_and_returns_all_its_messages() {
    let mut served = Restartable::with(&hermes());
    let client = served.start(CONFIG).await;
    let open = client
        .manager
        .open_session(fields([("tools", TOOLS.into())]))
        .await;
    let session = client.session(open.unwrap()).await;
    let must = || {
        fields([
            ("tool_choice", "required".into()),
            ("parallel_tool_calls", false.into()),
            ("thinking_tokens", 4u32.into()),
        ])
    };
    let (_, stream) = session.send("hello", must()).await.unwrap();
    let (mut reader, mut thoughts) = (Reader::new(stream), String::new());
    let id = loop {
        match reader.next().await.expect("it goes on") {
            Frame::Reasoning { reasoning, .. } => thoughts += &reasoning,
            Frame::Done { tool_calls, .. } => break only_call(&tool_calls.expect("it calls")).0,
            Frame::Text { .. } | Frame::ToolCall { .. } => {}
        }
    };
    until(async || !session.busy().await.unwrap()).await;
    let result = [("content", "".into()), ("tool_call_id", id.clone().into())];
    let (_, stream) = session
        .reply(&[("tool", fields(result))], must())
        .await
        .unwrap();
    let mut reader = Reader::new(stream);
    while !matches!(reader.next().await, Some(Frame::Done { .. })) {}
    until(async || !session.busy().await.unwrap()).await;

    let messages = session.messages().await.unwrap();
    let roles: Vec<_> = messages.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    let calls = text(&messages[1].1, "tool_calls").expect("it called");
    assert_eq!(only_call(&serde_json::from_str(&calls).unwrap()).0, id);
    assert_eq!(
        text(&messages[1].1, "reasoning").unwrap_or_default(),
        thoughts
    );
    assert_eq!(text(&messages[2].1, "tool_call_id"), Some(id));
    let history = session.history().await.unwrap();
    assert_eq!(history[1], ("assistant".into(), String::new()));
    // Generate accepts these messages.
    let again: Vec<_> = messages
        .iter()
        .take(3)
        .map(|(role, info)| {
            let fields = info.iter();
            let fields =
                fields.map(|(name, value)| (name.as_str(), value.try_clone().unwrap().into()));
            (role.as_str(), fields.collect::<Fields<'_>>())
        })
        .collect();
    client
        .manager
        .submit(&again, fields([("tools", TOOLS.into())]))
        .await
        .unwrap();
    session.rewind(1).await.unwrap();
    assert_eq!(session.messages().await.unwrap().len(), 2);

    // The calls survive the end of a turn.
    let stopped = session.send("hello", fields([("stop", "x".into())])).await;
    assert!(
        matches!(&stopped, Err(Error::InvalidOption(why)) if why.contains("\"stop\"") && why.contains("session")),
        "{stopped:?}"
    );
}

/// A session, also a named one, has options for the tools that its turns call and for their reasoning. A turn may
/// override them.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_options_for_its_tools() {
    let mut served = Restartable::with(&hermes());
    let folder = served.folder.path().join("sessions");
    let config = format!("{CONFIG}sessions.directory = '{}'\n", folder.display());
    let client = served.start(&config).await;
    let open = async |options: Vec<(&'static str, Variant<'static>)>| {
        let open = client
            .manager
            .open_session(options.into_iter().collect())
            .await;
        client.session(open.unwrap()).await
    };
    let called = async |session: &SessionProxy<'_>, options: Fields<'static>| {
        let (_, stream) = session.send("hello", options).await.unwrap();
        let mut reader = Reader::new(stream);
        loop {
            if let Some(Frame::Done { tool_calls, .. }) = reader.next().await {
                until(async || !session.busy().await.unwrap()).await;
                session.rewind(1).await.unwrap();
                return tool_calls.map(|calls| only_call(&calls).1);
            }
        }
    };
    let offer = |choice: &'static str| {
        vec![
            ("tools", TOOLS.into()),
            ("tool_choice", choice.into()),
            ("parallel_tool_calls", false.into()),
            ("thinking_tokens", 4u32.into()),
        ]
    };
    let session = open(offer("go")).await;
    for _ in 0..2 {
        assert_eq!(called(&session, fields([])).await.as_deref(), Some("go"));
    }
    let otherwise = fields([("tool_choice", "go_back".into())]);
    assert_eq!(
        called(&session, otherwise).await.as_deref(),
        Some("go_back")
    );
    let none = fields([("tool_choice", "none".into()), ("max_tokens", 9u32.into())]);
    assert_eq!(called(&session, none).await, None);

    let name = || ("name", "robot".into());
    let mut options = offer("go");
    options.push(name());
    let named = open(options).await;
    assert_eq!(called(&named, fields([])).await.as_deref(), Some("go"));
    named.close().await.unwrap();
    let named = open(vec![name(), ("tool_choice", "go_back".into())]).await;
    assert_eq!(called(&named, fields([])).await.as_deref(), Some("go_back"));
    named.close().await.unwrap();
    // A tool that the session lost is not called, and the session opens.
    let named = open(vec![
        name(),
        ("tools", "".into()),
        ("max_tokens", 9u32.into()),
    ])
    .await;
    assert_eq!(called(&named, fields([])).await, None);

    for options in [
        vec![("tool_choice", "go".into())],
        vec![("tools", TOOLS.into()), ("tool_choice", "fly".into())],
        vec![name(), ("tools", "".into()), ("tool_choice", "go".into())],
    ] {
        let refused = client
            .manager
            .open_session(options.into_iter().collect())
            .await
            .map(drop);
        assert!(
            matches!(&refused, Err(Error::InvalidOption(why)) if why.contains("tool_choice")),
            "{refused:?}"
        );
    }
}

/// The history stays readable under a model that could not have produced it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_tools_opens_under_a_model_that_calls_none() {
    let mut served = Restartable::with(&hermes());
    let folder = served.folder.path().join("sessions");
    let config = format!("{CONFIG}sessions.directory = '{}'\n", folder.display());
    let client = served.start(&config).await;
    let named = |more: Option<(&'static str, Variant<'static>)>| {
        let mut options = fields([("name", "talk".into())]);
        options.extend(more);
        options
    };
    let open = client
        .manager
        .open_session(named(Some(("tools", TOOLS.into()))))
        .await;
    let session = client.session(open.unwrap()).await;
    let without = || fields([("tools", "".into()), ("max_tokens", 4u32.into())]);
    let (_, stream) = session.send("hello", without()).await.unwrap();
    let answer = Reader::new(stream).answer().await;
    assert_eq!((answer.error, answer.usage.completion_tokens), (None, 4));
    let said = session.history().await.unwrap();

    std::fs::write(
        served.folder.path().join("tiny.gguf"),
        crate::support::tiny_gguf::with_vocabulary().file(),
    )
    .unwrap();
    let client = served.start(&config).await;
    let open = client.manager.open_session(named(None)).await;
    let session = client.session(open.unwrap()).await;
    assert_eq!(session.history().await.unwrap(), said);
    let refused = session.send("hello", fields([])).await;
    assert!(
        matches!(refused, Err(Error::NotSupported(_))),
        "{refused:?}"
    );
    let (_, stream) = session.send("hello", without()).await.unwrap();
    assert_eq!(Reader::new(stream).answer().await.error, None);
    session.close().await.unwrap();
    let refused = client
        .manager
        .open_session(named(Some(("tools", TOOLS.into()))))
        .await;
    assert!(
        matches!(refused, Err(Error::NotSupported(_))),
        "{refused:?}"
    );
    let open = client
        .manager
        .open_session(named(Some(("tools", "".into()))))
        .await;
    let session = client.session(open.unwrap()).await;
    let options = fields([("max_tokens", 4u32.into())]);
    let (_, stream) = session.send("hello", options).await.unwrap();
    assert_eq!(Reader::new(stream).answer().await.error, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_tool_is_refused_with_a_remedy() {
    let mut served = Restartable::with(&hermes());
    let client = served
        .start("kv.context = 512\nlimits.grammar_bytes = 2000\n")
        .await;
    let long = format!("[{}]", " ".repeat(2000));
    let strict = r#"[{"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true}}}}}]"#;
    let array =
        r#"[{"type": "function", "function": {"name": "go", "parameters": {"type": "array"}}}]"#;
    let named =
        |name: &str| format!(r#"[{{"type": "function", "function": {{"name": "{name}"}}}}]"#);
    let other = named("a b");
    for (options, words) in [
        (vec![("tools", "{".into())], ["tools", "JSON"]),
        (vec![("tools", "[]".into())], ["tools", "function"]),
        (vec![("tools", other.into())], ["\"a b\"", "letters"]),
        (vec![("tools", array.into())], ["\"go\"", "object"]),
        (
            vec![("tools", named("required").into())],
            ["\"required\"", "tool_choice"],
        ),
        (
            vec![("tools", strict.into()), ("tool_choice", "go".into())],
            ["\"go\"", "uniqueItems"],
        ),
        (
            vec![("tools", long.into())],
            ["2002", "limits.grammar_bytes"],
        ),
        (
            vec![("tool_choice", "required".into())],
            ["tool_choice", "tools"],
        ),
        (
            vec![("tools", TOOLS.into()), ("tool_choice", "fly".into())],
            ["\"fly\"", "go_back"],
        ),
        (
            vec![("tools", TOOLS.into()), ("json", true.into())],
            ["json", "tools"],
        ),
        (
            vec![("tools", TOOLS.into()), ("stop", "x".into())],
            ["stop", "tools"],
        ),
    ] {
        let refused = ask(&client, "hello", options.into_iter().collect()).await;
        let Err(Error::InvalidOption(why)) = &refused else {
            panic!("{words:?}: {refused:?}");
        };
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
        assert!(why.len() < 1000, "{why}");
    }
    for (message, why) in [
        (
            (
                "user",
                fields([("content", "x".into()), ("tool_calls", "[]".into())]),
            ),
            "tool_calls",
        ),
        (
            (
                "user",
                fields([("content", "x".into()), ("tool_call_id", "1".into())]),
            ),
            "tool_call_id",
        ),
        (
            ("assistant", fields([("tool_calls", "[{}]".into())])),
            "arguments",
        ),
        (
            ("assistant", fields([("reasoning", "x".into())])),
            "content",
        ),
    ] {
        let refused = client.manager.submit(&[message], fields([])).await;
        assert!(
            matches!(&refused, Err(Error::InvalidMessages(text)) if text.contains(why)),
            "{refused:?}"
        );
    }

    // A model whose template takes no tools, and a script.
    let mut plain = Restartable::new();
    let client = plain.start("kv.context = 200\n").await;
    let offer = || fields([("tools", TOOLS.into())]);
    let asked = ask(&client, "hello", offer()).await.map(drop);
    let opened = client.manager.open_session(offer()).await.map(drop);
    for refused in [asked, opened] {
        let Err(Error::NotSupported(why)) = &refused else {
            panic!("{refused:?}");
        };
        assert!(why.contains("template") && why.contains("Qwen3"), "{why}");
    }
}

/// The example moves its robot with any model's calls.
#[tokio::test(flavor = "multi_thread")]
async fn a_python_program_moves_a_robot() {
    if !needs::python() {
        return;
    }
    let mut served = Restartable::with(&hermes());
    served
        .start("kv.context = 512\nmodel.thinking = false\n")
        .await;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let done = Command::new(root.join("target/venv/bin/python"))
        .arg(root.join("tests/clients/python/robot.py"))
        .env("DBUS_SYSTEM_BUS_ADDRESS", served.bus.text())
        .output()
        .expect("python runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(
        said.contains("turn {'heading'") || said.contains("go {'metres'"),
        "{said}"
    );
    assert!(said.contains("the robot is at "), "{said}");
    // The last answer was read, too.
    assert!(!said.trim_end().ends_with("tool_calls"), "{said}");
}
