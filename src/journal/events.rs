//! The table of events.

use std::fmt;

use super::callers::ANY;
use super::event::{Event, events, or_nothing, written};
use crate::telemetry::Receipt;

/// The request of an event, and its caller.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub id: u64,
    pub session: Option<u64>,
    /// The caller's connection.
    pub client: &'a str,
    pub client_uid: u32,
    pub model: &'a str,
}

impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.id)
    }
}

events! {
    /// The daemon owns its name on the bus, and accepts calls.
    INFO started(version: &str, bus: &str)
    "c6fbb10386ab49dea0a2deaddeca0f15" "gangliond {version} answers on the {bus}"
    { version = version, bus = bus }

    /// The configuration is invalid.
    ERROR config_error(error: &str)
    "12cc8e7540384c198c930cadde9131d0" "{error}"
    { error = error }

    /// The configuration has a deprecated key, which this release still understands.
    WARN config_outdated(key: &str, instead: &str)
    "7f1d94b6c2a84e0d9b53e6a8174c0f29" "{key} is deprecated, and the next release will not accept it; set {instead} instead"
    { key = key, instead = instead }

    /// The bus cannot be reached, or another process owns the name.
    ERROR bus_unavailable(error: &str)
    "3b8c4dcf8a714a768a9321db0f2ed8d6" "{error}"
    { error = error }

    /// The connection to the bus has ended, and with it every session and request. The daemon connects again.
    ERROR bus_lost()
    "efd04e2f88bf45af8ec698f09d616a41" "the connection to the bus is lost; trying to connect again"
    { }

    /// The daemon owns its name again.
    WARN bus_found(bus: &str)
    "52c0d6be8a1f4f7e9b3a64d1e07c8f95" "gangliond answers on the {bus} again"
    { bus = bus }

    /// The bus does not report how much clients leave unread. A client that does not read could then stop the daemon
    /// for all others.
    WARN bus_untold(error: &str)
    "a90f3b7c51de4c02b68e4f27d91c5e38" "the bus does not report what clients leave unread: {error}"
    { error = error }

    /// A program on the bus sends invalid messages, which are dropped.
    WARN messages_unreadable(messages: u64) by (ANY)
    "d5c81b6f2e0a4973b4a7f1609ce83d25" "messages that could not be read were dropped: {messages} since the connection was made"
    { messages = messages }

    /// A client does not read its replies from the bus. Its calls are dropped, and its sessions and requests end after
    /// `stream.stall_seconds`.
    WARN answers_unread(client: &str, client_uid: u32, bytes: usize, descriptors: usize, dropped: u64, seconds: f32) by (client_uid)
    "3e7a1d940c6b4e5f8d25b0f9a37c61e2" "{client} of user {client_uid} has not read {bytes} bytes and {descriptors} descriptors for {seconds:.1} s; {dropped} calls were dropped"
    {
        client = client,
        client_uid = client_uid,
        unread_bytes = bytes,
        unread_descriptors = descriptors,
        dropped_calls = dropped,
        seconds = format_args!("{seconds:.1}"),
    }

    /// HTTP requests are accepted.
    INFO http_listening(sockets: &str)
    "de5440a4c3ec4366b55c823612b9607c" "HTTP is served on {sockets}"
    { sockets = sockets }

    /// A socket cannot be used for HTTP, or accepts no connections at the moment.
    WARN http_refused(socket: &str, error: &str)
    "4f2c5a99373d4878ab345188fda42324" "HTTP is not served on {socket}: {error}"
    { socket = socket, error = error }

    /// The model begins to load.
    INFO loading(model: &str)
    "1e915b4bc4004ca996104f62d663201d" "loading {model}"
    { model = model }

    /// The backend and device, reported after a load and when a reload changes them.
    INFO backend_chosen(backend: &str, device: &str)
    "dc764202c50c474c8668ff5731644ed5" "the backend is {backend} ({device})"
    { backend = backend, device = device }

    /// The types of the key-value cache, reported after a load and when a reload changes them.
    INFO kv_selected(k: &str, v: &str, reason: &str, delta: Option<f64>)
    "8b1f6e40d27c4f5a9e63c0b5d8a7412f" "the key-value cache stores K as {k} and V as {v} ({reason})"
    { kv_type_k = k, kv_type_v = v, reason = reason, key_delta = or_nothing(delta) }

    /// The configuration sets q8_0 for K, which changes this model's results.
    WARN kv_harmful(delta: f64, bound: f64)
    "f02d7a9c15b84e6c8d30a4e97b61c85d" "K of type q8_0 changes a short text by {delta:.3} (mean |delta logprob|), more than {bound}; set kv.type_k to \"auto\" or \"f16\""
    { key_delta = delta, bound = bound }

    /// Weights, tokenizer and cache are in memory.
    INFO model_loaded(model: &str, bytes: u64, seconds: f64)
    "4b3aab5bebb549c6865f944bb7b24e94" "{model} is loaded: {bytes} bytes of weights in {seconds:.1} s"
    { model = model, weight_bytes = bytes, seconds = format_args!("{seconds:.1}") }

    /// The weights and all memory of the model were released because nobody needed them.
    INFO model_unloaded(model: &str, bytes: u64, reason: &str)
    "1c7e50f2a84b4d69b1e3f6907d2c85ab" "{model} is unloaded ({reason}): {bytes} bytes are released"
    { model = model, released_bytes = bytes, reason = reason }

    /// An unloaded model could not be loaded for a request. The requests that waited have failed.
    ERROR load_again_failed(error: &str)
    "a3d96b04e1f7482c95c8207b4fe61d3a" "the model cannot be loaded for a request: {error}"
    { error = error }

    /// The draft model has failed, and its memory is released. Answers continue without its guesses.
    ERROR draft_failed(error: &str)
    "f26a5d1c0e8b47939a4cb17e30d85f64" "the draft model is switched off: {error}"
    { error = error }

    /// A pass of the model's head has failed. Answers continue without its guesses.
    ERROR head_failed(error: &str)
    "73cb51cff10444c084d18fe07a6cf256" "the model's head guesses no more tokens: {error}"
    { error = error }

    /// The head of a model that guesses tokens is not loaded, because its tensors have a defect.
    WARN head_skipped(model: &str, error: &str)
    "c10f75ca913f49968c606b686d92f33e" "the head of {model} that guesses tokens is not loaded: {error}"
    { model = model, error = error }

    /// The head of a model has several layers that guess tokens, of which only the first is used.
    INFO head_layers(model: &str, layers: usize)
    "85db07837f0541469a0ebec9eef3b9cf" "{model} has {layers} layers that guess tokens: the first one is used"
    { model = model, layers = layers }

    /// The system lacks memory, so some was released that nobody needed.
    INFO memory_relieved(what: &str, bytes: u64)
    "58f1c2e79a064b3d8e70d5b4916fa2c3" "memory is short: {what} are released, {bytes} bytes"
    { what = what, released_bytes = bytes }

    /// The model recommends a sampling setting that the sampler does not have. It is ignored.
    WARN sampling_unused(model: &str, setting: &str)
    "5b7c2e90d1f84a6a93b60e4f8d27c1a5" "{model} recommends sampling that is left out: {setting}"
    { model = model, setting = setting }

    /// The model can produce tokens.
    INFO ready(model: &str)
    "d7a6a2f6c7d84d1ab0e3b3a0f3e7c4a5" "{model} is ready"
    { model = model }

    /// The model does not fit the available memory; nothing was allocated.
    ERROR memory_refused(error: &str, need: Option<u64>, have: Option<u64>, largest: Option<usize>)
    "0f4b9a6c2d8e4c7bb1f2a3c95d6e7084" "{error}"
    {
        error = error,
        need_bytes = or_nothing(need),
        have_bytes = or_nothing(have),
        largest_context = or_nothing(largest),
    }

    /// The GPU or its driver failed; `cuda_error` is CUDA's name of the error.
    ERROR gpu_error(error: &str, cuda_error: &str)
    "6e1d0c7a95f24b5a8c3be7f0d2419a36" "the GPU failed: {error}"
    { error = error, cuda_error = cuda_error }

    /// The model cannot be used.
    ERROR load_failed(error: &str)
    "037d92ff6ca54920bc3bf6cf41898b23" "{error}"
    { error = error }

    /// The engine ended unexpectedly.
    ERROR engine_failed(error: &str)
    "a67e8c93e050433eb227aa31c4bedb81" "the engine failed: {error}"
    { error = error }

    /// A part of the daemon has work and makes no progress. systemd's watchdog is not fed until it does. `threads`
    /// describes the state of each thread.
    ERROR stalled(part: &str, doing: &str, seconds: f64, threads: &str)
    "8f0c7d52a6e34b1c9d7be1f3405a2c68" "the {part} has stood still for {seconds:.1} s ({doing}); its threads:\n{threads}"
    { part = part, doing = doing, seconds = format_args!("{seconds:.1}"), threads = threads }

    /// A stalled part made progress before systemd ended the process.
    WARN stall_over(part: &str, seconds: f64)
    "2b91e6f0c84d4a57b3d06c1e9f7a8d35" "the {part} resumed after {seconds:.1} s"
    { part = part, seconds = format_args!("{seconds:.1}") }

    /// A bug. `text` must not contain computed values, which could quote a prompt.
    ERROR panicked(thread: &str, place: &str, text: &str, backtrace: &str)
    "d41a7c06e95f4b38a2c8f5b60d3e9172" "thread {thread} panicked at {place}: {text}\n{backtrace}"
    { thread = thread, place = place, text = text, backtrace = backtrace }

    /// The operating system refused a thread, a signal handler or a similar resource.
    ERROR system_error(error: &str)
    "cb188c2aec9e4a1eaafe07265b4e5049" "{error}"
    { error = error }

    /// A turn begins in a sequence of the cache, which already holds some tokens of its prompt.
    DEBUG turn_began(request_id: u64, client_uid: u32, sequence: usize, prompt_tokens: usize, cached_tokens: usize) by (client_uid)
    "1ccf29eb3f144cc793b3fc3aa1e86570" "request {request_id} of user {client_uid} begins in sequence {sequence} of the cache, which holds {cached_tokens} of the {prompt_tokens} tokens of its prompt"
    {
        request_id = request_id,
        client_uid = client_uid,
        sequence = sequence,
        prompt_tokens = prompt_tokens,
        cached_tokens = cached_tokens,
    }

    /// The vision tower has encoded an image of a request.
    DEBUG image_encoded(request_id: u64, client_uid: u32, image_tokens: u64, encoding_ms: u128) by (client_uid)
    "48c3493924a14b67a11daddb269a6628" "request {request_id} of user {client_uid}: an image of {image_tokens} tokens is encoded, in {encoding_ms} ms"
    {
        request_id = request_id,
        client_uid = client_uid,
        image_tokens = image_tokens,
        encoding_ms = encoding_ms,
    }

    /// A file next to the model is not its vision tower.
    INFO tower_skipped(file: &str, error: &str)
    "c65f0c1df6e145a8b2c2a5d0f5a3c9e7" "{file} is not used as the model's vision tower: {error}"
    { file = file, error = error }

    /// A part of a prompt has been prefilled.
    TRACE prompt_read(request_id: u64, client_uid: u32, read_tokens: usize, prompt_tokens: usize) by (client_uid)
    "6315753e5d564e5b99bd389690e9dc18" "request {request_id} of user {client_uid}: {read_tokens} of {prompt_tokens} tokens are prefilled"
    {
        request_id = request_id,
        client_uid = client_uid,
        read_tokens = read_tokens,
        prompt_tokens = prompt_tokens,
    }

    /// The KV cache changed in another way than by a further token of the turn.
    DEBUG kv_changed(reason: &str, epoch: u64, graph_state: &str) by (ANY)
    "1a5ecca0a5184701ad3222f3a96c2fda" "the key-value cache changed (epoch {epoch}): {reason}; the decode graph is {graph_state}"
    { reason = reason, kv_epoch = epoch, graph_state = graph_state }

    /// The KV cache or an address changed. The next step checks the decode graph, and records it again if necessary.
    INFO graph_invalid(reason: &str, epoch: u64) by (ANY)
    "b7b1c3b0e0d14e7f9a1f3f2bb6f5d0c4" "the decode graph is invalid: {reason}"
    { reason = reason, kv_epoch = epoch, graph_state = "invalid" }

    /// The decode graph was recorded.
    INFO graph_recorded(reason: &str, epoch: u64, nodes: usize, how: &str, micros: u128) by (ANY)
    "5d2e6a9c41f34c0f8d7a90b4c3e17f25" "the decode graph is valid after {reason}: {nodes} nodes, {how} in {micros} us"
    {
        reason = reason,
        kv_epoch = epoch,
        graph_state = "valid",
        nodes = nodes,
        how = how,
        recording_us = micros,
    }

    /// The KV cache changed, and the decode graph is still valid: no address changed.
    INFO graph_verified(reason: &str, epoch: u64, nodes: usize) by (ANY)
    "455c9c6f18f04da3b1b1df91f789b34c" "the decode graph is valid again after {reason}: the addresses of its {nodes} nodes are as they were"
    { reason = reason, kv_epoch = epoch, graph_state = "valid", nodes = nodes }

    /// An executable graph was updated or instantiated: the whole decode graph, or a segment of it.
    TRACE graph_renewed(segment: usize, nodes: usize, how: &str, micros: u128) by (ANY)
    "7ec5c3acd32140fea4e0a86ecda3743d" "segment {segment} of the decode graph: {nodes} nodes, {how} in {micros} us"
    { segment = segment, nodes = nodes, how = how, recording_us = micros }

    /// The configuration disables the decode graph.
    INFO graph_off(epoch: u64)
    "395b6b9f30514819b29cf5c4a69775de" "the decode graph is disabled: the mode is none"
    { kv_epoch = epoch, graph_state = "disabled" }

    /// The driver refused to record or replay. The step ran eagerly, and no token was lost. `state` is the state of the
    /// decode graph, which a failed prompt graph leaves as it was.
    WARN graph_failed(error: &str, cuda_error: Option<&str>, epoch: u64, state: &str, failures: u32)
    "e90d5f7b6a4b4d2c8f31a7c05b9e6d18" "the decode graph failed ({failures} in a row): {error}"
    {
        error = error,
        cuda_error = or_nothing(cuda_error),
        kv_epoch = epoch,
        graph_state = state,
        failures = failures,
    }

    /// The decode graph failed too often. Steps run eagerly until an operator resets it.
    ERROR graph_disabled(error: &str, cuda_error: Option<&str>, epoch: u64)
    "1c8f4b2d9e7a4f60b5d3c6a8e2f70914" "the decode graph is disabled: {error}"
    {
        error = error,
        cuda_error = or_nothing(cuda_error),
        kv_epoch = epoch,
        graph_state = "disabled",
    }

    /// An operator has reset the decode graph.
    INFO graph_reset(epoch: u64, state: &str)
    "a46d0e3f7c5b49d8927e1b8f4c6a30d2" "the decode graph was reset: it is {state}"
    { kv_epoch = epoch, graph_state = state }

    /// Decoding slows down because of heat, the supply or a power mode. It is reported once until the cause is over.
    WARN decoding_slowed(cause: &str, detail: &str)
    "b1d7f3e0a8c54296953e7ac40f16d28b" "decoding slows down: {detail}"
    { cause = cause, detail = detail }

    /// A cause that slowed decoding down is over.
    INFO decoding_recovered(cause: &str, seconds: f64)
    "4ae92c607b1d4f83a5d60c98e2f7b314" "decoding is no longer slowed down by {cause}, after {seconds:.0} s"
    { cause = cause, seconds = format_args!("{seconds:.1}") }

    /// A request finished or was cancelled.
    INFO request_finished(request: &Request<'_>, receipt: &Receipt) by (request.client_uid)
    "421babda008948259cce4dd75934d019" "{request}: {receipt}"
    {
        request_id = request.id,
        session = or_nothing(request.session),
        client = request.client,
        client_uid = request.client_uid,
        model = request.model,
        finish_reason = receipt.reason.name(),
        prompt_tokens = receipt.usage.prompt_tokens,
        cached_tokens = receipt.usage.cached_tokens,
        reread_tokens = receipt.usage.reread_tokens,
        tokens = receipt.usage.completion_tokens,
        queue_us = receipt.usage.queue_us,
        ttft_us = receipt.usage.first_token_us,
        tokens_per_sec = format_args!("{:.2}", receipt.usage.tokens_per_second),
        gb_per_sec = format_args!("{:.2}", receipt.usage.gigabytes_per_second),
        joules = or_nothing(receipt.usage.joules.map(|joules| format!("{joules:.2}"))),
    }

    /// A request failed. `error` must contain nothing of its messages.
    WARN request_failed(request: &Request<'_>, error: &str) by (request.client_uid)
    "a344d958fc3d4c23a164ffc73215febb" "{request} failed: {error}"
    {
        request_id = request.id,
        session = or_nothing(request.session),
        client = request.client,
        client_uid = request.client_uid,
        model = request.model,
        finish_reason = "error",
        error = error,
    }

    /// A session did not fit the context, and continues without its oldest turns, as its options allow.
    INFO turns_dropped(request: &Request<'_>, turns: u32) by (request.client_uid)
    "94e1c5b80d2f4a37a6f8d03e7b59c12a" "{request}: the session goes on without its oldest turns, of which {turns} did not fit the context"
    {
        request_id = request.id,
        session = or_nothing(request.session),
        client = request.client,
        client_uid = request.client_uid,
        turns = turns,
    }

    /// A turn could not be written to the disk. Its caller received the error, and nothing of the turn is stored.
    ERROR session_unwritten(error: &str, client_uid: u32) by (client_uid)
    "6c0be2a97d1f4f0e8a53d9b7142c8e60" "a session of user {client_uid} cannot be stored: {error}"
    { client_uid = client_uid, error = error }

    /// The file of a session cannot be read, and stays as it is.
    ERROR session_unreadable(error: &str, client_uid: u32) by (client_uid)
    "b35f7c10e2a94d86905d1e6cf4a07b29" "a session of user {client_uid} cannot be read: {error}"
    { client_uid = client_uid, error = error }

    /// The file of a session ended with the remains of an unconfirmed write, which a power cut had interrupted.
    INFO session_cut(path: &str, client_uid: u32, bytes: u64) by (client_uid)
    "f8d4601b3c7e4a25b9e70c5d28a6f143" "{path}: the incomplete write at its end was cut off ({bytes} bytes)"
    { path = path, client_uid = client_uid, bytes = bytes }

    /// The file of a session was changed by something else. It was renamed, and the session is gone.
    ERROR session_damaged(path: &str, client_uid: u32, aside: &str) by (client_uid)
    "2a97e5d3f06b4c18ae41b82d70c9f563" "{path} is damaged, and was renamed to {aside}"
    { path = path, client_uid = client_uid, aside = aside }

    /// The key-value pages of a session were written to the disk.
    DEBUG pages_saved(path: &str, client_uid: u32, tokens: usize, bytes: u64) by (client_uid)
    "71c6e9a2045d4b3f9e18d7c06ab25f34" "{path}: the pages of {tokens} tokens were written, {bytes} bytes"
    { path = path, client_uid = client_uid, tokens = tokens, bytes = bytes }

    /// The key-value pages of a session were read from the disk.
    DEBUG pages_restored(path: &str, client_uid: u32, tokens: usize) by (client_uid)
    "0e5d38b7c91f4a62b4d07f3ae865c912" "{path}: the pages of {tokens} tokens were restored"
    { path = path, client_uid = client_uid, tokens = tokens }

    /// The stored pages of a session do not match or are damaged. They are deleted, and the session's text is prefilled
    /// again.
    WARN pages_refused(path: &str, client_uid: u32, error: &str) by (client_uid)
    "a4f81c60d27e4953862b9fd1c37e05ab" "{path} is not usable and was deleted: {error}"
    { path = path, client_uid = client_uid, error = error }

    /// The pages of a session could not be written or deleted. The session itself loses nothing.
    WARN pages_unwritten(path: &str, client_uid: u32, error: &str) by (client_uid)
    "c9072be4f5a8416d9d63e1a07b84f2d5" "{path} cannot be written: {error}"
    { path = path, client_uid = client_uid, error = error }

    /// The model's files contain something that the tokenizer skips.
    WARN tokenizer_skips(path: &str, note: &str)
    "b7d2f6a1e94c4f0c8a35d1c6e27b904f" "{path}: {note}"
    { path = path, note = note }

    /// The model's chat template exceeded a limit, or could not be run. The request was refused.
    WARN template_stopped(error: &str) by (ANY)
    "0b280442487f4707bf0dc8d4b26afc8d" "{error}"
    { error = error }

    /// The process that compiled a request's grammar was ended, or could not be started. The request was refused.
    WARN grammar_stopped(client_uid: u32, error: &str) by (client_uid)
    "6de5b0c8f1f34a0c9be47d27a3c51e90" "user {client_uid}: {error}"
    { client_uid = client_uid, error = error }

    /// A caller did not read its answer: the request was cancelled.
    WARN slow_reader(request_id: u64, client: &str, client_uid: u32, seconds: f32) by (client_uid)
    "3f7b7c0e2a554f0d9a86d1e4c0b5f928"
    "request {request_id} is cancelled: its reader ({client}, user {client_uid}) has not read for {seconds} s"
    {
        request_id = request_id,
        client = client,
        client_uid = client_uid,
        stall_seconds = seconds,
    }

    /// A request was refused because its user has reached a limit of the configuration.
    WARN limit_reached(client: &str, client_uid: u32, limit: &str, refusals: u64) by (client_uid)
    "9b0c1f5f6f5d4c0c9f3a1e8bb0f2f6a7" "user {client_uid} ({client}) has reached {limit}; refused: {refusals}"
    { client = client, client_uid = client_uid, limit = limit, refusals = refusals }

    /// A request was refused because all users together have reached a limit of the configuration.
    WARN full(client: &str, client_uid: u32, limit: &str, refusals: u64) by (client_uid)
    "f20e9344123f46eeab73c2775a19f176"
    "{limit} is reached by all users together; user {client_uid} ({client}) was refused; refused: {refusals}"
    { client = client, client_uid = client_uid, limit = limit, refusals = refusals }

    /// The journal accepted events more slowly than they arrived.
    WARN events_dropped(dropped: u64)
    "58c2e9b1f06a4d7c93e4a7150bd8f6c2" "the journal did not take events in time; lost: {dropped}"
    { dropped = dropped }

    /// A user caused events beyond its rate, which were counted. `whose` names the user.
    INFO events_left_out(whose: &str, client_uid: Option<u32>, events: u64, kinds: &str)
    "e4a08db533fc464b8cbf63e9501fd4aa" "{whose} caused more events than the journal takes; left out: {kinds}"
    { client_uid = or_nothing(client_uid), events = events, kinds = kinds }

    /// A library reports a warning.
    WARN library_warning(library: &str, error: &str) by (ANY)
    "c41f7d5e8a0b4e6f92d3b8c6a7e05f19" "{library}: {error}"
    { library = library, error = error }

    /// A library reports an error.
    ERROR library_error(library: &str, error: &str) by (ANY)
    "84d0a3f6c9b14e2d8f57e1a2b6c7d390" "{library}: {error}"
    { library = library, error = error }

    /// A reload has applied the configuration.
    INFO reloaded(what: &str, model: &str, seconds: f64)
    "557ee3ca593136ade2c5a4dd347dc8c3" "the configuration was read again: {what} ({seconds:.1} s)"
    { what = what, model = model, seconds = format_args!("{seconds:.1}") }

    /// A reload failed; the previous configuration stays active.
    WARN reload_failed(error: &str)
    "41d00ef2d0044084a3449826429b096d" "the configuration stays as it was: {error}"
    { error = error }

    /// The daemon accepts no more requests; active ones may finish within the grace period.
    INFO stopping(requests: u32)
    "ecfe002c64a341aea8502c4156cc0299" "stopping; requests that may still finish: {requests}"
    { requests = requests }

    /// The last event of an orderly end.
    INFO stopped()
    "3d4fa219ff0548d2aeb781784c022ccf" "stopped"
    { }
}
