//! The meaning of each field of events, for the manual and for programs that read the journal. An entry also has the
//! journal's own fields (MESSAGE, MESSAGE_ID, PRIORITY, CODE_FILE, ...).

/// Name in capitals, as the journal has it, and meaning.
pub const FIELDS: &[(&str, &str)] = &[
    ("ASIDE", "the new path of a damaged file"),
    ("BACKEND", "the backend: cpu, cuda or sim"),
    ("BACKTRACE", "where the thread was, innermost call first"),
    (
        "BOUND",
        "the greatest mean |delta logprob| without a warning",
    ),
    ("BUS", "the bus that the daemon answers on"),
    ("BYTES", "bytes that were cut off"),
    (
        "CACHED_TOKENS",
        "tokens of the prompt that were still in the key-value cache",
    ),
    (
        "CAUSE",
        "what slows decoding down: heat.celsius, heat, supply or clock",
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
    (
        "DETAIL",
        "what the board shows: temperature, alerts, counts or clock",
    ),
    ("DEVICE", "which device computes, or why it is not another"),
    ("DOING", "its phase, or the sign that it makes no progress"),
    ("DROPPED", "events that were lost"),
    (
        "DROPPED_CALLS",
        "calls of that connection that got no answer",
    ),
    ("ENCODING_MS", "milliseconds that the vision tower took"),
    ("ERROR", "what is wrong, as in the message"),
    ("EVENTS", "events that were left out"),
    ("FAILURES", "consecutive refused calls, including this one"),
    ("FILE", "the file that is not used"),
    (
        "FINISH_REASON",
        "stop, tool_calls, length, context, deadline, cancelled or error",
    ),
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
        "updated, if the existing graph accepted the recording, or instantiated",
    ),
    ("IMAGE_TOKENS", "tokens that the image takes in the prompt"),
    ("INSTEAD", "the key that took its place"),
    (
        "JOULES",
        "the request's share of the energy of the module's input",
    ),
    ("KEY", "the key of gangliond.toml"),
    (
        "KEY_DELTA",
        "how much q8_0 for K changes a short text: the mean |delta logprob|",
    ),
    ("KINDS", "which events were left out, each with its number"),
    (
        "KV_EPOCH",
        "changes of the key-value cache since the start, except further tokens",
    ),
    ("KV_TYPE_K", "the type of K in the key-value cache"),
    ("KV_TYPE_V", "the type of V in the key-value cache"),
    (
        "LARGEST_CONTEXT",
        "the greatest kv.context that would fit; 0 if none would",
    ),
    (
        "LAYERS",
        "the layers of the model's files that guess tokens",
    ),
    ("LIBRARY", "the part of the library that reported it"),
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
        "microseconds from acceptance to the start of prefill",
    ),
    (
        "READ_TOKENS",
        "tokens of the prompt that are prefilled, cached tokens included",
    ),
    (
        "REASON",
        "why the decode graph is or was invalid, what changed in the cache, why K has its type, or why the model is unloaded",
    ),
    ("RECORDING_US", "microseconds that the recording took"),
    (
        "REFUSALS",
        "refusals since the last event of this kind, including this one",
    ),
    ("RELEASED_BYTES", "bytes of memory that were released"),
    ("REQUESTS", "queued and active requests"),
    (
        "REQUEST_ID",
        "number of the request, the last part of its object path; unique within the process",
    ),
    (
        "REREAD_TOKENS",
        "tokens that had been in the key-value cache and were prefilled again",
    ),
    ("SECONDS", "how long it took"),
    (
        "SEGMENT",
        "of the decode graph, counted from 0; the only one unless graph.mode is piecewise",
    ),
    (
        "SEQUENCE",
        "slot of the conversation in the cache, counted from 0",
    ),
    (
        "SESSION",
        "number of the session, the last part of its object path; absent without one",
    ),
    (
        "SETTING",
        "a setting of the model's files, its value, and why it is left out",
    ),
    ("SOCKET", "the address and name of a socket"),
    ("SOCKETS", "the addresses and names of all sockets"),
    ("STALL_SECONDS", "how long nothing was read"),
    ("TEXT", "the panic's message, if it is a constant"),
    ("THREAD", "name of the thread"),
    ("THREADS", "the state of each thread, one a line"),
    ("TOKENS", "tokens generated, the end-of-turn token included"),
    ("TOKENS_PER_SEC", "tokens per second after the first one"),
    (
        "TTFT_US",
        "microseconds from the start of prefill to the first token",
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
    (
        "WHAT",
        "what a reload changed, or which memory was released",
    ),
];
