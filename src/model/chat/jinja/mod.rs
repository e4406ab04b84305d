//! Jinja as transformers configures it, on top of minijinja. This folder has everything that minijinja lacks or does
//! differently:
//!
//! | feature | where |
//! |---|---|
//! | line ends, escapes in strings, `generation` blocks, the line end behind `raw` | `source` |
//! | operators and comparisons of Python's types, `%` of texts, errors for undefined operands | `operators`, `compare` |
//! | attributes before items, the sandbox's refusal of methods that change a value, slices | `lookup` |
//! | all methods of `str`, `list`, `tuple` and `dict` that change nothing | `methods`, `strings` |
//! | iterators that end, views of dicts, groups, `cycler`, `joiner` | `objects`, `turns` |
//! | `varargs` and `kwargs` of macros | `macros` |
//! | `str` and `repr` of values, floats as Python writes them | `text` |
//! | `%` formats and `str.format` | `format` |
//! | all tests of Jinja, with its rules for undefined values and `none` | `checks` |
//! | all filters of Jinja but `urlize` | `filters`, `wrap` |
//! | `tojson` with the four options of transformers | `json` |
//! | `raise_exception`, `strftime_now`, `range`, `dict`, `namespace` | `functions` |
//!
//! `rewrite` replaces operations of a template by calls of these functions. Not here: limits of time and memory
//! (`serve`).

mod checks;
mod compare;
mod filters;
mod format;
mod functions;
mod json;
mod kind;
mod limits;
mod lookup;
mod macros;
mod methods;
mod names;
mod objects;
mod operators;
mod rewrite;
mod source;
mod strings;
mod text;
mod turns;
mod wrap;

pub(super) use functions::Raised;

use std::collections::BTreeMap;

use minijinja::machinery::{self, CodeGenerator, Instructions};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, State, UndefinedBehavior, Value};

use limits::{FUEL, RECURSION};

const NAME: &str = "chat template";

/// A compiled template.
pub(super) struct Program {
    environment: Environment<'static>,
    instructions: Instructions<'static>,
    blocks: BTreeMap<&'static str, Instructions<'static>>,
}

impl Program {
    /// Compiles a template. Its text stays in memory until the end of the process, which runs no other template.
    pub(super) fn new(source: &str) -> Result<Self, Error> {
        let source: &'static str = Box::leak(source::prepared(source)?.into_boxed_str());
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?;
        let template = machinery::parse(source, NAME, syntax)?;
        let template = rewrite::rewritten(&template)?;
        let mut generator = CodeGenerator::new(NAME, source);
        generator.compile_stmt(&template);
        let (instructions, blocks) = generator.finish();
        Ok(Self {
            environment: environment(),
            instructions,
            blocks,
        })
    }

    /// Renders the template. `mark` is the character that guards special spellings.
    pub(super) fn render(&self, variables: Value, mark: Option<char>) -> Result<String, Error> {
        text::set_mark(mark);
        let mut text = String::new();
        {
            let mut output = machinery::make_string_output(&mut text);
            machinery::eval(
                &self.environment,
                &self.instructions,
                variables,
                &self.blocks,
                &mut output,
                AutoEscape::None,
            )?;
        }
        Ok(text)
    }
}

type Function = fn(&mut State, &[Value]) -> Result<Value, Error>;

/// Functions that rewritten templates call, and those that templates call themselves.
const FUNCTIONS: [(&str, Function); 25] = [
    (names::ADD, operators::add),
    (names::SUB, operators::sub),
    (names::MUL, operators::mul),
    (names::DIV, operators::div),
    (names::INT_DIV, operators::int_div),
    (names::REM, operators::rem),
    (names::POW, operators::pow),
    (names::NEG, operators::neg),
    (names::CONCAT, operators::concat),
    (names::COMPARE, operators::chain),
    (names::ATTR, lookup::attr),
    (names::ITEM, lookup::item),
    (names::SLICE, lookup::slice),
    (names::ITERATE, functions::iterate),
    (names::MACRO, macros::wrapped),
    (names::METHOD, methods::call),
    (names::TRUTH, functions::truth),
    ("cycler", turns::cycler),
    ("dict", functions::dict),
    ("joiner", turns::joiner),
    ("lipsum", functions::lipsum),
    ("namespace", functions::namespace),
    ("raise_exception", functions::raise_exception),
    ("range", functions::range),
    ("strftime_now", functions::strftime_now),
];

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(|output, state, value| {
        let text = match state.auto_escape() {
            AutoEscape::None => text::str(value),
            _ => text::escaped(value),
        };
        output.write_str(&text).map_err(Error::from)
    });
    // Debug output would put users' text into error messages.
    environment.set_debug(false);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION);
    environment.remove_global("debug");
    for filter in ["bool", "chain", "lines", "split", "zip"] {
        environment.remove_filter(filter);
    }
    for test in ["endingwith", "int", "safe", "startingwith"] {
        environment.remove_test(test);
    }
    for (name, function) in FUNCTIONS {
        environment.add_function(
            name,
            move |state: &mut State, values: Rest<ValueOrKwargs>| {
                function(state, &values.into_values())
            },
        );
    }
    for (name, filter) in filters::ALL {
        add_filter(&mut environment, name, filter);
    }
    add_filter(&mut environment, "tojson", json::tojson);
    for (name, check) in checks::ALL {
        environment.add_test(
            name,
            move |state: &mut State, values: Rest<ValueOrKwargs>| {
                check(state, &values.into_values())
            },
        );
    }
    environment
}

fn add_filter(environment: &mut Environment<'static>, name: &'static str, filter: Function) {
    environment.add_filter(
        name,
        move |state: &mut State, values: Rest<ValueOrKwargs>| filter(state, &values.into_values()),
    );
}
