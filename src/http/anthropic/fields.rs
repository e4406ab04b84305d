//! The fields of Anthropic's messages.

use super::super::request::extensions::{EXTENSIONS, OF_CONVERSATIONS, SEED};
use super::super::request::table::Object::{
    Call, CallResult, Format, Image, Message, Output, Request, Source, Text, Thinking, Thoughts,
    Tool, ToolChoice,
};
use super::super::request::table::Rule::{Ignored, Only, Read, Refused};
use super::super::request::table::{Field, Table, field};

/// All of them.
pub(in crate::http) static TABLE: Table = Table {
    path: "/v1/messages",
    rows: &[
        REQUEST,
        SETTINGS,
        EXTENSIONS,
        OF_CONVERSATIONS,
        SEED,
        MESSAGES,
    ],
};

#[rustfmt::skip] // a table
const REQUEST: &[Field] = &[
    field(Request, "messages", Read, "The conversation; the last message is by \"user\"."),
    field(Request, "max_tokens", Read, "The most tokens of the answer, thoughts included; an answer needs it."),
    field(Request, "system", Read, "A system message before the others: a text, or an array of texts."),
    field(Request, "model", Read, "The name of the loaded model, the name of its file, \"default\" or \"ganglion\"."),
    field(Request, "stream", Read, "Whether the answer comes as server-sent events."),
    field(Request, "stop_sequences", Read, "An array of up to 16 texts that end the answer before them; not with tools or a format."),
    field(Request, "temperature", Read, "The default is the model's recommendation or the configuration's, not 1."),
    field(Request, "top_p", Read, "The default is the model's recommendation or the configuration's."),
    field(Request, "top_k", Read, "The number of the most probable tokens that are chosen from; 0 for all."),
    field(Request, "thinking", Read, "Whether the model thinks, if its template can switch that; without it, it does not."),
    field(Request, "tools", Read, "The tools that the model may call; their input always matches their schema."),
    field(Request, "tool_choice", Read, "Whether the model may or must call."),
    field(Request, "output_config", Read, "The form of the answer, and the effort of the thoughts."),
    field(Request, "ganglion", Read, "The extensions."),
    field(Request, "metadata", Ignored, "The caller's user is known from its connection or key."),
    field(Request, "cache_control", Ignored, "The cache finds equal beginnings by itself."),
    field(Request, "service_tier", Ignored, "Give ganglion.priority."),
    field(Request, "speed", Ignored, "Give ganglion.priority."),
    field(Request, "inference_geo", Ignored, "Answers come from this machine."),
    field(Request, "diagnostics", Ignored, "The usage has the tokens that were in the cache."),
    field(Request, "user_profile_id", Ignored, "The caller's user is known from its connection or key."),
    field(Request, "workspace_id", Ignored, "The daemon has none."),
    field(Request, "container", Refused, "The daemon runs no tools."),
    field(Request, "mcp_servers", Refused, "The daemon has no network. Offer what they have as tools."),
    field(Request, "context_management", Refused, "Leave out the oldest messages yourself."),
    field(Request, "output_format", Refused, "Give output_config.format in its place."),
    field(Request, "stop", Refused, "Give stop_sequences in its place."),
    field(Request, "seed", Refused, "Give ganglion.seed in its place."),
];

