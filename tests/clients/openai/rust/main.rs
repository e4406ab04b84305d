//! A client in Rust with async-openai, over reqwest.
//!
//! client chat | stream | async | tools | parse | refuse

use std::collections::HashMap;
use std::error::Error;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::types::chat::{
    ChatChoice, ChatCompletionMessageToolCalls, ChatCompletionRequestUserMessageArgs,
    ChatCompletionToolChoiceOption,
    CreateChatCompletionRequest, CreateChatCompletionRequestArgs, FinishReason, ResponseFormat,
    ToolChoiceOptions,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

type Done<T = ()> = Result<T, Box<dyn Error>>;
type Api = Client<OpenAIConfig>;

fn client() -> Done<Api> {
    let socket = std::env::var("GANGLION_SOCKET");
    let socket = socket.unwrap_or_else(|_| "/run/ganglion/openai.sock".to_owned());
    let http = reqwest::Client::builder().unix_socket(socket).build()?;
    // The host is not used, and the key is ignored: the daemon knows the user of a socket's peer.
    let config = OpenAIConfig::new()
        .with_api_base("http://localhost/v1")
        .with_api_key("none");
    Ok(Client::with_config(config).with_http_client(http))
}

fn ask(text: &str, most: u32) -> Result<CreateChatCompletionRequest, OpenAIError> {
    let message = ChatCompletionRequestUserMessageArgs::default()
        .content(text)
        .build()?;
    CreateChatCompletionRequestArgs::default()
        .model("ganglion")
        .messages([message.into()])
        .max_completion_tokens(most)
        .build()
}

async fn answer(client: &Api, request: CreateChatCompletionRequest) -> Done<ChatChoice> {
    let mut answer = client.chat().create(request).await?;
    Ok(answer.choices.remove(0))
}

fn has_ended(reason: Option<FinishReason>) -> bool {
    matches!(reason, Some(FinishReason::Stop | FinishReason::Length))
}

async fn chat(client: &Api) -> Done {
    let choice = answer(client, ask("Name a colour.", 20)?).await?;
    println!("{:?} {:?}", choice.message.content, choice.finish_reason);
    assert!(has_ended(choice.finish_reason) && choice.message.content.is_some());
    assert_eq!(client.models().list().await?.data.len(), 1);
    Ok(())
}

/// Prints an answer as it arrives, up to `pieces` of it. Dropping the stream ends the request.
async fn show(client: &Api, text: &str, most: u32, pieces: usize) -> Done<Option<FinishReason>> {
    let mut chunks = client.chat().create_stream(ask(text, most)?).await?;
    let mut count = 0;
    let mut end = None;
    while let Some(chunk) = chunks.next().await {
        for choice in chunk?.choices {
            print!("{}", choice.delta.content.unwrap_or_default());
            end = choice.finish_reason;
        }
        count += 1;
        if count == pieces {
            break;
        }
    }
    println!();
    Ok(end)
}

async fn several(client: &Api) -> Done {
    let (red, green, blue) = tokio::join!(
        show(client, "What is red?", 8, usize::MAX),
        show(client, "What is green?", 400, 4),
        show(client, "What is blue?", 8, usize::MAX),
    );
    assert!(has_ended(red?) && green?.is_none() && has_ended(blue?));
    Ok(())
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"room": {"enum": ["kitchen", "hall", "workshop"]}},
        "required": ["room"],
        "additionalProperties": false,
    })
}

fn room(text: &str) -> Done {
    let room: HashMap<String, String> = serde_json::from_str(text)?;
    println!("{room:?}");
    assert!(["kitchen", "hall", "workshop"].contains(&&*room["room"]));
    Ok(())
}

async fn tools(client: &Api) -> Done {
    let go = json!({"name": "go", "description": "Drives to a room.", "parameters": schema()});
    let mut request = ask("Drive to the hall.", 60)?;
    request.tools = serde_json::from_value(json!([{"type": "function", "function": go}]))?;
    request.tool_choice = Some(ChatCompletionToolChoiceOption::Mode(ToolChoiceOptions::Required));
    request.parallel_tool_calls = Some(false);
    let choice = answer(client, request).await?;
    assert_eq!(choice.finish_reason, Some(FinishReason::ToolCalls));
    match &choice.message.tool_calls.unwrap_or_default()[..] {
        [ChatCompletionMessageToolCalls::Function(call)] => room(&call.function.arguments),
        calls => Err(format!("not one call: {calls:?}").into()),
    }
}

async fn parse(client: &Api) -> Done {
    let mut request = ask("Drive to the hall.", 60)?;
    let form = json!({"name": "go", "strict": true, "schema": schema()});
    let form: ResponseFormat =
        serde_json::from_value(json!({"type": "json_schema", "json_schema": form}))?;
    request.response_format = Some(form);
    room(
        &answer(client, request)
            .await?
            .message
            .content
            .unwrap_or_default(),
    )
}

/// A field that would change the answer is an error that names it.
async fn refuse(client: &Api) -> Done {
    let mut request = ask("Name a colour.", 20)?;
    request.logit_bias = Some(HashMap::from([("1".to_owned(), 5)]));
    match client.chat().create(request).await {
        Err(OpenAIError::ApiError(refused)) => {
            assert_eq!(refused.api_error.param.as_deref(), Some("logit_bias"));
            Ok(println!("{refused}"))
        }
        other => Err(format!("not refused: {other:?}").into()),
    }
}

#[tokio::main]
async fn main() -> Done {
    let client = client()?;
    match std::env::args().nth(1).as_deref() {
        Some("chat") => chat(&client).await,
        Some("stream") => {
            let end = show(&client, "Name a colour.", 20, usize::MAX).await?;
            assert!(has_ended(end));
            Ok(())
        }
        Some("async") => several(&client).await,
        Some("tools") => tools(&client).await,
        Some("parse") => parse(&client).await,
        Some("refuse") => refuse(&client).await,
        _ => Err("client chat | stream | async | tools | parse | refuse".into()),
    }
}
