//! The patches and prompts of small models, compared with transformers.

use ganglion::vision::{
    ContentHash, Format, Grid, Limits, Piece, Pixels, Place, Plan, Processor, Published, Rule,
    Settings, Source, expand, hash, placeholder,
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{golden, read};

const FAMILIES: [&str; 5] = ["qwen3_vl", "gemma3", "gemma4", "smolvlm", "lfm2_vl"];

fn json(name: &str) -> Option<Value> {
    golden(name)
        .exists()
        .then(|| serde_json::from_slice(&read(name)).unwrap())
}

fn processor(family: &str) -> Processor {
    let file = |name: &str| json(&format!("{family}/{name}"));
    let config = file("config.json").expect("a configuration");
    let (preprocessor, processor) = (
        file("preprocessor_config.json"),
        file("processor_config.json"),
    );
    let published = Published {
        config: &config,
        preprocessor: preprocessor.as_ref(),
        processor: processor.as_ref(),
    };
    Processor::new(published.settings().unwrap()).unwrap()
}

fn cases(family: &str) -> Vec<Value> {
    let expected = json(&format!("{family}/expected.json")).unwrap();
    let cases = expected["cases"].as_array().unwrap().clone();
    assert_eq!(cases.len(), 5, "{family}");
    cases
}

fn sizes(case: &Value) -> Vec<(u32, u32)> {
    let side = |value: &Value| u32::try_from(value.as_u64().unwrap()).unwrap();
    let sizes = case["sizes"].as_array().unwrap().iter();
    sizes.map(|size| (side(&size[0]), side(&size[1]))).collect()
}

/// Returns the numbers of an image in the shape of the reference, which has pictures rather than patches for some families,
/// and pads each tile with zeros for others.
fn shaped(pixels: &Pixels, plan: &Plan, settings: &Settings, padded: usize) -> Vec<f32> {
    let mut shaped = Vec::new();
    let mut rest = &pixels.patches[..];
    for tile in &plan.tiles {
        let count = usize::try_from(tile.patches.count()).unwrap() * pixels.patch_len;
        let (patches, others) = rest.split_at(count);
        rest = others;
        match settings.rule {
            Rule::Gemma3 { .. } | Rule::SmolVlm { .. } => {
                shaped.extend(picture(patches, tile.patches, settings.patch as usize));
            }
            _ => {
                shaped.extend(patches);
                let missing = padded.saturating_sub(count);
                shaped.extend(std::iter::repeat_n(0.0, missing));
            }
        }
    }
    assert!(rest.is_empty());
    shaped
}

/// Returns channels of rows from patches of channels of rows.
fn picture(patches: &[f32], grid: Grid, side: usize) -> Vec<f32> {
    let (rows, columns) = (grid.rows as usize, grid.columns as usize);
    let (width, height) = (columns * side, rows * side);
    let mut picture = vec![0.0; 3 * width * height];
    for (at, number) in patches.iter().enumerate() {
        let (patch, at) = (at / (3 * side * side), at % (3 * side * side));
        let (channel, y, x) = (at / (side * side), at / side % side, at % side);
        let (row, column) = (patch / columns * side + y, patch % columns * side + x);
        picture[(channel * height + row) * width + column] = *number;
    }
    picture
}

/// Returns the numbers of all images of a case.
fn numbers(family: &str, processor: &Processor, case: &Value) -> Vec<f32> {
    let shape: Vec<_> = case["pixel_values"]["shape"]
        .as_array()
        .unwrap()
        .iter()
        .map(Value::as_u64)
        .collect();
    let padded = match processor.settings().rule {
        Rule::Gemma4 { .. } | Rule::Lfm2Vl(_) => shape[1].unwrap() * shape[2].unwrap(),
        _ => 0,
    };
    let images = case["images"].as_array().unwrap().iter();
    let images = images.flat_map(|image| {
        let bytes = read(&format!("{family}/{}", image.as_str().unwrap()));
        let source = Source {
            bytes: &bytes,
            ..Source::default()
        };
        let opened = source.open(&Limits::default()).unwrap();
        let plan = processor
            .plan(opened.width(), opened.height(), None)
            .unwrap();
        let image = opened.decode(&|| false).unwrap();
        let pixels = processor.pixels(&image, &plan, &|| false).unwrap();
        shaped(
            &pixels,
            &plan,
            processor.settings(),
            usize::try_from(padded).unwrap(),
        )
    });
    images.collect()
}

#[test]
fn patches_are_those_of_transformers() {
    for family in FAMILIES {
        let processor = processor(family);
        let mut exact = 0;
        for case in cases(family) {
            let name = format!("{family}, {}", case["name"]);
            if case["images"].as_array().unwrap().is_empty() {
                continue;
            }
            let numbers = numbers(family, &processor, &case);
            let wanted = &case["pixel_values"];
            let near = |found: f64, key: &str| {
                let wanted = wanted[key].as_f64().unwrap();
                // The reference adds in float32.
                assert!(
                    (found - wanted).abs() < 1e-6,
                    "{name}: {key} {found}, not {wanted}"
                );
            };
            let exactly = numbers.iter().copied().map(f64::from);
            #[allow(clippy::cast_precision_loss)] // thousands
            let count = numbers.len() as f64;
            near(exactly.clone().sum::<f64>() / count, "mean");
            near(
                (exactly.clone().map(|one| one * one).sum::<f64>() / count).sqrt(),
                "rms",
            );
            near(exactly.clone().fold(f64::MAX, f64::min), "min");
            near(exactly.fold(f64::MIN, f64::max), "max");
            if let Some(wanted) = case["sha256"].as_str() {
                let mut hash = Sha256::new();
                numbers
                    .iter()
                    .for_each(|number| hash.update(number.to_le_bytes()));
                let found = format!("{:?}", ContentHash(hash.finalize().into()));
                assert_eq!(found, wanted, "{name}: not the same to the bit");
                exact += 1;
            }
        }
        assert_eq!(exact, 2, "{family}");
    }
}

#[test]
fn plans_and_prompts_are_those_of_transformers() {
    for family in FAMILIES {
        let processor = processor(family);
        let rule = &processor.settings().rule;
        for case in cases(family) {
            let name = format!("{family}, {}", case["name"]);
            let plans = sizes(&case)
                .into_iter()
                .map(|(width, height)| processor.plan(width, height, None).unwrap());
            let plans: Vec<_> = plans.collect();
            let mut prompt = case["text"].as_str().unwrap().to_owned();
            for plan in &plans {
                // The next placeholder is not part of an expansion: those have a mark in its place here.
                let pieces = expand(rule, plan).into_iter().map(|piece| match piece {
                    Piece::Text(text) => text.replace(placeholder(rule), "{}"),
                    Piece::Rows { tile, count } => {
                        assert_eq!(count, plan.tiles[tile].tokens.count(), "{name}");
                        format!("[{count}]")
                    }
                });
                prompt = prompt.replacen(placeholder(rule), &pieces.collect::<String>(), 1);
            }
            let wanted = case["expanded"].as_str().unwrap();
            assert_eq!(prompt.replace("{}", placeholder(rule)), wanted, "{name}");
            let grids: Vec<_> = plans
                .iter()
                .flat_map(|plan| &plan.tiles)
                .map(|tile| tile.patches)
                .collect();
            for (key, start) in [("grid_thw", 1), ("spatial_shapes", 0)] {
                let Some(wanted) = case[key].as_array() else {
                    continue;
                };
                let wanted: Vec<_> = wanted
                    .iter()
                    .map(|grid| (grid[start].as_u64(), grid[start + 1].as_u64()))
                    .collect();
                let grids = grids
                    .iter()
                    .map(|grid| (Some(grid.rows.into()), Some(grid.columns.into())));
                assert_eq!(grids.collect::<Vec<_>>(), wanted, "{name}");
            }
        }
    }
}

#[test]
fn an_image_read_once_has_half_of_the_numbers() {
    let twice = processor("qwen3_vl");
    let once = Processor::new(Settings {
        repeats: 1,
        ..twice.settings().clone()
    })
    .unwrap();
    let case = &cases("qwen3_vl")[0];
    let twice = numbers("qwen3_vl", &twice, case);
    let once = numbers("qwen3_vl", &once, case);
    let side = 8 * 8;
    let halves = twice.chunks(2 * side).flat_map(|channel| &channel[..side]);
    assert!(once.iter().eq(halves));
    assert_eq!(twice.len(), 2 * once.len());
}

#[test]
fn tiles_are_in_rows_and_then_the_whole() {
    let plan = processor("lfm2_vl").plan(240, 192, None).unwrap();
    let places: Vec<_> = plan.tiles.iter().map(|tile| tile.place).collect();
    let cut = |row, column| Place::Cut { row, column };
    assert_eq!(
        places,
        [cut(0, 0), cut(0, 1), cut(1, 0), cut(1, 1), Place::Overview]
    );
    assert_eq!(
        plan.cut,
        Some(Grid {
            rows: 2,
            columns: 2
        })
    );
}

#[test]
fn a_hash_depends_on_bytes_fields_settings_and_plan() {
    let processor = processor("qwen3_vl");
    let other = Settings {
        repeats: 1,
        ..processor.settings().clone()
    };
    let pixels: Vec<u8> = (0..48 * 32 * 3)
        .map(|number| u8::try_from(number % 251).unwrap())
        .collect();
    let mut changed = pixels.clone();
    changed[100] ^= 1;
    let of = |bytes: &[u8], format, width, height, cap, settings: &Settings| {
        let source = Source {
            bytes,
            format,
            width: Some(width),
            height: Some(height),
            ..Source::default()
        };
        let opened = source.open(&Limits::default()).unwrap();
        let plan = processor.plan(width, height, cap).unwrap();
        hash(&opened, settings, &plan)
    };
    let settings = processor.settings();
    let hashes = [
        of(&pixels, Format::Rgb24, 48, 32, None, settings),
        of(&changed, Format::Rgb24, 48, 32, None, settings),
        of(&pixels, Format::Bgr24, 48, 32, None, settings),
        of(&pixels, Format::Rgb24, 32, 48, None, settings),
        of(&pixels, Format::Rgb24, 48, 32, Some(4), settings),
        of(&pixels, Format::Rgb24, 48, 32, None, &other),
    ];
    let mut different = hashes.to_vec();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), hashes.len(), "{hashes:?}");
    assert_eq!(
        of(&pixels, Format::Rgb24, 48, 32, Some(1000), settings),
        hashes[0]
    );
}
