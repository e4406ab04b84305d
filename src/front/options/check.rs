//! Checks of one option: its value must have the right type and be in range.

use super::allowed::{Allowed, STOP_BYTES, STOPS};
use super::given::{GivenOption, Value};
use crate::engine::{Name, Overflow, Priority};
use crate::front::error::{Error, OptionError};
use crate::front::messages::{GivenMessages, too_long};

/// An option, and its allowed values.
pub(super) struct Check<'a> {
    pub(super) option: &'a GivenOption,
    pub(super) allowed: Allowed,
}

impl Check<'_> {
    pub(super) fn whole<T: TryFrom<i128>>(&self) -> Result<T, Error> {
        match (&self.option.value, self.allowed) {
            (Value::Whole(n), Allowed::Whole { least, most })
                if (i128::from(least)..=i128::from(most)).contains(n) =>
            {
                T::try_from(*n).map_err(|_| self.wrong())
            }
            _ => Err(self.wrong()),
        }
    }

    pub(super) fn number(&self) -> Result<f32, Error> {
        let number = match self.option.value {
            Value::Number(number) => Some(number),
            // JSON and many languages do not distinguish 1 from 1.0.
            #[allow(clippy::cast_precision_loss)] // inexact values are far out of range
            Value::Whole(number) => Some(number as f64),
            _ => None,
        };
        // The sampler computes in f32: a bound such as 0.1 is compared in f32.
        #[allow(clippy::cast_possible_truncation)]
        match (number.map(|number| number as f32), self.allowed) {
            (Some(n), Allowed::Number { least, most }) if (least..=most).contains(&n) => Ok(n),
            _ => Err(self.wrong()),
        }
    }

    pub(super) fn truth(&self) -> Result<bool, Error> {
        match self.option.value {
            Value::Bool(truth) => Ok(truth),
            _ => Err(self.wrong()),
        }
    }

    pub(super) fn text(&self) -> Result<String, Error> {
        match &self.option.value {
            Value::Text(text) => Ok(text.clone()),
            Value::Long(bytes) => Err(too_long(&self.option.name, *bytes)),
            _ => Err(self.wrong()),
        }
    }

    pub(super) fn stops(&self) -> Result<Vec<String>, Error> {
        let stops = match &self.option.value {
            Value::Text(text) => Some(vec![text.clone()]),
            Value::Texts(texts) => Some(texts.clone()),
            _ => None,
        };
        stops
            .filter(|stops| stops.len() <= STOPS)
            .filter(|stops| stops.iter().all(|s| (1..=STOP_BYTES).contains(&s.len())))
            .ok_or_else(|| self.wrong())
    }

    pub(super) fn choices(&self) -> Result<Vec<String>, Error> {
        match &self.option.value {
            Value::Texts(texts)
                if !texts.is_empty() && texts.iter().all(|text| !text.is_empty()) =>
            {
                Ok(texts.clone())
            }
            _ => Err(self.wrong()),
        }
    }

    pub(super) fn messages(&self) -> Result<GivenMessages, Error> {
        match &self.option.value {
            Value::Messages(messages) => messages.clone().map_err(Error::Messages),
            _ => Err(self.wrong()),
        }
    }

    pub(super) fn priority(&self) -> Result<Priority, Error> {
        self.named(Priority::ALL, Priority::name)
    }

    pub(super) fn overflow(&self) -> Result<Overflow, Error> {
        self.named(Overflow::ALL, Overflow::name)
    }

    pub(super) fn name(&self) -> Result<Name, Error> {
        Name::new(&self.text()?).map_err(|_| self.wrong())
    }

    /// Returns the text of tools, which is parsed later: first it is known to be short.
    pub(super) fn tools(&self, most: usize) -> Result<String, Error> {
        let bytes = match &self.option.value {
            Value::Text(text) if text.len() <= most => return Ok(text.clone()),
            Value::Text(text) => text.len(),
            Value::Long(bytes) => *bytes,
            _ => return Err(self.wrong()),
        };
        let why = format!(
            "option \"tools\" has {bytes} bytes; {most} are allowed (limits.grammar_bytes)"
        );
        Err(OptionError::Unusable {
            option: "tools",
            why,
        }
        .into())
    }

    fn named<T: Copy, const N: usize>(
        &self,
        all: [T; N],
        name: impl Fn(T) -> &'static str,
    ) -> Result<T, Error> {
        let Value::Text(text) = &self.option.value else {
            return Err(self.wrong());
        };
        let named = all.into_iter().find(|one| name(*one) == text);
        named.ok_or_else(|| self.wrong())
    }

    fn wrong(&self) -> Error {
        self.option.wrong(self.allowed).into()
    }
}
