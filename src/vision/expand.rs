//! What replaces an image's placeholder in a prompt: the marks of a family, and the rows of its embeddings.
//!
//! Not here: the tokenizer. Text pieces are joined with the text around them before they are encoded, because a tokenizer
//! merges line breaks: `\n` of one piece and `\n` of the next can be one token.

use super::processor::{Place, Plan, Rule, Tile};

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text with special tokens, by their names.
    Text(String),
    /// The embeddings of a tile of the plan, which are consecutive positions.
    Rows { tile: usize, count: u64 },
}

/// Returns the text that stands for an image in the output of a model's chat template.
#[must_use]
pub const fn placeholder(rule: &Rule) -> &'static str {
    match rule {
        Rule::Qwen { .. } => "<|image_pad|>",
        Rule::Gemma3 { .. } => "<start_of_image>",
        Rule::Gemma4 { .. } => "<|image|>",
        Rule::SmolVlm { .. } | Rule::Lfm2Vl(_) => "<image>",
    }
}

/// Returns the texts before and after a placeholder, for chat templates that write no images.
#[must_use]
pub const fn around(rule: &Rule) -> [&'static str; 2] {
    match rule {
        Rule::Qwen { .. } => ["<|vision_start|>", "<|vision_end|>"],
        _ => ["", ""],
    }
}

/// Returns the name of the token at the positions of embeddings. Its own embedding is never read, and it is never generated.
#[must_use]
pub const fn row_token(rule: &Rule) -> &'static str {
    match rule {
        Rule::Gemma3 { .. } => "<image_soft_token>",
        rule => placeholder(rule),
    }
}

/// Returns what replaces the placeholder of an image.
#[must_use]
pub fn expand(rule: &Rule, plan: &Plan) -> Vec<Piece> {
    const FAKE: &str = "<fake_token_around_image>";
    let mut prompt = Prompt::default();
    prompt.text(match rule {
        Rule::Qwen { .. } | Rule::SmolVlm { .. } => "",
        Rule::Gemma3 { .. } => "\n\n<start_of_image>",
        Rule::Gemma4 { .. } => "<|image>",
        Rule::Lfm2Vl(_) => "<|image_start|>",
    });
    for (number, tile) in plan.tiles.iter().enumerate() {
        let row_column = match tile.place {
            Place::Cut { row, column } => Some((row + 1, column + 1)),
            Place::Whole | Place::Overview => None,
        };
        match (rule, row_column) {
            (Rule::SmolVlm { .. }, Some((row, column))) => {
                prompt.text(&format!("{FAKE}<row_{row}_col_{column}>"));
            }
            (Rule::SmolVlm { .. }, None) => {
                let line = if tile.place == Place::Overview {
                    "\n"
                } else {
                    ""
                };
                prompt.text(&format!("{line}{FAKE}<global-img>"));
            }
            (Rule::Lfm2Vl(_), Some((row, column))) => {
                prompt.text(&format!("<|img_row_{row}_col_{column}|>"));
            }
            (Rule::Lfm2Vl(_), None) if tile.place == Place::Overview => {
                prompt.text("<|img_thumbnail|>");
            }
            _ => {}
        }
        prompt.rows(number, tile);
        let is_last_of_row = plan
            .cut
            .is_some_and(|grid| row_column.is_some_and(|(_, column)| column == grid.columns));
        if is_last_of_row && matches!(rule, Rule::SmolVlm { .. }) {
            prompt.text("\n");
        }
    }
    prompt.text(match rule {
        Rule::Qwen { .. } => "",
        Rule::Gemma3 { .. } => "<end_of_image>\n\n",
        Rule::Gemma4 { .. } => "<image|>",
        Rule::SmolVlm { .. } => FAKE,
        Rule::Lfm2Vl(_) => "<|image_end|>",
    });
    prompt.0
}

#[derive(Default)]
struct Prompt(Vec<Piece>);

impl Prompt {
    /// Adds text to the last piece if that is text.
    fn text(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.0.push(Piece::Text(text.to_owned())),
        }
    }

    fn rows(&mut self, tile: usize, Tile { tokens, .. }: &Tile) {
        self.0.push(Piece::Rows {
            tile,
            count: tokens.count(),
        });
    }
}
