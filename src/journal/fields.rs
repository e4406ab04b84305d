//! What the fields of events mean: the one description of them, for the manual and for whoever reads the journal by
//! program. Beside these an entry has the journal's own (MESSAGE, MESSAGE_ID, PRIORITY, CODE_FILE, ...).

/// Name in capitals, as the journal has it, and meaning.
pub const FIELDS: &[(&str, &str)] = &[
    ("ASIDE", "the path that a file has now"),
    ("BACKEND", "what computes: cpu, cuda or sim"),
    ("BACKTRACE", "where the thread was, innermost call first"),
    (
        "BOUND",
        "the greatest mean |delta logprob| that is no warning",
    ),
    ("BUS", "the bus that the daemon answers on"),
    ("BYTES", "bytes that were cut off"),
    (
        "CACHED_TOKENS",
        "tokens of the prompt that were still in the key-value cache",
    ),
    (
        "CLIENT",
        "the caller's connection, by its unique name on the bus",
    ),
    ("CLIENT_UID", "the user id that the caller runs as"),
    (
        "CUDA_ERROR",
        "the driver's name of the error, such as CUDA_ERROR_LAUNCH_FAILED",
    ),
    ("DEVICE", "which device computes, or why it is not another"),
    (
        "DOING",
        "what it was at, or what shows that it stands still",
    ),
    ("DROPPED", "events that were lost"),
    (
        "DROPPED_CALLS",
        "calls of that connection that got no answer",
    ),
    ("ERROR", "what is wrong, as in the message"),
    ("EVENTS", "events that were left out"),
    ("FAILURES", "refused calls in a row, with this one"),
    ("FINISH_REASON", "stop, length, cancelled or error"),
    (
        "GB_PER_SEC",
        "bytes that decoding had to move per second, in 10^9",
    ),
    (
        "GRAPH_STATE",
        "the decode graph after the event: invalid, valid or disabled",
    ),
    ("HAVE_BYTES", "memory that was available"),
    (
        "HOW",
        "updated, if the living graph took the recording, or instantiated",
    ),
    ("INSTEAD", "the key that took its place"),
    ("KEY", "the key of gangliond.toml"),
    (
        "KEY_DELTA",
        "how much q8_0 for K changes a short text: the mean |delta logprob|",
    ),
    ("KINDS", "which events were left out, each with its number"),
    (
        "KV_EPOCH",
        "changes of the key-value cache since the start, but for one more token",
    ),
    ("KV_TYPE_K", "the type of K in the key-value cache"),
    ("KV_TYPE_V", "the type of V in the key-value cache"),
    (
        "LARGEST_CONTEXT",
        "the greatest kv.context that would fit; 0 if none would",
    ),
    ("LIBRARY", "the part of a library that speaks"),
    ("LIMIT", "the key of gangliond.toml that was reached"),
    ("MESSAGES", "messages of the bus since the daemon connected"),
    (
        "MODEL",
        "the model's name; its path while it is being loaded",
    ),
    ("NEED_BYTES", "memory that would have been needed"),
    ("NODES", "kernels of one replay"),
    ("NOTE", "what was skipped, and why"),
    ("PART", "of the daemon: engine, reactor or bus"),
    ("PATH", "the path of a file"),
    ("PLACE", "file, line and column of the source"),
    (
        "PROMPT_TOKENS",
        "tokens of the whole prompt, history included",
    ),
    (
        "QUEUE_US",
        "microseconds from acceptance to the start of the prompt's reading",
    ),
    (
        "READ_TOKENS",
        "tokens of the prompt that are read, those in the cache among them",
    ),
    (
        "REASON",
        "why the decode graph is or was invalid, what changed in the cache, or why K has its type",
    ),
    ("RECORDING_US", "microseconds that the recording took"),
    (
        "REFUSALS",
        "refusals since the last such event, with this one",
    ),
    ("REQUESTS", "requests that wait or run"),
    (
        "REQUEST_ID",
        "number of the request, the last part of its object path; unique within the process",
    ),
    (
        "REREAD_TOKENS",
        "tokens that had been in the key-value cache and were read again",
    ),
    ("SECONDS", "how long it took"),
    (
        "SEGMENT",
        "of the decode graph, counted from 0; the only one unless graph.mode is piecewise",
    ),
    (
        "SEQUENCE",
        "place in the cache among the conversations that are answered at once, counted from 0",
    ),
    (
        "SESSION",
        "number of the session, the last part of its object path; absent without one",
    ),
    (
        "SETTING",
        "a setting of the model's files, its value, and why it is left out",
    ),
    ("STALL_SECONDS", "how long nothing was read"),
    ("TEXT", "the panic's message, if it is a constant"),
    ("THREAD", "name of the thread"),
    ("THREADS", "where each thread stands, one a line"),
    ("TOKENS", "tokens generated, the end-of-turn token included"),
    ("TOKENS_PER_SEC", "tokens per second after the first one"),
    (
        "TTFT_US",
        "microseconds from the start of the prompt's reading to the first token",
    ),
    ("TURNS", "turns of a session"),
    (
        "UNREAD_BYTES",
        "bytes that the bus holds for that connection",
    ),
    (
        "UNREAD_DESCRIPTORS",
        "descriptors that the bus holds for that connection",
    ),
    ("VERSION", "of the daemon"),
    ("WEIGHT_BYTES", "bytes of the weights as stored"),
    ("WHAT", "what a reload changed"),
];
