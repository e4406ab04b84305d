//! The syntax of man(7): escaped text, and lists.

/// Stands for the beginning of a line in a comment of the configuration.
pub(super) const BREAK: char = '\u{1}';

/// Renders names and their meanings.
pub(super) fn list(entries: &[(&str, &str)]) -> String {
    let entries = entries
        .iter()
        .map(|(tag, what)| format!(".TP\n\\fB{}\\fR\n{}\n", text(tag), text(what)));
    entries.collect()
}

/// Escapes text for roff and joins its lines. Text in backquotes becomes bold.
pub(super) fn text(words: &str) -> String {
    let words: Vec<_> = words.split_whitespace().collect();
    let escapes = [("\\", "\\\\"), ("-", "\\-"), ("'", "\\*(Aq"), (".", "\\&.")];
    let safe = escapes
        .iter()
        .fold(words.join(" "), |text, (of, to)| text.replace(of, to));
    let parts = safe.split('`').enumerate();
    let parts = parts.map(|(at, part)| match at % 2 {
        0 => part.to_owned(),
        _ => format!("\\fB{part}\\fR"),
    });
    let filled: String = parts.collect();
    filled.replace(&format!(" {BREAK} "), "\n.br\n")
}
