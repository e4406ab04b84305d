//! The references of vision towers: pixels, hidden states and embeddings.

use std::collections::HashMap;
use std::path::Path;

use ganglion::model::tower::Grid;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// An image, or a tile of one.
pub(crate) struct Picture {
    pub(crate) grid: Grid,
    /// Patches in the order of the tower.
    pub(crate) pixels: Vec<f32>,
}

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) pictures: Vec<Picture>,
    pub(crate) embeds: Vec<f32>,
    pub(crate) deepstack: Vec<Vec<f32>>,
    /// The first patches after the position embeddings, after the first block, and after the last.
    pub(crate) hidden: Option<[Vec<f32>; 3]>,
}

/// A reference in the repository.
pub(crate) struct Reference {
    pub(crate) case: Case,
    pub(crate) statistics: Statistics,
}

/// Figures of all embeddings of a case.
pub(crate) struct Statistics {
    mean: f64,
    rms: f64,
    min: f64,
    max: f64,
}

impl Statistics {
    fn of(value: &Value) -> Self {
        let number = |key: &str| value[key].as_f64().expect("a number");
        Self {
            mean: number("mean"),
            rms: number("rms"),
            min: number("min"),
            max: number("max"),
        }
    }

    /// Checks that embeddings have the figures, within `bound` of their root mean square.
    #[allow(clippy::cast_precision_loss)] // embeddings are few
    pub(crate) fn assert(&self, what: &str, values: &[f32], bound: f64) {
        let all = || values.iter().copied().map(f64::from);
        let count = values.len() as f64;
        let mean = all().sum::<f64>() / count;
        let rms = (all().map(|x| x * x).sum::<f64>() / count).sqrt();
        let (min, max) = (
            all().fold(f64::MAX, f64::min),
            all().fold(f64::MIN, f64::max),
        );
        for (figure, found, expected) in [
            ("mean", mean, self.mean),
            ("rms", rms, self.rms),
            ("min", min, self.min),
            ("max", max, self.max),
        ] {
            let off = (found - expected).abs() / self.rms;
            assert!(off <= bound, "{what} {figure}: {found}, not {expected}");
        }
    }
}

impl Reference {
    /// Reads the cut-down reference of a model: pixels in 8 bits, and the first embeddings.
    pub(crate) fn read(stem: &Path) -> Self {
        let tensors = tensors(&stem.with_extension("safetensors"));
        let stated = json(&stem.with_extension("json"));
        let (of_pixels, each) = (&tensors["pixels"], stated["scale"].as_str());
        let value = |byte: &f32| match each {
            Some("centered") => (byte - 127.5) / 127.5,
            _ => byte * (1.0 / 255.0),
        };
        let frames = stated["frames"].as_u64().expect("a number");
        let channel = stated["channel"].as_u64().expect("a number");
        let channel = usize::try_from(channel).expect("it fits");
        let pixels = of_pixels.chunks(channel).flat_map(|channel| {
            let values: Vec<f32> = channel.iter().map(value).collect();
            (0..frames).flat_map(move |_| values.clone())
        });
        let pixels: Vec<f32> = pixels.collect();
        let grids = stated["grids"].as_array().expect("grids");
        let each = pixels.len() / grids.len();
        let pictures = grids.iter().zip(pixels.chunks(each));
        let pictures = pictures.map(|(grid, pixels)| Picture {
            grid: grid_of(grid),
            pixels: pixels.to_vec(),
        });
        Self {
            case: Case {
                name: stated["case"].as_str().expect("a name").into(),
                pictures: pictures.collect(),
                embeds: tensors["image_embeds"].clone(),
                deepstack: Vec::new(),
                hidden: None,
            },
            statistics: Statistics::of(&stated["statistics"]),
        }
    }
}

/// Reads all cases of an unpacked reference.
pub(crate) fn of_folder(folder: &Path) -> Vec<Case> {
    let tensors = tensors(&folder.join("tensors.safetensors"));
    let golden = json(&folder.join("golden.json"));
    let config = json(&folder.join("config.json"));
    ["one", "wide"]
        .map(|name| {
            let of = |part: &str| tensors.get(&format!("{name}.{part}"));
            let processor = case_of(&golden, name)["processor"].clone();
            let pixels = of("pixel_values").expect("pixels");
            let embeds = of("image_embeds").expect("embeddings").clone();
            let hidden = of("tower.embed").map(|_| {
                ["embed", "block0", "last_block"]
                    .map(|part| of(&format!("tower.{part}")).expect("a state").clone())
            });
            let deepstack = (0..).map_while(|at| of(&format!("deepstack.{at}")));
            Case {
                name: name.into(),
                pictures: pictures(&config, &processor, pixels, embeds.len()),
                deepstack: deepstack.cloned().collect(),
                hidden,
                embeds,
            }
        })
        .into()
}

