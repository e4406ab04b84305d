//! What Hugging Face's templates expect of their surroundings: the Jinja options, functions and
//! filters of `transformers`, and the methods of Python's types.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};

use super::json;

/// Instructions of one rendering: hundreds for each of ten thousand messages.
const FUEL: u64 = 10_000_000;
const RECURSION: usize = 100;

/// What a template raised.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

pub(super) fn hugging_face() -> Environment<'static> {
    let mut environment = Environment::new();
    if let Ok(syntax) = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
    {
        environment.set_syntax(syntax);
    }
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    // Debug output would put what users wrote into error messages.
    environment.set_debug(false);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", tojson);
    environment
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// The local time, as Python's `strftime` writes it.
fn strftime_now(format: &str) -> Result<String, Error> {
    jiff::fmt::strtime::format(format, &jiff::Zoned::now())
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// Unlike Jinja's own, it escapes no characters for HTML.
#[allow(clippy::needless_pass_by_value)] // the options of a filter come by value
fn tojson(value: &Value, indent: Option<usize>, options: Kwargs) -> Result<String, Error> {
    let indent = indent.or(options.get("indent")?);
    for python_only in ["ensure_ascii", "separators", "sort_keys"] {
        let _ = options.get::<Option<Value>>(python_only)?;
    }
    options.assert_all_used()?;
    json::write(value, indent)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}
