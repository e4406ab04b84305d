//! The body of a request: decoded, and checked as far as the engine is not needed.

use super::super::chain::Chain;
use super::super::error::Error;
use super::super::request::body;
use super::super::request::given::Given;
use super::super::request::question::Question;
use super::super::request::table::Object;
use super::fields::TABLE;
use super::messages::messages;
use super::options::options;

/// A decoded request.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) stream: bool,
    /// Whether a stream reports its usage.
    pub(super) include_usage: bool,
}

impl Asked {
    /// Decodes a body.
    ///
    /// # Errors
    /// An error names the field that is wrong.
    pub(super) fn read(body: &[u8]) -> Result<Self, Error> {
        let given = Given::read(&TABLE, Object::Request, "", body::text(body)?)?;
        let model = given.model()?;
        let include_usage = match given.get("stream_options") {
            None => false,
            Some(raw) => {
                const AT: &str = "stream_options";
                let options = Given::read(&TABLE, Object::StreamOptions, AT, raw.get())?;
                options.truth("stream_options.", "include_usage")?
            }
        };
        let Some(said) = given.get("messages") else {
            let why = "messages is missing; give [{\"role\": \"user\", \"content\": ...}]";
            return Err(
                Error::invalid(Some("messages"), why).with_code("missing_required_parameter")
            );
        };
        Ok(Self {
            stream: given.truth("", "stream")?,
            include_usage,
            question: Question {
                is_as_written: false,
                chain: Chain::default(),
                model,
                options: options(&given)?,
                messages: messages(said)?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::{Value as Json, json};

    use super::super::super::request::table::Rule;
    use super::super::super::terms;
    use super::*;
    use crate::engine::{Options as Read, Priority};
    use crate::front::{self, Config};

    fn body(fields: &[(&str, Json)]) -> Json {
        let mut body = json!({"messages": [{"role": "user", "content": "Hi"}]});
        for (path, value) in fields {
            let pointer = format!("/{}", path.replace('.', "/"));
            let (parent, name) = pointer.rsplit_once('/').expect("a path");
            if parent == "/ganglion" || parent == "/stream_options" {
                let members = body.as_object_mut().expect("an object");
                members.entry(&parent[1..]).or_insert_with(|| json!({}));
            }
            let parent = body.pointer_mut(parent).expect("an object");
            parent[name] = value.clone();
        }
        body
    }

    fn asked(body: &Json) -> Result<Asked, Error> {
        Asked::read(body.to_string().as_bytes())
    }

    fn options(fields: &[(&str, Json)]) -> Result<Read, Error> {
        let config = Config {
            seed: Some(1),
            ..Config::default()
        };
        let asked = asked(&body(fields))?;
        let options = &asked.question.options;
        let read = front::request(&options.given, &config);
        read.map_err(|error| Error::of_front(error, &terms::CHAT, &options.fields))
    }

    fn tools() -> Json {
        json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}])
    }

    /// A value of each field that is read, which differs from the default.
    fn sample(of: Object, name: &str) -> Option<Json> {
        Some(match (of, name) {
            (Object::Request, "messages" | "ganglion" | "stream_options")
            | (Object::Message, _) => {
                return None;
            }
            (Object::Part, _) => return None,
            (_, "model" | "session") => json!("default"),
            (_, "stream" | "logprobs" | "include_usage" | "thinking" | "guess") => json!(true),
            (_, "max_completion_tokens" | "max_tokens" | "top_k" | "seed") => json!(7),
            (_, "temperature" | "top_p" | "min_p") => json!(0.25),
            (_, "repetition_penalty") => json!(1.5),
            (_, "stop") => json!("end"),
            (_, "tools") => tools(),
            (_, "tool_choice") => json!("none"),
            (_, "parallel_tool_calls") => json!(false),
            (_, "response_format") => json!({"type": "json_object"}),
            (_, "top_logprobs" | "max_calls") => json!(2),
            (_, "reasoning_effort") => json!("minimal"),
            (_, "priority") => json!("background"),
            (_, "deadline_ms") => json!(500),
            (_, "regex" | "grammar") => json!("a+"),
            (_, "choice") => json!(["a", "b"]),
            (_, "thinking_tokens") => json!(9),
            _ => panic!("give {name} a sample here"),
        })
    }

    #[test]
    fn each_field_of_the_table_does_what_the_table_says() {
        for field in TABLE.fields() {
            let path = match field.of {
                Object::Request => field.name.to_owned(),
                Object::StreamOptions => format!("stream_options.{}", field.name),
                Object::Ganglion => format!("ganglion.{}", field.name),
                // These are of another module.
                _ => continue,
            };
            assert!(field.about.ends_with('.'), "{path}");
            let with = |value: Json| asked(&body(&[(&*path, value)]));
            match field.rule {
                Rule::Ignored => {
                    for value in [json!(null), json!({"a": [1]}), json!("x")] {
                        assert!(with(value).is_ok(), "{path}");
                    }
                }
                Rule::Only(values) => {
                    for value in values {
                        let value = serde_json::from_str(value).expect("JSON");
                        assert!(with(value).is_ok(), "{path}");
                    }
                    assert!(with(json!(null)).is_ok(), "{path}");
                    refused(with(json!(-0.5)), &path, field.about);
                }
                Rule::Refused => {
                    assert!(with(json!(null)).is_ok(), "{path}");
                    refused(with(json!({})), &path, field.about);
                }
                Rule::Read => {
                    let Some(sample) = sample(field.of, field.name) else {
                        continue;
                    };
                    // Others that it needs.
                    let mut fields = vec![(&*path, sample)];
                    match field.name {
                        "tool_choice" | "parallel_tool_calls" | "max_calls" => {
                            fields.push(("tools", tools()));
                        }
                        "top_logprobs" => fields.push(("logprobs", json!(true))),
                        _ => {}
                    }
                    let without = &fields[1..];
                    let shown = |fields: &[(&str, Json)]| {
                        let asked = asked(&body(fields)).expect(&path);
                        let Question {
                            model, options: of, ..
                        } = asked.question;
                        let others = (model, asked.stream, asked.include_usage, of.session);
                        format!("{:?} {others:?}", options(fields).expect(&path))
                    };
                    assert_ne!(shown(&fields), shown(without), "{path} changes nothing");
                }
            }
        }
    }

    #[track_caller]
    fn refused(asked: Result<Asked, Error>, path: &str, about: &str) {
        let error = asked.expect_err(path);
        assert_eq!(error.param.as_deref(), Some(path), "{error:?}");
        assert!(error.message.ends_with(about), "{error:?}");
    }

    #[test]
    fn options_reach_the_engine() {
        let read = options(&[
            ("max_completion_tokens", json!(9)),
            ("stop", json!(["a", "b"])),
            ("temperature", json!(0)),
            ("logprobs", json!(true)),
            ("top_logprobs", json!(3)),
            ("reasoning_effort", json!("high")),
            ("ganglion.priority", json!("background")),
            ("ganglion.deadline_ms", json!(250)),
            ("ganglion.top_k", json!(5)),
        ])
        .expect("they are right");
        assert_eq!(
            (read.max_tokens, &read.stop[..]),
            (9, &["a".into(), "b".into()][..])
        );
        assert_eq!(read.sampling.logprobs, Some(3));
        assert_eq!((read.sampling.temperature, read.sampling.top_k), (0.0, 5));
        assert_eq!(
            (read.thinking, read.priority),
            (Some(true), Priority::Background)
        );
        assert_eq!(read.deadline, Some(Duration::from_millis(250)));
        let schema = json!({"type": "object"});
        let format = |strict: Json| {
            let of = json!({"name": "x", "schema": schema, "strict": strict});
            let format = json!({"type": "json_schema", "json_schema": of});
            let read = options(&[("response_format", format)]).expect("a format");
            format!("{:?}", read.grammar)
        };
        let text = schema.to_string();
        assert_eq!(format(json!(true)), format!("Some(JsonSchema({text:?}))"));
        assert_eq!(
            format(json!(null)),
            format!("Some(LenientSchema({text:?}))")
        );
        let named = json!({"type": "function", "function": {"name": "look"}});
        let read = options(&[("tools", tools()), ("tool_choice", named)]).expect("tools");
        assert_eq!(
            read.tools.as_ref().map(|tools| tools.choice()),
            Some("look")
        );
        let none: Option<Arc<_>> = options(&[("tools", json!([]))]).expect("none").tools;
        assert_eq!(none, None);
    }

    #[test]
    fn errors_name_the_field() {
        let format = |of: Json| vec![("response_format", of)];
        #[rustfmt::skip] // a table
        let cases = [
            (vec![("max_tokens", json!(0))], "max_tokens", "is 0; allowed"),
            (vec![("max_completion_tokens", json!(0))], "max_completion_tokens", "\"max_completion_tokens\" is 0"),
            (vec![("max_completion_tokens", json!(1)), ("max_tokens", json!(2))], "max_completion_tokens", "differ"),
            (vec![("temperature", json!("hot"))], "temperature", "\"hot\""),
            (vec![("stop", json!([1]))], "stop", "an array"),
            (vec![("stream", json!(1))], "stream", "true or false"),
            (vec![("model", json!(1))], "model", "a text"),
            (vec![("tool_choice", json!("required"))], "tool_choice", "tools"),
            (vec![("tools", tools()), ("tool_choice", json!("look"))], "tool_choice", "\"look\""),
            (vec![("tools", tools()), ("tool_choice", json!({"type": "allowed_tools"}))], "tool_choice", "allowed_tools"),
            (vec![("tools", json!([{"type": "custom"}]))], "tools", "not \"type\": \"function\""),
            (vec![("tools", tools()), ("stop", json!("x"))], "stop", "\"tools\""),
            (format(json!({"type": "xml"})), "response_format", "\"xml\""),
            (format(json!({"type": "json_schema"})), "response_format", "no \"json_schema\""),
            (format(json!({"type": "json_schema", "json_schema": {"name": "x"}})), "response_format", "no \"schema\""),
            (vec![("response_format", json!({"type": "json_object"})), ("ganglion.regex", json!("a"))], "response_format", "\"ganglion.regex\""),
            (vec![("top_logprobs", json!(2))], "top_logprobs", "logprobs"),
            (vec![("top_logprobs", json!(21)), ("logprobs", json!(true))], "top_logprobs", "from 0 to 20"),
            (vec![("reasoning_effort", json!("huge"))], "reasoning_effort", "\"huge\""),
            (vec![("reasoning_effort", json!("low")), ("ganglion.thinking", json!(true))], "reasoning_effort", "ganglion.thinking"),
            (vec![("ganglion.priority", json!("high"))], "ganglion.priority", "\"high\""),
            (vec![("ganglion.choice", json!([]))], "ganglion.choice", "an array"),
            (vec![("ganglion.session", json!("a b"))], "ganglion.session", "letters"),
            (vec![("ganglion.colour", json!(1))], "ganglion.colour", "unknown field"),
            (vec![("colour", json!(1))], "colour", "unknown field"),
        ];
        for (fields, param, why) in cases {
            let error = options(&fields).expect_err(param);
            assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
            assert!(error.message.contains(why), "{error:?}");
        }
    }

    #[test]
    fn bodies_that_are_not_requests_are_refused() {
        let deep = format!("{{\"metadata\": {}1{}}}", "[".repeat(64), "]".repeat(64));
        let cases: [(&[u8], &str); 7] = [
            (b"\xff", "UTF-8"),
            (b"", "the body is wrong"),
            (b"[]", "the body is wrong"),
            (b"{\"messages\": [}", "the body is wrong"),
            (b"{}", "messages is missing"),
            (deep.as_bytes(), "65 deep"),
            (b"{\"n\": 1, \"n\": 1}", "twice"),
        ];
        for (body, why) in cases {
            let error = Asked::read(body).expect_err(why);
            assert!(error.message.contains(why), "{error:?}");
        }
        let deepest = deep.replacen('[', "", 1).replacen(']', "", 1);
        let error = Asked::read(deepest.as_bytes()).expect_err("no messages");
        assert_eq!(error.param.as_deref(), Some("messages"));
    }
}
