//! The messages of a request, as `front` takes them.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw::{self, Kind};
use super::fields::{Given, Object};
use super::images::image;
use crate::engine::{Message, Role};
use crate::front::{
    GivenMessages, MESSAGES, MessageFields, PARTS, Part, PlacedImage, TEXT_BYTES, role,
};

/// Reads the field `messages`.
///
/// # Errors
/// An error names the message and its field.
pub(super) fn messages(raw: &RawValue) -> Result<GivenMessages, Error> {
    let each = raw::array(raw, MESSAGES);
    let each = each.map_err(|why| Error::invalid(Some("messages"), format!("messages: {why}")))?;
    let mut room = TEXT_BYTES;
    let mut given = GivenMessages::default();
    for (number, raw) in each.into_iter().enumerate() {
        let mut reader = Reader {
            number,
            at: format!("messages[{number}]"),
            room: &mut room,
        };
        let (message, images) = reader.message(raw)?;
        let pushed = given.push(message, images);
        pushed.map_err(|why| reader.wrong("", &why))?;
    }
    Ok(given)
}

/// Reads one message.
struct Reader<'a> {
    number: usize,
    /// Its path.
    at: String,
    /// Bytes of text that may still be kept.
    room: &'a mut usize,
}

impl Reader<'_> {
    fn wrong(&self, field: &str, why: &str) -> Error {
        let path = match field {
            "" => self.at.clone(),
            field => format!("{}.{field}", self.at),
        };
        let why = format!("{path}: {why}");
        Error::invalid(Some(&path), why).with_code("invalid_value")
    }

    fn message(&mut self, raw: &RawValue) -> Result<(Message, Vec<PlacedImage>), Error> {
        let given = Given::read(Object::Message, &self.at, raw.get())?;
        let Some(name) = given.get("role") else {
            return Err(self.wrong("role", "it is missing; give \"user\", for example"));
        };
        let name = raw::text(name).map_err(|why| self.wrong("role", &why))?;
        let role = match &*name {
            "developer" => Role::System,
            name => role(name).map_err(|why| self.wrong("role", &why))?,
        };
        let mut fields = MessageFields::default();
        for (name, raw) in given.iter() {
            match name {
                "content" if raw::kind(raw) == Kind::Array => {
                    fields.parts = Some(self.parts(raw)?);
                }
                "content" => fields.content = Some(self.text(name, raw)?),
                "reasoning_content" => {
                    let thoughts = self.text(name, raw)?;
                    fields.reasoning = Some(thoughts).filter(|thoughts| !thoughts.is_empty());
                }
                "tool_calls" => {
                    self.take(name, raw.get().len())?;
                    let is_empty = raw::array(raw, 1).is_ok_and(|calls| calls.is_empty());
                    fields.calls = (!is_empty).then(|| raw.get().to_owned());
                }
                "tool_call_id" => fields.call_id = Some(self.text(name, raw)?),
                _ => {}
            }
        }
        let built = fields.message(role, self.number);
        built.map_err(|why| self.wrong("", &why))
    }

    fn text(&mut self, field: &str, raw: &RawValue) -> Result<String, Error> {
        let text = raw::text(raw).map_err(|why| self.wrong(field, &why))?;
        self.take(field, text.len())?;
        Ok(text.into_owned())
    }

    fn take(&mut self, field: &str, bytes: usize) -> Result<(), Error> {
        let left = self.room.checked_sub(bytes).ok_or_else(|| {
            let why = format!(
                "up to it the messages have more than {TEXT_BYTES} bytes of text, which is the most of one request; shorten them"
            );
            self.wrong(field, &why)
        })?;
        *self.room = left;
        Ok(())
    }

    fn parts(&mut self, raw: &RawValue) -> Result<Vec<Part>, Error> {
        let each = raw::array(raw, PARTS).map_err(|why| self.wrong("content", &why))?;
        let mut parts = Vec::new();
        for (number, raw) in each.into_iter().enumerate() {
            parts.push(self.part(&format!("content[{number}]"), raw)?);
        }
        Ok(parts)
    }

    fn part(&mut self, at: &str, raw: &RawValue) -> Result<Part, Error> {
        let known = "a part is {\"type\": \"text\", \"text\": ...} or {\"type\": \"image_url\", \"image_url\": {\"url\": ...}}";
        // The type is read first, so that an error names it, and not a field of another type.
        let members = raw::object(raw.get()).map_err(|why| self.wrong(at, &why))?;
        let kind = members.iter().find(|(name, _)| name == "type");
        let kind = kind.and_then(|(_, kind)| raw::text(kind).ok());
        let kind = kind.ok_or_else(|| self.wrong(at, &format!("it has no \"type\"; {known}")))?;
        if kind != "text" && kind != "image_url" {
            let kind = crate::front::shortened(&kind);
            return Err(self.wrong(at, &format!("its type is {kind:?}; {known}")));
        }
        let path = format!("{}.{at}", self.at);
        let given = Given::read(Object::Part, &path, raw.get())?;
        let Some(content) = given.get(&kind) else {
            return Err(self.wrong(at, &format!("it has no {kind:?}; {known}")));
        };
        let field = format!("{at}.{kind}");
        if kind == "text" {
            return Ok(Part::Text(self.text(&field, content)?));
        }
        let url = url(content).map_err(|why| self.wrong(&field, &why))?;
        let image = image(&url).map_err(|why| self.wrong(&format!("{field}.url"), &why))?;
        Ok(Part::Image(image))
    }
}

