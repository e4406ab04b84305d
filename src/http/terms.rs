//! The names that an endpoint has for what `front` and the engine speak of, for the texts of errors.

/// The names of one endpoint.
#[derive(Debug)]
pub(super) struct Terms {
    /// The field of the conversation.
    pub(super) messages: &'static str,
    /// Whether each element of that field is one message of the engine.
    pub(super) is_numbered: bool,
    /// Options, and the fields that set them, where these have another name. The first that names an option counts.
    pub(super) options: &'static [&'static [(&'static str, &'static str)]],
    /// Words about messages, and those of the endpoint in their place.
    pub(super) words: &'static [(&'static str, &'static str)],
}

/// The options that the extensions of a request set.
const EXTENSIONS: &[(&str, &str)] = &[
    ("regex", "ganglion.regex"),
    ("grammar", "ganglion.grammar"),
    ("choice", "ganglion.choice"),
    ("top_k", "ganglion.top_k"),
    ("min_p", "ganglion.min_p"),
    ("repetition_penalty", "ganglion.repetition_penalty"),
    ("thinking", "ganglion.thinking"),
    ("thinking_tokens", "ganglion.thinking_tokens"),
    ("priority", "ganglion.priority"),
    ("deadline_ms", "ganglion.deadline_ms"),
    ("max_calls", "ganglion.max_calls"),
    ("guess", "ganglion.guess"),
];

/// Those of chat completions.
pub(super) static CHAT: Terms = Terms {
    messages: "messages",
    is_numbered: true,
    options: &[
        &[
            ("json_schema", "response_format"),
            ("json", "response_format"),
            ("schema_lenient", "response_format"),
            ("logprobs", "top_logprobs"),
        ],
        EXTENSIONS,
    ],
    words: &[],
};

/// Those of completions.
pub(super) static TEXT: Terms = Terms {
    messages: "prompt",
    is_numbered: false,
    options: &[EXTENSIONS],
    words: &[],
};

/// Those of responses.
pub(super) static RESPONSES: Terms = Terms {
    messages: "input",
    is_numbered: false,
    options: &[
        &[
            ("json_schema", "text.format"),
            ("json", "text.format"),
            ("schema_lenient", "text.format"),
            ("logprobs", "top_logprobs"),
            ("max_tokens", "max_output_tokens"),
            ("seed", "ganglion.seed"),
        ],
        EXTENSIONS,
    ],
    words: &[
        ("tool_calls", "function_call"),
        ("tool_call_id", "call_id"),
        ("tool", "function_call_output"),
    ],
};

/// Those of Anthropic's messages.
pub(super) static MESSAGES: Terms = Terms {
    messages: "messages",
    is_numbered: false,
    options: &[
        &[
            ("json_schema", "output_config.format"),
            ("schema_lenient", "output_config.format"),
            ("stop", "stop_sequences"),
            ("parallel_tool_calls", "tool_choice"),
            ("top_k", "top_k"),
            ("seed", "ganglion.seed"),
        ],
        EXTENSIONS,
    ],
    words: &[
        ("tool_calls", "tool_use"),
        ("tool_call_id", "tool_use_id"),
        ("tool", "tool_result"),
    ],
};

impl Terms {
    /// Returns a text about messages with this endpoint's words.
    pub(super) fn of_messages(&self, text: &str) -> String {
        replaced(text, self.words.iter())
    }

    /// Returns a text about options with the fields that set them, and the field that sets `option`. `fields` are those of
    /// one request, which count before the usual ones.
    pub(super) fn of_options<'a>(
        &self,
        text: &str,
        option: Option<&'a str>,
        fields: &[(&'static str, &'static str)],
    ) -> (String, Option<&'a str>) {
        let all = || fields.iter().chain(self.options.iter().copied().flatten());
        let text = replaced(text, all());
        let field = option.map(|option| {
            let field = all().find(|(name, _)| *name == option);
            field.map_or(option, |(_, field)| *field)
        });
        (text, field)
    }
}

/// Replaces words in quotes. A word that is there twice has the first replacement.
fn replaced<'a>(
    text: &str,
    words: impl Iterator<Item = &'a (&'static str, &'static str)>,
) -> String {
    let mut text = text.to_owned();
    let mut known: Vec<&str> = Vec::new();
    for (word, by) in words {
        if known.contains(word) {
            continue;
        }
        known.push(word);
        let (quoted, by) = (format!("{word:?}"), format!("{by:?}"));
        if quoted != by && text.contains(&quoted) {
            text = text.replace(&quoted, &by);
        }
    }
    text
}
