//! The messages of a request, as `front` takes them.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw::{self, Kind};
use super::super::request::images::image;
use super::super::request::reader::Reader;
use super::super::request::table::Object;
use super::fields::TABLE;
use crate::engine::{Message, Role};
use crate::front::{
    GivenMessages, MESSAGES, MessageFields, PARTS, Part, PlacedImage, TEXT_BYTES, role,
};

/// The form of a part.
const PART: &str = "a part is {\"type\": \"text\", \"text\": ...} or {\"type\": \"image_url\", \"image_url\": {\"url\": ...}}";

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
        let mut reader = Reader::new(&TABLE, format!("messages[{number}]"), &mut room);
        let (message, images) = message(&mut reader, raw, number)?;
        let pushed = given.push(message, images);
        pushed.map_err(|why| reader.wrong("", &why))?;
    }
    Ok(given)
}

/// Reads one message.
fn message(
    reader: &mut Reader<'_>,
    raw: &RawValue,
    number: usize,
) -> Result<(Message, Vec<PlacedImage>), Error> {
    let given = reader.given(Object::Message, raw)?;
    let Some(name) = given.get("role") else {
        return Err(reader.wrong("role", "it is missing; give \"user\", for example"));
    };
    let name = raw::text(name).map_err(|why| reader.wrong("role", &why))?;
    let role = match &*name {
        "developer" => Role::System,
        name => role(name).map_err(|why| reader.wrong("role", &why))?,
    };
    let mut fields = MessageFields::default();
    for (name, raw) in given.iter() {
        match name {
            "content" if raw::kind(raw) == Kind::Array => {
                fields.parts = Some(parts(reader, raw)?);
            }
            "content" => fields.content = Some(reader.text(name, raw)?),
            "reasoning_content" => {
                let thoughts = reader.text(name, raw)?;
                fields.reasoning = Some(thoughts).filter(|thoughts| !thoughts.is_empty());
            }
            "tool_calls" => {
                reader.take(name, raw.get().len())?;
                let is_empty = raw::array(raw, 1).is_ok_and(|calls| calls.is_empty());
                fields.calls = (!is_empty).then(|| raw.get().to_owned());
            }
            "tool_call_id" => fields.call_id = Some(reader.text(name, raw)?),
            _ => {}
        }
    }
    let built = fields.message(role, number);
    built.map_err(|why| reader.wrong("", &why))
}

fn parts(reader: &mut Reader<'_>, raw: &RawValue) -> Result<Vec<Part>, Error> {
    let each = raw::array(raw, PARTS).map_err(|why| reader.wrong("content", &why))?;
    let mut parts = Vec::new();
    for (number, raw) in each.into_iter().enumerate() {
        let at = format!("content[{number}]");
        let kind = reader.kind(&at, raw, &["text", "image_url"], PART)?;
        parts.push(part(&mut reader.within(&at), raw, &kind)?);
    }
    Ok(parts)
}

fn part(reader: &mut Reader<'_>, raw: &RawValue, kind: &str) -> Result<Part, Error> {
    let given = reader.given(Object::Part, raw)?;
    let Some(content) = given.get(kind) else {
        return Err(reader.wrong("", &format!("it has no {kind:?}; {PART}")));
    };
    if kind == "text" {
        return Ok(Part::Text(reader.text(kind, content)?));
    }
    let url = url(content).map_err(|why| reader.wrong(kind, &why))?;
    let image = image(&url).map_err(|why| reader.wrong(&format!("{kind}.url"), &why))?;
    Ok(Part::Image(image))
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