/// Returns the URL of a part: a member of an object, as OpenAI has it, or the text itself, as other services have it.
fn url(raw: &RawValue) -> Result<Cow<'_, str>, String> {
    if raw::kind(raw) == Kind::Text {
        return raw::text(raw);
    }
    let mut url = None;
    for (name, raw) in raw::object(raw.get())? {
        match &*name {
            "url" => url = Some(raw::text(raw)?),
            "detail" => {}
            other => {
                let other = crate::front::shortened(other);
                return Err(format!("unknown field {other:?}; known are url and detail"));
            }
        }
    }
    url.ok_or_else(|| "it has no \"url\"".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<GivenMessages, Error> {
        let raw: Box<RawValue> = serde_json::from_str(json).expect("JSON");
        messages(&raw)
    }

    #[test]
    fn every_role_and_kind_of_content_is_read() {
        let given = read(
            r#"[
            {"role": "developer", "content": "Be short."},
            {"role": "user", "name": "ann", "content": [
                {"type": "text", "text": "What "},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
                {"type": "text", "text": "is\u0020it?"}]},
            {"role": "assistant", "content": null, "refusal": null, "reasoning_content": "Hm.", "audio": null,
             "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": 1}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": ""},
            {"role": "assistant", "content": "A cat.", "tool_calls": []},
            {"role": "user", "content": "Thanks."}]"#,
        )
        .expect("they are right");
        let roles: Vec<_> = given.messages.iter().map(|one| one.role.name()).collect();
        assert_eq!(
            roles,
            ["system", "user", "assistant", "tool", "assistant", "user"]
        );
        let [_, user, call, result, ..] = &given.messages[..] else {
            panic!("{given:?}");
        };
        assert_eq!(user.content, "What is it?");
        let [image] = &given.images[..] else {
            panic!("{given:?}");
        };
        assert_eq!((image.message, image.at, image.given_as), (1, 5, (1, 1)));
        assert_eq!((&*call.reasoning, &*call.content), ("Hm.", ""));
        assert_eq!(call.calls[0].name, "look");
        assert_eq!(result.call_id.as_deref(), Some("c1"));
    }

    #[test]
    fn errors_name_the_field() {
        let long = format!(
            r#"[{{"role": "user", "content": "{}"}}]"#,
            "x".repeat(TEXT_BYTES + 1)
        );
        let many = format!("[{}1]", "1,".repeat(MESSAGES));
        for (json, param, why) in [
            (r#"{"role": "user"}"#, "messages", "array"),
            (&*many, "messages", "more than 8192"),
            ("[1]", "messages[0]", "wrong"),
            (r#"[{"content": "x"}]"#, "messages[0].role", "missing"),
            (
                r#"[{"role": "function", "content": "x"}]"#,
                "messages[0].role",
                "unknown role",
            ),
            (r#"[{"role": "user"}]"#, "messages[0]", "no \"content\""),
            (
                r#"[{"role": "user", "content": 7}]"#,
                "messages[0].content",
                "a number",
            ),
            (&*long, "messages[0].content", "1048576"),
            (
                r#"[{"role": "user", "content": "x", "tool_call_id": "1"}]"#,
                "messages[0]",
                "\"tool\"",
            ),
            (
                r#"[{"role": "user", "content": "x", "text": 1}]"#,
                "messages[0].text",
                "unknown field",
            ),
            (
                r#"[{"role": "assistant", "refusal": "no"}]"#,
                "messages[0].refusal",
                "as content",
            ),
            (
                r#"[{"role": "assistant", "tool_calls": [1]}]"#,
                "messages[0]",
                "tool_calls",
            ),
            (
                r#"[{"role": "user", "content": [{"type": "input_audio"}]}]"#,
                "messages[0].content[0]",
                "input_audio",
            ),
            (
                r#"[{"role": "user", "content": [{"text": "x"}]}]"#,
                "messages[0].content[0]",
                "no \"type\"",
            ),
            (
                r#"[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]"#,
                "messages[0].content[0].image_url.url",
                "no network",
            ),
        ] {
            let error = read(json).expect_err(param);
            assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
            assert!(error.message.contains(why), "{error:?}");
        }
    }
}
