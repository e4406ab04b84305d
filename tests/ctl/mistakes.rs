//! Errors of `ganglionctl` for user mistakes: one line about the typed words, with a remedy.

use super::{run, run_as};
use crate::support::daemon::Daemon;
use crate::support::needs;

/// A group without a rule in the policy.
const NOBODY: u32 = 65_534;

#[tokio::test]
async fn an_invalid_value_is_not_reported_as_an_unknown_option() {
    for option in ["--seed", "--max-tokens", "--top-k"] {
        let asked = run(&["ask", option, "-1", "hi"]).await;
        assert_eq!(asked.code, Some(2), "{asked:?}");
        let named = format!("invalid value '-1' for '{option} <");
        assert!(asked.stderr.contains(&named), "{asked:?}");
        assert!(
            asked.stderr.contains("a whole number from 0 to "),
            "{asked:?}"
        );
        assert!(!asked.stderr.contains("tip:"), "{asked:?}");
    }
}

#[tokio::test]
async fn a_model_that_an_option_names_is_blamed_on_the_option() {
    for verb in [
        &["tokenize", "--model", "/nope", "text"][..],
        &["bench", "--model", "/nope"],
    ] {
        let done = run(verb).await;
        assert_eq!(done.code, Some(65), "{done:?}");
        assert!(
            done.stderr.contains("--model /nope: No such file"),
            "{done:?}"
        );
        assert!(!done.stderr.contains("model.path"), "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_for_thoughts_of_a_model_without_them_is_reported() {
    let daemon = Daemon::start("").await;
    let ask = ["--bus", daemon.bus.text(), "ask", "--thinking", "hi"];
    let asked = run(&ask).await;
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert!(asked.stderr.contains("scripted cannot think"), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_reads_one_line_with_the_remedy() {
    if !needs::root() {
        return;
    }
    let daemon = Daemon::start("").await;
    for verb in [&["ask", "hi"][..], &["status"], &["top", "--once"]] {
        let asked = run_as(NOBODY, &[&["--bus", daemon.bus.text()], verb].concat()).await;
        assert_eq!(asked.code, Some(77), "{asked:?}");
        let lines: Vec<_> = asked.stderr.lines().collect();
        let [line] = lines[..] else {
            panic!("{asked:?}")
        };
        assert!(
            line.contains("sudo usermod -aG ganglion nobody, then log in again"),
            "{line}"
        );
        assert!(line.len() < 120, "{line}");
    }
}
