//! Parses options of the command line that have one of a few named values.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ganglion::choice::Choice;

/// Returns a parser for the names of a type. Help lists the names with their explanations.
pub(crate) fn choice<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let values = T::ALL.iter().map(|value| {
        let possible = PossibleValue::new(value.name());
        if value.help().is_empty() {
            possible
        } else {
            possible.help(value.help())
        }
    });
    PossibleValuesParser::new(values)
        .try_map(|name| T::named(&name).ok_or("not one of the possible values"))
}
