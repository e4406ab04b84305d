//! The options that constrain the text of an answer: one at most, and none together with stop strings or tools.

use crate::engine::Options;
use crate::front::error::OptionError;
use crate::guide::Grammar;

/// Returns the only constraint of an answer. Stop strings could cut such an answer, so they are an error.
pub(super) fn only(
    mut grammars: Vec<Grammar>,
    stop: &[String],
) -> Result<Option<Grammar>, OptionError> {
    let Some(grammar) = grammars.pop() else {
        return Ok(None);
    };
    let also = if stop.is_empty() {
        grammars.pop().map(|other| other.option())
    } else {
        Some("stop")
    };
    match also {
        None => Ok(Some(grammar)),
        Some(also) => Err(conflict(also, grammar.option())),
    }
}

/// Returns a schema whose unsupported keywords may be left unchecked, if `allowed`.
pub(super) fn lenient(grammar: Grammar, allowed: bool) -> Grammar {
    match grammar {
        Grammar::JsonSchema(text) if allowed => Grammar::LenientSchema(text),
        grammar => grammar,
    }
}

/// Removes the session's tools from a turn with a constraint. Tools of the turn itself (`own`) conflict with it.
pub(super) fn replace_tools(
    request: &mut Options,
    own: bool,
    grammar: Option<&Grammar>,
) -> Result<(), OptionError> {
    let stop = (!request.stop.is_empty()).then_some("stop");
    let other = grammar.map(Grammar::option).or(stop);
    let Some(other) = other.filter(|_| request.tools.is_some()) else {
        return Ok(());
    };
    if own {
        return Err(conflict(other, "tools"));
    }
    if grammar.is_none() {
        // The caller may want stop strings to end an answer that calls tools, too.
        return Err(OptionError::Unusable {
            option: "stop",
            why: "option \"stop\" and the tools of this session cannot go together: leave it out, or open a session \
                  without tools"
                .to_owned(),
        });
    }
    request.tools = None;
    Ok(())
}

fn conflict(option: &'static str, other: &'static str) -> OptionError {
    OptionError::Unusable {
        option,
        why: format!("options {option:?} and {other:?} cannot go together: leave one of them out"),
    }
}
