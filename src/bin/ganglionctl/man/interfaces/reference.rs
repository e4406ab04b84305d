//! What the XML of the interfaces does not hold: how methods fail, how a shell calls them, what options mean.

/// A method, the errors that it can answer with, and a command line.
type Method = (&'static str, &'static [&'static str], &'static str);

const REQUEST: &[&str] = &[
    "NotReady",
    "Busy",
    "QuotaExceeded",
    "ContextFull",
    "InvalidOption",
    "InvalidMessages",
    "EngineFailed",
];

pub(super) const METHODS: &[Method] = &[
    (
        "Manager.Generate",
        REQUEST,
        "busctl call org.ganglion.Llm1 /org/ganglion/Llm1 org.ganglion.Llm1.Manager \\\n    Generate 'a(sa{sv})a{sv}' 1 \
         user 1 content s 'What is odometry?' 1 max_tokens u 60\nganglionctl ask 'What is odometry?'",
    ),
    (
        "Manager.Complete",
        &[
            "NotReady",
            "Busy",
            "QuotaExceeded",
            "ContextFull",
            "InvalidOption",
            "InvalidMessages",
            "Cancelled",
            "EngineFailed",
        ],
        "busctl call org.ganglion.Llm1 /org/ganglion/Llm1 org.ganglion.Llm1.Manager \\\n    Complete 'sa{sv}' 'Name a \
         colour.' 1 max_tokens u 20",
    ),
    (
        "Manager.OpenSession",
        &[
            "NotReady",
            "QuotaExceeded",
            "InvalidOption",
            "InvalidMessages",
        ],
        "ganglionctl chat --system 'Be brief.'",
    ),
    (
        "Manager.Reload",
        &[
            "NotReady",
            "Busy",
            "InvalidOption",
            "OutOfMemory",
            "EngineFailed",
        ],
        "sudo systemctl reload gangliond",
    ),
    (
        "Session.Send",
        &[
            "NotReady",
            "Busy",
            "QuotaExceeded",
            "ContextFull",
            "InvalidOption",
            "InvalidMessages",
            "NotOwner",
            "EngineFailed",
        ],
        "printf 'What is odometry?\\nAnd why does it drift?\\n' | ganglionctl chat",
    ),
    (
        "Session.Rewind",
        &["Busy", "InvalidOption", "NotOwner", "NotSupported"],
        "printf 'Name a colour.\\n/undo\\nName a fruit.\\n' | ganglionctl chat",
    ),
    (
        "Session.Clear",
        &["Busy", "NotOwner", "NotSupported"],
        "printf 'Name a colour.\\n/clear\\nName a fruit.\\n' | ganglionctl chat",
    ),
    (
        "Session.Close",
        &["NotOwner"],
        "printf 'Name a colour.\\n' | ganglionctl chat    # closes it at the end of its input",
    ),
    (
        "Session.History",
        &["NotOwner"],
        "printf 'Name a colour.\\n/history\\n' | ganglionctl chat",
    ),
    (
        "Request.Cancel",
        &["NotOwner"],
        "timeout 2 ganglionctl ask 'Tell a long story.'    # leaving the bus cancels as well",
    ),
    (
        "Diagnostics.ResetGraph",
        &["NotSupported", "NotReady"],
        "sudo ganglionctl graph --reset",
    ),
    (
        "Diagnostics.DumpGraph",
        &["NotSupported", "NotReady"],
        "sudo ganglionctl graph --dot graph.dot",
    ),
];

/// An option, its type, and what it does.
pub(super) const OPTIONS: &[(&str, &str, &str)] = &[
    (
        "max_tokens",
        "u",
        "The most tokens of the answer, from 1 to `limits.max_tokens`.",
    ),
    (
        "temperature",
        "d",
        "From 0, always the most probable token, to 2.",
    ),
    (
        "top_k",
        "u",
        "Keep this many of the most probable tokens; 0 keeps all.",
    ),
    (
        "top_p",
        "d",
        "Keep the most probable tokens up to this probability, from 0 to 1; 1 keeps all.",
    ),
    (
        "min_p",
        "d",
        "Drop tokens less probable than this share of the most probable one, from 0 to 1; 0 keeps all.",
    ),
    (
        "repetition_penalty",
        "d",
        "Above 1, tokens of the text so far become less probable; from 0.1 to 10.",
    ),
    (
        "seed",
        "t",
        "The same seed, request and model give the same answer.",
    ),
    (
        "stop",
        "s or as",
        "Up to 16 texts, each of at most 1024 bytes, that end the answer.",
    ),
    (
        "thinking",
        "b",
        "Whether a model that can think before it answers does.",
    ),
    (
        "stream",
        "s",
        "\"pipe\", or \"signals\": the text comes by Request.Delta. Not of Complete.",
    ),
    (
        "system",
        "s",
        "Of OpenSession alone: the system message of the conversation.",
    ),
];

/// An error, and what it means.
pub(super) const ERRORS: &[(&str, &str)] = &[
    (
        "NotReady",
        "The model failed to load, or the daemon is stopping.",
    ),
    (
        "Busy",
        "The queue is full, or this session is still answering: try again.",
    ),
    (
        "QuotaExceeded",
        "The caller, or its user, has as many requests or sessions as it may have.",
    ),
    (
        "ContextFull",
        "The conversation leaves no room for an answer: start anew, take back turns, or raise kv.context.",
    ),
    (
        "InvalidOption",
        "An option is unknown, has another type or is out of range; the text names it.",
    ),
    (
        "InvalidMessages",
        "The conversation is not one that the model can answer.",
    ),
    ("OutOfMemory", "The model does not fit the memory."),
    ("Cancelled", "The request was cancelled."),
    (
        "NotOwner",
        "The object belongs to another connection, or is closed.",
    ),
    (
        "NotSupported",
        "This release, or this backend, cannot do it.",
    ),
    (
        "EngineFailed",
        "The engine failed on this request; others go on.",
    ),
];
