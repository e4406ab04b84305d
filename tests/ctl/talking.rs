//! `chat`: what its commands do.

use serde_json::{Value, json};

use super::{run_with_input, text};
use crate::support::daemon::Daemon;

#[tokio::test(flavor = "multi_thread")]
async fn chat_takes_several_lines_options_a_system_message_and_saves() {
    let daemon = Daemon::start("").await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [json, plain] = ["talk.json", "talk.txt"].map(|name| folder.path().join(name));
    let typed = format!(
        "\"\"\"\n/one\ntwo\"\"\"\n/set max_tokens 2\nthree four five\n/set\n/set max_tokens\n/set nonsense 1\n\
         /set seed -1\n/system be brief\n/system\n\"\"\"six seven\"\"\"\n/save {0}\n/save {0}\n/save {1}\n/bye\nnever\n",
        text(&json),
        text(&plain),
    );
    let chat = run_with_input(&["--bus", daemon.bus.text(), "chat"], &typed).await;
    assert_eq!(chat.code, Some(0), "{chat:?}");
    let expected = format!(
        "sim: /one two\nsim: three\nmax_tokens  2\nbe brief\nsim: six seven\n{}\n{}\n",
        text(&json),
        text(&plain)
    );
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(&chat.stdout), words(&expected), "{chat:?}");
    let errors: Vec<_> = chat.stderr.lines().collect();
    let [nonsense, seed, there] = errors[..] else {
        panic!("{chat:?}")
    };
    assert!(
        nonsense.contains("/set nonsense: it is none of max_tokens"),
        "{nonsense}"
    );
    assert!(
        seed.contains("/set seed: it must be a whole number"),
        "{seed}"
    );
    assert!(there.contains("exists"), "{there}");

    let saved = std::fs::read_to_string(json).expect("it is saved");
    let saved: Value = serde_json::from_str(&saved).expect("JSON");
    let message = |role: &str, content: &str| json!({"role": role, "content": content});
    let said = [
        message("system", "be brief"),
        message("user", "six seven"),
        message("assistant", "sim: six seven"),
    ];
    assert_eq!(saved, Value::from(said.to_vec()));
    let saved = std::fs::read_to_string(plain).expect("it is saved");
    assert!(saved.ends_with("assistant: sim: six seven\n"), "{saved}");

    let open = run_with_input(&["--bus", daemon.bus.text(), "chat"], "\"\"\"one\n").await;
    assert_eq!(
        (open.code, open.stdout.as_str()),
        (Some(65), ""),
        "{open:?}"
    );
}
