//! Jinja's filters, except `urlize`, which is for web pages. Not here: `tojson` (`json`).

mod arguments;
mod numbers;
mod sequences;
mod texts;

use minijinja::{Error, State, Value};

use super::kind::{bind, needed};

/// A filter: its value is the first argument.
pub(super) type Filter = fn(&mut State, &[Value]) -> Result<Value, Error>;

/// All filters of Jinja but `tojson`, which transformers defines, and `urlize`.
pub(super) const ALL: [(&str, Filter); 52] = [
    ("abs", numbers::abs),
    ("attr", sequences::attr),
    ("batch", sequences::batch),
    ("capitalize", texts::capitalize),
    ("center", texts::center),
    ("count", sequences::count),
    ("d", default),
    ("default", default),
    ("dictsort", sequences::dictsort),
    ("e", texts::escape),
    ("escape", texts::escape),
    ("filesizeformat", numbers::file_size),
    ("first", sequences::first),
    ("float", numbers::float),
    ("forceescape", texts::force_escape),
    ("format", texts::format),
    ("groupby", sequences::groupby),
    ("indent", texts::indent),
    ("int", numbers::int),
    ("items", sequences::items),
    ("join", sequences::join),
    ("last", sequences::last),
    ("length", sequences::count),
    ("list", sequences::list),
    ("lower", texts::lower),
    ("map", sequences::map),
    ("max", sequences::max),
    ("min", sequences::min),
    ("pprint", texts::pprint),
    ("random", sequences::random),
    ("reject", sequences::reject),
    ("rejectattr", sequences::rejectattr),
    ("replace", texts::replace),
    ("reverse", sequences::reverse),
    ("round", numbers::round),
    ("safe", texts::safe),
    ("select", sequences::select),
    ("selectattr", sequences::selectattr),
    ("slice", sequences::slice),
    ("sort", sequences::sort),
    ("string", texts::string),
    ("striptags", texts::striptags),
    ("sum", numbers::sum),
    ("title", texts::title),
    ("trim", texts::trim),
    ("truncate", texts::truncate),
    ("unique", sequences::unique),
    ("upper", texts::upper),
    ("urlencode", texts::urlencode),
    ("wordcount", texts::wordcount),
    ("wordwrap", texts::wordwrap),
    ("xmlattr", texts::xmlattr),
];

fn default(_: &mut State, values: &[Value]) -> Result<Value, Error> {
    let [value, default, boolean] = bind("default", values, ["value", "default_value", "boolean"])?;
    let value = needed(value, "value")?;
    let falsy = boolean.is_some_and(|boolean| boolean.is_true()) && !value.is_true();
    if value.is_undefined() || falsy {
        return Ok(default.unwrap_or_else(|| Value::from("")));
    }
    Ok(value)
}
