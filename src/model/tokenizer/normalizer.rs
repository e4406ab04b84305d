//! Normalizes texts as a vocabulary requires. Some put a space before a text, which depends on its place.

use std::borrow::Cow;

use tokenizers::normalizers::metaspace::{MetaspaceNormalizer, PrependBehavior};
use tokenizers::pipeline::{Normalizer as _, PipelineNormalizer};

/// The place of a text in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) enum Place {
    /// At the beginning.
    Start,
    /// After a special token.
    AfterSpecial,
    /// After other text: it continues a word or an answer, and no space is put into it.
    Within,
}

impl Place {
    /// Returns the place of the text after an added token that is text.
    pub(super) fn after_token(self) -> Self {
        match self {
            Self::Within => Self::Within,
            Self::Start | Self::AfterSpecial => Self::AfterSpecial,
        }
    }
}

#[derive(Debug)]
pub(super) struct Normalizer {
    /// The steps before added tokens match in a normalized text.
    steps: Vec<PipelineNormalizer>,
    /// The step after it.
    metaspace: Option<MetaspaceNormalizer>,
    /// The same step for text that continues.
    metaspace_within: Option<MetaspaceNormalizer>,
}

impl Normalizer {
    pub(super) fn new(
        steps: Vec<PipelineNormalizer>,
        metaspace: Option<MetaspaceNormalizer>,
    ) -> Self {
        let within = |of: &MetaspaceNormalizer| {
            MetaspaceNormalizer::new(of.delimiter(), PrependBehavior::Never, false)
        };
        Self {
            steps,
            metaspace_within: metaspace.as_ref().map(within),
            metaspace,
        }
    }

    /// Runs the steps before added tokens match.
    pub(super) fn normalize<'t>(&self, text: &'t str, place: Place) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for step in &self.steps {
            if place == Place::Within && matches!(step, PipelineNormalizer::Prepend(_)) {
                continue;
            }
            let changed = match step.normalize(&text, 0) {
                Ok(Cow::Owned(changed)) => Some(changed),
                Ok(Cow::Borrowed(_)) | Err(_) => None,
            };
            text = changed.map_or(text, Cow::Owned);
        }
        text
    }

    /// Runs the step after added tokens have matched, on the text between them.
    pub(super) fn finish<'t>(&self, text: &'t str, place: Place) -> Cow<'t, str> {
        let step = match place {
            Place::Within => &self.metaspace_within,
            _ => &self.metaspace,
        };
        // Only the offset 0 means the beginning.
        let offset = usize::from(place != Place::Start);
        let changed = step.as_ref().map(|step| step.normalize(text, offset));
        changed.and_then(Result::ok).unwrap_or(Cow::Borrowed(text))
    }

    /// Whether it puts a space before a text at a place.
    pub(super) fn prefixes(&self, place: Place) -> bool {
        let prepends = |step: &PipelineNormalizer| matches!(step, PipelineNormalizer::Prepend(_));
        let behavior = self.metaspace.as_ref().map(MetaspaceNormalizer::prepend);
        match place {
            Place::Within => false,
            _ if self.steps.iter().any(prepends) => true,
            Place::Start => behavior.is_some_and(|behavior| behavior != PrependBehavior::Never),
            Place::AfterSpecial => behavior == Some(PrependBehavior::Always),
        }
    }
}
