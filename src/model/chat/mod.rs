//! A model's own chat template, which renders a conversation as text. Templates are foreign programs without bounds, so
//! each is compiled and run in a process of its own (`serve`), which the operating system limits. Its failure is an
//! error of this model alone.
//! Not here: tokens (`tokenizer`) and the language of templates (`jinja`).

mod content;
mod frame;
mod guard;
mod jinja;
mod renderer;
mod serve;
mod system_tools;
mod thoughts;

pub use content::{ImagePiece, ImageTexts};
pub(super) use guard::{Guard, unused};
pub use serve::TASK;
pub use thoughts::{ThoughtTexts, name as thoughts_name};

use std::sync::OnceLock;

use serde::Serialize;
use serde_json::Value;

use super::language_error::LanguageError;
use super::message::{Call, Message, MessageImage, Role};
use super::tokenizer::{Names, Specials};
use content::Content;
use renderer::Renderer;

/// The most bytes of a template; real ones are below 50 KB.
const LONGEST_SOURCE: usize = 1 << 20;

const SYSTEM_ROLE: &str = Role::System.name();

/// A compiled template.
#[derive(Debug)]
pub(super) struct ChatTemplate {
    renderer: Renderer,
    source: String,
    /// Whether it appends the arguments of calls as text, instead of writing an object as JSON.
    takes_text: bool,
    /// Whether it reads the content of each message as a list of parts, also if that is a text alone.
    takes_parts: bool,
    /// Whether it writes the placeholder of an image that is a part of a message, once it is known.
    writes_images: OnceLock<bool>,
}

/// The variables of a template.
#[derive(Debug, Serialize)]
struct Variables<'a> {
    messages: Vec<Turn<'a>>,
    add_generation_prompt: bool,
    tools: Option<&'a Value>,
    documents: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    bos_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eos_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pad_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_thinking: Option<bool>,
    /// The guard's mark, under `serve::MARK`.
    #[serde(rename = "", skip_serializing_if = "Option::is_none")]
    mark: Option<char>,
}

/// A message as transformers passes it to templates.
#[derive(Debug, Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reasoning_content: &'a str,
    /// The thoughts, for templates that name them so.
    #[serde(skip_serializing_if = "str::is_empty")]
    thinking: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Called<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    /// The tools, for templates that read them from the system message.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Called<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Debug, Serialize)]
struct Function<'a> {
    name: &'a str,
    /// Most templates expect an object.
    arguments: Value,
}

/// The settings of a rendering.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner<'a> {
    /// The template's `enable_thinking`.
    pub thinking: Option<bool>,
    /// Whether there is no rendering: the text of the only message is the prompt, and spells its own special tokens.
    pub is_as_written: bool,
    /// A JSON array in the form of OpenAI's API.
    pub tools: Option<&'a Value>,
    /// What stands for the images of its messages; `None` if the model takes none.
    pub images: Option<&'a ImageTexts>,
}

/// Returns the text of a rendering, or `None` if the template refuses the conversation or is wrong, which stays so.
///
/// # Errors
/// If the template was stopped, which may depend on the load of the machine.
fn completed(rendered: Result<String, LanguageError>) -> Result<Option<String>, LanguageError> {
    match rendered {
        Err(error) if error.is_interruption() => Err(error),
        rendered => Ok(rendered.ok()),
    }
}

impl ChatTemplate {
    pub(super) fn new(source: String, names: &Names) -> Result<Self, LanguageError> {
        if source.len() > LONGEST_SOURCE {
            return Err(LanguageError::Template(format!(
                "it is {} bytes long, and {LONGEST_SOURCE} are allowed",
                source.len()
            )));
        }
        let mut template = Self {
            renderer: Renderer::start(&source)?,
            source,
            takes_text: false,
            takes_parts: false,
            writes_images: OnceLock::new(),
        };
        let question = [Message::new(Role::User, content::PROBE)];
        // A template may refuse this conversation, but one that exceeds a limit here would do so for every answer.
        let rendered = template.render(&question, names, Manner::default(), None);
        let rendered = completed(rendered)?;
        let has_probe =
            |rendered: Option<String>| rendered.is_some_and(|text| text.contains(content::PROBE));
        if !has_probe(rendered) {
            template.takes_parts = true;
            let rendered = template.render(&question, names, Manner::default(), None);
            template.takes_parts = has_probe(rendered.ok());
        }
        template.takes_text = template.wants_text(names);
        Ok(template)
    }

    /// Whether it writes the placeholder of each image of a message.
    ///
    /// # Errors
    /// If it was stopped: then it is asked again for the next conversation.
    pub(super) fn writes_images(
        &self,
        names: &Names,
        placeholder: &str,
    ) -> Result<bool, LanguageError> {
        if let Some(writes) = self.writes_images.get() {
            return Ok(*writes);
        }
        let mut question = Message::new(Role::User, content::PROBE);
        question.images = vec![MessageImage { at: 0, image: None }];
        let rendered = self.render(&[question], names, Manner::default(), None);
        let rendered = completed(rendered)?;
        let writes = rendered.is_some_and(|text| text.matches(placeholder).count() == 1);
        Ok(*self.writes_images.get_or_init(|| writes))
    }