/// The figures of embeddings of F16 towers, for those cases that are also in `cases`.
pub(crate) fn statistics<'a>(file: &Path, cases: &'a [Case]) -> Vec<(&'a Case, Statistics)> {
    let golden = json(file);
    let of = |one: &'a Case| {
        (
            one,
            Statistics::of(&case_of(&golden, &one.name)["image_embeds"][0]),
        )
    };
    cases.iter().map(of).collect()
}

pub(crate) fn case_of(golden: &Value, name: &str) -> Value {
    let cases = golden["cases"].as_array().expect("cases");
    let found = cases.iter().find(|case| case["name"] == name);
    found.expect("the case is there").clone()
}

/// Divides pixels into pictures, and these into patches unless they are.
fn pictures(config: &Value, processor: &Value, pixels: &[f32], embeds: usize) -> Vec<Picture> {
    let vision = &config["vision_config"];
    let number = |value: &Value| usize::try_from(value.as_u64().expect("a number")).expect("fits");
    let size = number(&vision["patch_size"]);
    let one = |grid: Grid, received: usize| {
        let pixels = pixels[..grid.patches() * received].to_vec();
        vec![Picture { grid, pixels }]
    };
    match config["model_type"].as_str().expect("a type") {
        "qwen3_vl" | "qwen3_5" => {
            let [_, rows, columns] =
                [0, 1, 2].map(|at| number(&processor["image_grid_thw"][0][at]));
            one(Grid { rows, columns }, 6 * size * size)
        }
        "lfm2_vl" => one(grid_of(&processor["spatial_shapes"][0]), 3 * size * size),
        "gemma4" => {
            let text = number(&config["text_config"]["hidden_size"]);
            let greatest = processor["image_position_ids"]["max"].as_f64();
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a small number
            let columns = greatest.expect("a number") as usize + 1;
            let rows = embeds / text * 9 / columns;
            one(Grid { rows, columns }, 3 * size * size)
        }
        _ => {
            let image = number(&vision["image_size"]);
            let across = image / size;
            let grid = Grid {
                rows: across,
                columns: across,
            };
            let images = pixels.chunks(3 * image * image);
            images
                .map(|pixels| Picture {
                    grid,
                    pixels: patches(pixels, image, size),
                })
                .collect()
        }
    }
}

/// Cuts an image (channel, y, x) into patches (channel, y, x), row by row.
fn patches(pixels: &[f32], image: usize, size: usize) -> Vec<f32> {
    let mut patches = Vec::with_capacity(pixels.len());
    for row in 0..image / size {
        for column in 0..image / size {
            for channel in 0..3 {
                for y in 0..size {
                    let from = (channel * image + row * size + y) * image + column * size;
                    patches.extend_from_slice(&pixels[from..from + size]);
                }
            }
        }
    }
    patches
}

fn grid_of(value: &Value) -> Grid {
    let [rows, columns] = [0, 1].map(|at| {
        let number = value[at].as_u64().expect("a number");
        usize::try_from(number).expect("it fits")
    });
    Grid { rows, columns }
}

pub(crate) fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("golden data is well formed")
}

pub(crate) fn tensors(path: &Path) -> HashMap<String, Vec<f32>> {
    let bytes = std::fs::read(path);
    let bytes = bytes.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let tensors = SafeTensors::deserialize(&bytes).expect("golden data is well formed");
    let values = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
        let data = view.data();
        let values = match view.dtype() {
            Dtype::F32 => {
                let words = data.as_chunks::<4>().0.iter();
                words.map(|word| f32::from_le_bytes(*word)).collect()
            }
            Dtype::U8 => data.iter().copied().map(f32::from).collect(),
            other => panic!("{name} is {other:?}"),
        };
        (name, values)
    };
    tensors.tensors().into_iter().map(values).collect()
}

/// The root mean square of differences, relative to that of the expected values.
pub(crate) fn relative(found: &[f32], expected: &[f32]) -> f64 {
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
    let pairs = found.iter().zip(expected);
    let mut off = pairs.map(|(a, b)| f64::from(*a) - f64::from(*b));
    let mut all = expected.iter().copied().map(f64::from);
    (squares(&mut off) / squares(&mut all)).sqrt()
}
