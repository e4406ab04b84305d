//! Finds stop strings in a stream of text. Text that may begin one is held back.

/// Finds the stop strings of one request.
#[derive(Debug)]
pub(crate) struct StopStrings {
    stops: Vec<String>,
    held: String,
    reached: Option<String>,
}

impl StopStrings {
    pub(crate) fn new(stops: &[String]) -> Self {
        Self {
            stops: stops.to_vec(),
            held: String::new(),
            reached: None,
        }
    }

    /// Adds text. Returns the text that is certain, without a stop string, and whether one was reached.
    pub(crate) fn push(&mut self, text: &str) -> (String, bool) {
        self.held.push_str(text);
        let found = self
            .stops
            .iter()
            .filter_map(|stop| Some((self.held.find(stop.as_str())?, stop)));
        if let Some((at, stop)) = found.min() {
            self.reached = Some(stop.clone());
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let show = self.held.len() - self.longest_start();
        let rest = self.held.split_off(show);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// Returns the stop string that was reached.
    pub(crate) fn reached(&self) -> Option<&str> {
        self.reached.as_deref()
    }

    /// Returns the text that was held back, at the end of the stream.
    pub(crate) fn finish(self) -> String {
        self.held
    }

    /// Returns the length of the longest end of the held text that begins a stop string.
    fn longest_start(&self) -> usize {
        let begins = |len: usize| {
            let end = self.held.get(self.held.len() - len..);
            end.is_some_and(|end| self.stops.iter().any(|stop| stop.starts_with(end)))
        };
        let longest = self
            .stops
            .iter()
            .map(String::len)
            .max()
            .unwrap_or(0)
            .min(self.held.len());
        (1..=longest).rev().find(|len| begins(*len)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::generation::stop::StopStrings;

    /// The result does not depend on how the text is cut into pieces.
    #[test]
    fn any_pieces() {
        let stops = ["END".to_owned(), "né".to_owned()];
        for (text, expected) in [
            ("an EN", "an EN"),
            ("an EEND of", "an E"),
            ("sine né", "sine "),
            ("E E", "E E"),
        ] {
            let characters: Vec<String> = text.chars().map(String::from).collect();
            for size in 1..=characters.len() {
                let (mut watch, mut shown, mut stopped) =
                    (StopStrings::new(&stops), String::new(), false);
                for piece in characters.chunks(size) {
                    let (show, stop) = watch.push(&piece.concat());
                    shown += &show;
                    stopped |= stop;
                    if stop {
                        break;
                    }
                }
                let reached = watch.reached().map(str::to_owned);
                assert_eq!(reached.is_some(), stopped);
                assert!(reached.is_none_or(|stop| text[expected.len()..].starts_with(&stop)));
                if !stopped {
                    shown += &watch.finish();
                }
                assert_eq!(shown, expected, "{text:?} in pieces of {size}");
            }
        }
    }
}
