//! Encodes normalized text without added tokens.

use std::collections::HashMap;

use tokenizers::pipeline::{
    EncodeOptions, PipelineModel, PipelinePostProcessor, PipelinePreTokenizer, PipelineTokenizer,
};
use tokenizers::vocab::bucket_added_vocabulary::AddedVocabulary;

use super::bpe;
use super::definition::Algorithm;
use super::scores::Scores;
use super::spelling::Spelling;
use super::vocabulary::Vocabulary;
use crate::model::language_error::LanguageError;

pub(super) struct Plain {
    model: Model,
    /// One more than the largest id: the `tokenizers` crate may return ids that are not tokens.
    len: u32,
}

enum Model {
    Merges(Box<PipelineTokenizer>),
    /// Line breaks are taken whole if they are one of these tokens.
    Lines(Box<PipelineTokenizer>, HashMap<String, u32>),
    Scores(Box<Scores>),
}

impl Plain {
    pub(super) fn new(
        algorithm: Algorithm,
        pre_tokenizer: PipelinePreTokenizer,
        vocabulary: Vocabulary,
        spelling: &Spelling,
    ) -> Result<Self, LanguageError> {
        let len = vocabulary.len();
        let merges = match algorithm {
            Algorithm::Scores(scores) => {
                let scores = Scores::new(vocabulary, scores, spelling)?;
                let model = Model::Scores(Box::new(scores));
                return Ok(Self { model, len });
            }
            Algorithm::Merges(merges) => merges,
        };
        let breaks = merges.lines.then(|| vocabulary.lines());
        let model = bpe::model(vocabulary, merges, spelling)?;
        let pipeline = Box::new(PipelineTokenizer::from_parts(
            AddedVocabulary::new(),
            Vec::new(),
            pre_tokenizer,
            PipelineModel::BPE(model),
            PipelinePostProcessor::default(),
            None,
            std::collections::BTreeMap::new(),
            None,
            None,
        ));
        let model = match breaks {
            Some(breaks) => Model::Lines(pipeline, breaks),
            None => Model::Merges(pipeline),
        };
        Ok(Self { model, len })
    }

    /// Appends the ids of normalized text.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        match &self.model {
            Model::Scores(scores) => scores.encode(text, ids),
            Model::Merges(pipeline) => self.merge(pipeline, text, ids),
            Model::Lines(pipeline, breaks) => {
                for piece in lines(text) {
                    match breaks.get(piece) {
                        Some(id) => ids.push(*id),
                        None => self.merge(pipeline, piece, ids),
                    }
                }
            }
        }
    }

    /// Appends the ids of a text that merges join.
    fn merge(&self, pipeline: &PipelineTokenizer, text: &str, ids: &mut Vec<u32>) {
        let mut tokens = Vec::new();
        let encoded = pipeline.encode_into(text, &EncodeOptions::no_specials(), &mut tokens);
        if encoded.is_ok() {
            let known = tokens.iter().map(|token| token.id());
            ids.extend(known.filter(|&id| id < self.len));
        } else {
            // Only a text of 4 GiB is refused. Its halves are not.
            let middle = (0..=text.len() / 2)
                .rev()
                .find(|&at| text.is_char_boundary(at) && at > 0);
            if let Some((left, right)) = middle.and_then(|at| text.split_at_checked(at)) {
                self.merge(pipeline, left, ids);
                self.merge(pipeline, right, ids);
            }
        }
    }
}

/// Returns the line breaks of a text and the pieces between them.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let breaks = rest.starts_with('\n');
        let end = rest.find(|c| (c == '\n') != breaks).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
