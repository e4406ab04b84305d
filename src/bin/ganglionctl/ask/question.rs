//! The question: the words of the command line, and standard input.
//!
//! Piped input is always read to its end, because it may take minutes to arrive. A pipe that a service or ssh leaves
//! open never ends, and looks the same. After a short time, a message therefore says what is awaited and how to end it.
//! Input that is too long for a request is refused early.

use std::io::{self, IsTerminal as _, Read as _};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ganglion::bus::TEXT_BYTES;

use crate::failure::{Exit, OrFail as _, Outcome, bail, ensure, failure};
use crate::output;

const STDIN: &str = "standard input";
/// The word that stands for standard input.
const DASH: &str = "-";

/// The time before the message about input that does not end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the question.
pub(super) fn read(words: &[String], quiet: bool) -> Outcome<String> {
    let named = words.iter().any(|word| word == DASH);
    let typed = io::stdin().is_terminal();
    let input = (named || !typed).then(|| input(quiet || typed));
    let text = compose(words, &input.transpose()?.unwrap_or_default());
    ensure!(!text.is_empty(), Usage: "there is no question: give one, or pipe one into standard input");
    ensure!(!text.contains('\0'), Data: "the question contains a NUL character, which D-Bus cannot carry");
    Ok(text)
}

/// Puts standard input in the place of each dash, or after all words, separated by an empty line.
fn compose(words: &[String], input: &str) -> String {
    let mut blocks = Vec::new();
    for (at, words) in words.split(|word| word == DASH).enumerate() {
        if at > 0 {
            blocks.push(input.to_owned());
        }
        blocks.push(words.join(" "));
    }
    if blocks.len() == 1 {
        blocks.push(input.to_owned());
    }
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n")
}

/// Reads standard input to its end. A closed one counts as empty.
fn input(quiet: bool) -> Outcome<String> {
    let (done, read) = mpsc::channel();
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut input = io::stdin().lock().take(TEXT_BYTES as u64 + 1);
        let read = input.read_to_end(&mut bytes);
        drop::<mpsc::Sender<()>>(done);
        read.map(|_| bytes)
    });
    if !quiet && read.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
        output::note(
            "ganglionctl: standard input is not a terminal and has not ended: waiting for the rest of the question \
             (</dev/null gives none)",
        );
    }
    let bytes = match reading.join() {
        Ok(read) => read.or_fail(Exit::Data, STDIN)?,
        Err(_) => bail!(Data: "{STDIN}: it cannot be read"),
    };
    ensure!(
        bytes.len() <= TEXT_BYTES,
        Data: "{STDIN}: it is longer than 1 MiB, the limit of a request: give a part of it"
    );
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        failure!(Data: "{STDIN}: it is not valid UTF-8 at byte {at}")
    })?;
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::compose;

    #[test]
    fn piped_input_follows_the_words_or_replaces_the_dash() {
        for (words, input, question) in [
            (&["Sum", "up:"][..], "a\nb", "Sum up:\n\na\nb"),
            (&["Sum up:"], "", "Sum up:"),
            (&[], "a", "a"),
            (&["-"], "a", "a"),
            (&["-", "in", "a", "word"], "a", "a\n\nin a word"),
            (&["Sum", "-", "up"], "a", "Sum\n\na\n\nup"),
            (&[], "", ""),
        ] {
            let words: Vec<_> = words.iter().map(ToString::to_string).collect();
            assert_eq!(compose(&words, input), question, "{words:?}");
        }
    }
}