#[rustfmt::skip] // a table
const SETTINGS: &[Field] = &[
    field(Thinking, "type", Read, "\"enabled\", \"adaptive\" (the same) or \"disabled\"."),
    field(Thinking, "budget_tokens", Read, "The most tokens of the thoughts."),
    field(Thinking, "display", Only(&["\"summarized\""]), "The answer has the thoughts themselves."),
    field(Output, "effort", Read, "\"low\", \"medium\", \"high\", \"xhigh\" or \"max\", which are the same, with thinking."),
    field(Output, "format", Read, "An object with a schema that the answer matches."),
    field(Format, "type", Read, "\"json_schema\"."),
    field(Format, "schema", Read, "A JSON Schema; keywords that cannot be enforced are listed in ganglion.unchecked."),
    field(Tool, "type", Read, "\"custom\"; a tool without a type is one."),
    field(Tool, "name", Read, "The name of the tool."),
    field(Tool, "description", Read, "What the tool is for."),
    field(Tool, "input_schema", Read, "A JSON Schema of the input, which is an object."),
    field(Tool, "strict", Ignored, "Input always matches its schema."),
    field(Tool, "cache_control", Ignored, "The cache finds equal beginnings by itself."),
    field(Tool, "eager_input_streaming", Ignored, "Input is always streamed at once."),
    field(Tool, "allowed_callers", Only(&["[\"direct\"]"]), "Only the model calls."),
    field(Tool, "defer_loading", Only(&["false"]), "The model sees all tools."),
    field(Tool, "input_examples", Refused, "Write examples into the description."),
    field(ToolChoice, "type", Read, "\"auto\", \"any\", \"tool\" or \"none\"."),
    field(ToolChoice, "name", Read, "The tool that the model must call, with the type \"tool\"."),
    field(ToolChoice, "disable_parallel_tool_use", Read, "Whether one answer has at most one call."),
];

#[rustfmt::skip] // a table
const MESSAGES: &[Field] = &[
    field(Message, "role", Read, "\"user\", \"assistant\" or \"system\"."),
    field(Message, "content", Read, "A text, or an array of blocks: text, image and tool_result of the user; thinking, text and tool_use of the assistant."),
    field(Message, "id", Ignored, "Answers have it."),
    field(Message, "type", Ignored, "Answers have it."),
    field(Message, "model", Ignored, "Answers have it."),
    field(Message, "stop_reason", Ignored, "Answers have it."),
    field(Message, "stop_sequence", Ignored, "Answers have it."),
    field(Message, "stop_details", Ignored, "Answers have it."),
    field(Message, "usage", Ignored, "Answers have it."),
    field(Text, "type", Read, "\"text\"."),
    field(Text, "text", Read, "A text."),
    field(Text, "cache_control", Ignored, "The cache finds equal beginnings by itself."),
    field(Text, "citations", Ignored, "The model does not see them."),
    field(Text, "parsed_output", Ignored, "Clients add it to answers."),
    field(Image, "type", Read, "\"image\"."),
    field(Image, "source", Read, "The image itself."),
    field(Image, "cache_control", Ignored, "The cache finds equal beginnings by itself."),
    field(Image, "transformations", Refused, "Send the image as the model is to see it."),
    field(Source, "type", Read, "\"base64\"; the daemon has no network and stores no files."),
    field(Source, "media_type", Read, "\"image/jpeg\", \"image/png\" or \"image/webp\"."),
    field(Source, "data", Read, "The file in base64."),
    field(Call, "type", Read, "\"tool_use\"."),
    field(Call, "id", Read, "The id of the call, which its result names."),
    field(Call, "name", Read, "The name of the tool."),
    field(Call, "input", Read, "An object."),
    field(Call, "cache_control", Ignored, "The cache finds equal beginnings by itself."),
    field(Call, "caller", Ignored, "Only the model calls."),
    field(Call, "toolset_name", Ignored, "Answers of other services have it."),
    field(CallResult, "type", Read, "\"tool_result\"."),
    field(CallResult, "tool_use_id", Read, "The id of the call."),
    field(CallResult, "content", Read, "A text, or an array of text and image blocks."),
    field(CallResult, "is_error", Ignored, "The model sees the content alone: say there what failed."),
    field(CallResult, "cache_control", Ignored, "The cache finds equal beginnings by itself."),
    field(CallResult, "toolset_name", Ignored, "The call has it."),
    field(Thoughts, "type", Read, "\"thinking\"."),
    field(Thoughts, "thinking", Read, "The assistant's thoughts before the text."),
    field(Thoughts, "signature", Ignored, "Thoughts are not signed."),
];