    /// Whether it needs the arguments of calls as text: it renders text, and fails with an object or writes it as
    /// Python writes a dict.
    fn wants_text(&mut self, names: &Names) -> bool {
        const NAME: &str = "ganglion";
        if !self.source.contains("arguments") {
            return false;
        }
        let conversation = probe(NAME);
        let tools = serde_json::json!([{"type": "function", "function": {
            "name": "go", "description": "Goes", "parameters": {"type": "object", "properties": {}},
        }}]);
        let mut rendered = |takes_text: bool| {
            self.takes_text = takes_text;
            let manner = Manner {
                tools: Some(&tools),
                ..Manner::default()
            };
            self.render(&conversation, names, manner, None)
        };
        let as_object = rendered(false);
        let is_wrong = match &as_object {
            Ok(text) => text.contains(&format!("{{'{NAME}'")),
            Err(error) => matches!(error, LanguageError::Template(_)),
        };
        is_wrong && rendered(true).is_ok_and(|text| text.contains(&format!("\"{NAME}\"")))
    }

    /// Returns the texts that it writes around thoughts, whose tokens are spelled `marks`; `None` if it writes none.
    pub(super) fn thoughts(&self, names: &Names, marks: [&str; 2]) -> Option<ThoughtTexts> {
        let manner = Manner {
            thinking: Some(true),
            ..Manner::default()
        };
        let rendered = self.render(&thoughts::conversation(), names, manner, None);
        thoughts::texts(&rendered.ok()?, marks)
    }

    /// Whether it writes the calls of a message.
    pub(super) fn writes_calls(&self) -> bool {
        self.source.contains("tool_calls")
    }

    /// Whether it takes arguments of calls as text.
    pub(super) fn takes_text(&self) -> bool {
        self.takes_text
    }

    /// Whether it uses `enable_thinking`.
    pub(super) fn uses_thinking(&self) -> bool {
        self.source.contains("enable_thinking")
    }

    /// Returns the program.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Returns a guard for the messages and tools of one rendering.
    pub(super) fn guard<'a>(
        &self,
        specials: &'a Specials,
        messages: &[Message],
        manner: Manner<'a>,
    ) -> Result<Guard<'a>, LanguageError> {
        let tools = manner.tools.map(Value::to_string);
        let placeholder = manner.images.map(|images| images.placeholder);
        let said = messages.iter().flat_map(|message| {
            let calls = message.calls.iter();
            let calls = calls.flat_map(
                |Call {
                     id,
                     name,
                     arguments,
                 }| [id, name, arguments],
            );
            let texts = [&message.content, &message.reasoning];
            texts.into_iter().chain(&message.call_id).chain(calls)
        });
        let texts = said.chain(&tools).map(String::as_str);
        Guard::new(specials, placeholder, texts.chain([self.source.as_str()]))
    }

    /// Renders the conversation up to the beginning of the answer.
    pub(super) fn render(
        &self,
        messages: &[Message],
        names: &Names,
        Manner {
            thinking, tools, ..
        }: Manner<'_>,
        mark: Option<char>,
    ) -> Result<String, LanguageError> {
        let system_tools = tools.filter(|_| system_tools::reads(&self.source));
        let system_tools = system_tools.map(system_tools::text);
        let variables = Variables {
            messages: self.turns(messages, system_tools.as_deref()),
            add_generation_prompt: true,
            tools,
            documents: (),
            bos_token: names.bos.as_deref(),
            eos_token: names.eos.as_deref(),
            pad_token: names.pad.as_deref(),
            enable_thinking: thinking,
            mark,
        };
        let variables = serde_json::to_vec(&variables)
            .map_err(|error| LanguageError::Template(error.to_string()))?;
        self.renderer.render(&self.source, &variables)
    }

    /// Returns the messages for the template; `tools` are those of the system message.
    fn turns<'a>(&self, messages: &'a [Message], tools: Option<&'a str>) -> Vec<Turn<'a>> {
        let names_thinking = thoughts::name(&self.source) == Some(thoughts::THINKING);
        let turns = messages.iter().map(|message| Turn {
            thinking: if names_thinking {
                &message.reasoning
            } else {
                ""
            },
            ..Turn::of(message, self.takes_text, self.takes_parts)
        });
        let mut turns: Vec<_> = turns.collect();
        if tools.is_some() {
            if turns.first().is_none_or(|turn| turn.role != SYSTEM_ROLE) {
                let system = Content::of_text(system_tools::SYSTEM, self.takes_parts);
                turns.insert(0, Turn::system(system));
            }
            if let Some(first) = turns.first_mut() {
                first.tools = tools;
            }
        }
        turns
    }
}

impl<'a> Turn<'a> {
    fn system(content: Content<'a>) -> Self {
        Self {
            role: SYSTEM_ROLE,
            content,
            reasoning_content: "",
            thinking: "",
            tool_calls: Vec::new(),
            tool_call_id: None,
            tools: None,
        }
    }

    fn of(message: &'a Message, takes_text: bool, takes_parts: bool) -> Self {
        let calls = message.calls.iter().map(|call| Called {
            id: &call.id,
            kind: "function",
            function: Function {
                name: &call.name,
                // Its JSON has been checked.
                arguments: if takes_text {
                    Value::from(call.arguments.as_str())
                } else {
                    serde_json::from_str(&call.arguments).unwrap_or_default()
                },
            },
        });
        Self {
            role: message.role.name(),
            content: Content::of(message, takes_parts),
            reasoning_content: &message.reasoning,
            thinking: "",
            tool_calls: calls.collect(),
            tool_call_id: message.call_id.as_deref(),
            tools: None,
        }
    }
}

/// Returns a conversation with a call that has an argument of this name.
fn probe(name: &str) -> [Message; 3] {
    let called = Message {
        calls: vec![Call {
            id: "aB3dE6gH9".into(),
            name: "go".into(),
            arguments: format!("{{\"{name}\": 1}}"),
        }],
        ..Message::new(Role::Assistant, "")
    };
    let result = Message {
        call_id: Some("aB3dE6gH9".into()),
        ..Message::new(Role::Tool, "ok")
    };
    [Message::new(Role::User, "Hello"), called, result]
}
