//! The references of prompts with images: ids, embeddings, log probabilities.

use std::path::Path;

use ganglion::runner::{Embeddings, MixedPrompt, PromptImage, PromptInput, Tower};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize_to_file};
use serde_json::Value;

use crate::towers::embed;
use crate::towers::reference::{case_of, json, of_folder, tensors};

#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(super) ids: Vec<u32>,
    /// The rows of images.
    rows: Vec<usize>,
    /// The embeddings of each picture or tile, and the grid of its tokens.
    pictures: Vec<(Embeddings, [usize; 2])>,
    pub(super) positions: Option<(Vec<[u32; 3]>, isize)>,
    /// Of the next id, unless that is a placeholder.
    pub(super) logprobs: Vec<Option<f64>>,
    pub(super) argmax: Vec<usize>,
    pub(super) last: Vec<(usize, f64)>,
    pub(super) greedy: Vec<u32>,
}

/// Reads the cases without images, and those whose embeddings are stored.
pub(super) fn cases(golden: &Path, stored: &Path) -> Vec<Case> {
    let (golden, stored) = (json(golden), tensors(stored));
    let names = ["text", "one", "wide"].into_iter();
    let is_there = |name: &&str| {
        let mut all = golden["cases"].as_array().expect("cases").iter();
        all.any(|case| case["name"] == **name)
    };
    names
        .filter(is_there)
        .map(|name| {
            let stated = case_of(&golden, name);
            let mut case = Case::read(name, &stated);
            if let Some(values) = stored.get(&format!("{name}.image_embeds")) {
                let deepstack = (0..).map_while(|at| stored.get(&format!("{name}.deepstack.{at}")));
                let deepstack: Vec<_> = deepstack.map(Vec::as_slice).collect();
                case.show(values, &deepstack, &stated["processor"]);
            }
            case
        })
        .collect()
}

/// Writes the embeddings of cases, as `cases` reads them.
pub(super) fn write(path: &Path, cases: &[Case]) {
    let mut tensors: Vec<(String, Vec<u8>, usize)> = Vec::new();
    for case in cases.iter().filter(|case| !case.pictures.is_empty()) {
        for (part, values) in case.values().into_iter().enumerate() {
            let name = match part.checked_sub(1) {
                None => format!("{}.image_embeds", case.name),
                Some(layer) => format!("{}.deepstack.{layer}", case.name),
            };
            let bytes = values.into_iter().flat_map(f32::to_le_bytes).collect();
            tensors.push((name, bytes, case.rows.len()));
        }
    }
    let views = tensors.iter().map(|(name, bytes, rows)| {
        let shape = vec![*rows, bytes.len() / 4 / rows];
        let view = TensorView::new(Dtype::F32, shape, bytes);
        (name, view.expect("it has its length"))
    });
    serialize_to_file(views, None, path).expect("it is written");
}

impl Case {
    fn read(name: &str, stated: &Value) -> Self {
        let list = |key: &str| stated[key].as_array().expect("a list").iter();
        let number =
            |value: &Value| usize::try_from(value.as_u64().expect("a number")).expect("fits");
        let id = |value: &Value| u32::try_from(number(value)).expect("an id");
        let positions = stated["position_ids"].as_array().map(|parts| {
            let part = |at: usize| parts[at].as_array().expect("positions").iter().map(id);
            let rows = part(0).zip(part(1)).zip(part(2));
            let offset = stated["rope_delta"].as_i64().expect("a number");
            let rows = rows.map(|((time, row), column)| [time, row, column]);
            (rows.collect(), isize::try_from(offset).expect("it fits"))
        });
        Self {
            name: name.into(),
            ids: list("input_ids").map(id).collect(),
            rows: list("image_token_positions").map(number).collect(),
            pictures: Vec::new(),
            positions,
            logprobs: list("token_logprobs").map(Value::as_f64).collect(),
            argmax: list("argmax").map(number).collect(),
            last: list("last_top10")
                .map(|pair| (number(&pair[0]), pair[1].as_f64().expect("a number")))
                .collect(),
            greedy: list("greedy").map(id).collect(),
        }
    }

    /// Sets the embeddings. Consecutive rows are one picture or tile.
    fn show(&mut self, values: &[f32], deepstack: &[&[f32]], processor: &Value) {
        let width = values.len() / self.rows.len();
        let runs = self.rows.chunk_by(|row, next| row + 1 == *next);
        let (mut at, mut pictures) = (0, Vec::new());
        for run in runs {
            let own = at * width..(at + run.len()) * width;
            let embeddings = Embeddings {
                tokens: run.len(),
                width,
                values: values[own.clone()].to_vec(),
                deepstack: deepstack
                    .iter()
                    .map(|all| all[own.clone()].to_vec())
                    .collect(),
            };
            let side = |part: usize| {
                let side = processor["image_grid_thw"][pictures.len()][part].as_u64();
                side.map(|patches| usize::try_from(patches / 2).expect("it fits"))
            };
            let grid = side(1).zip(side(2)).map_or([1, run.len()], Into::into);
            pictures.push((embeddings, grid));
            at += run.len();
        }
        self.pictures = pictures;
    }

    /// Sets the embeddings of a tower, for the pixels of the references. The geometry is that of another case.
    pub(super) fn embed(&mut self, folder: &Path, tower: &mut Tower, like: &Self) {
        let all = of_folder(folder);
        let case = all.iter().find(|case| case.name == self.name);
        let (values, deepstack) = embed(tower, case.expect("pixels"));
        let deepstack: Vec<_> = deepstack.iter().map(Vec::as_slice).collect();
        self.show(&values, &deepstack, &Value::Null);
        for ((_, grid), (_, own)) in self.pictures.iter_mut().zip(&like.pictures) {
            *grid = *own;
        }
        self.positions.clone_from(&like.positions);
    }

    /// Returns all embeddings, then the further ones of each layer.
    pub(super) fn values(&self) -> Vec<Vec<f32>> {
        let all = |of: &dyn Fn(&Embeddings) -> &Vec<f32>| {
            let values = self
                .pictures
                .iter()
                .flat_map(|(embeddings, _)| of(embeddings));
            values.copied().collect()
        };
        let further = self
            .pictures
            .first()
            .map_or(0, |(first, _)| first.deepstack.len());
        let further = (0..further).map(|at| all(&|of| &of.deepstack[at]));
        std::iter::once(all(&|of| &of.values))
            .chain(further)
            .collect()
    }

    /// The case with other embeddings.
    pub(crate) fn darker(&self) -> Self {
        let pictures = self.pictures.iter().cloned().map(|(mut embeddings, grid)| {
            let values = embeddings.values.iter_mut();
            values.for_each(|value| *value = 1.0 - *value);
            (embeddings, grid)
        });
        Self {
            pictures: pictures.collect(),
            ..self.clone()
        }
    }

    pub(crate) fn images(&self) -> Vec<PromptImage<'_>> {
        let pictures = self.pictures.iter();
        pictures
            .map(|picture| {
                let (embeddings, grid) = (&picture.0, picture.1);
                PromptImage { embeddings, grid }
            })
            .collect()
    }

    pub(crate) fn inputs(&self, images: &[PromptImage<'_>]) -> Vec<PromptInput> {
        MixedPrompt::inputs(&self.ids, |at| self.rows.contains(&at), images)
    }
}
