//! Vision towers against references of transformers: the files of `tests/golden/vision`.

#[allow(dead_code)] // a test has more uses for it
#[path = "../towers/reference.rs"]
pub(crate) mod reference;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use ganglion::load::{self, Backend, Settings};
use ganglion::model::TowerCheckpoint;
use ganglion::model::tower::Grid;
use ganglion::quant::DType;
use ganglion::runner::Tower;

use self::reference::{Case, Picture, Reference, relative};

/// The most patches of a picture.
const PATCHES: usize = 640;
/// Bounds on the root mean square of differences, relative to that of the embeddings. Weights of the files are f16.
const BOUNDS: [(DType, f64); 3] = [(DType::F32, 3e-3), (DType::F16, 5e-3), (DType::BF16, 3e-2)];

/// Prints a line for each file in FOLDER and each type of activations. `--cpu` runs the check without a GPU. After `--time`
/// comes a file, of which the time for an image is printed.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (place, folders) = match super::place(arguments) {
        Ok(found) => found,
        Err(code) => return code,
    };
    if let [flag, file] = folders
        && flag == "--time"
    {
        let outcome = types(place.backend).try_for_each(|(activations, _)| {
            let said = time(Path::new(file), (&place, activations))?;
            println!("{file} {}: {said}", activations.name());
            Ok::<_, Box<dyn Error>>(())
        });
        if let Err(error) = &outcome {
            println!("FAILED: {error}");
        }
        return super::verdict(outcome.is_ok());
    }
    let mut passed = !folders.is_empty();
    for folder in folders {
        let files = files(Path::new(folder), ".mmproj-f16.gguf");
        passed &= !files.is_empty();
        for stem in files {
            for (activations, bound) in types(place.backend) {
                let name = stem.file_name().unwrap_or_default().to_string_lossy();
                let outcome = compare(&stem, (&place, activations), bound);
                passed &= outcome.is_ok();
                let said = outcome.unwrap_or_else(|error| format!("FAILED: {error}"));
                println!("{name} {}: {said}", activations.name());
            }
        }
    }
    super::verdict(passed)
}

/// The types of activations of a backend, with their bounds.
fn types(backend: Backend) -> impl Iterator<Item = (DType, f64)> {
    let on_cpu = backend == Backend::Cpu;
    let all = BOUNDS.into_iter();
    all.filter(move |(of, _)| (*of == DType::F32) == on_cpu)
}

/// The files of a folder with an ending, sorted, without it.
pub(crate) fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let stems = entries.filter_map(|entry| {
        let name = entry.file_name();
        let stem = name.to_str()?.strip_suffix(ending)?;
        Some(folder.join(stem))
    });
    let mut stems: Vec<_> = stems.collect();
    stems.sort();
    stems
}

fn load(
    path: &Path,
    (place, activations): (&Settings, DType),
    patches: usize,
) -> Result<Tower, Box<dyn Error>> {
    let checkpoint = TowerCheckpoint::open(path)?.ok_or("there is no tower")?;
    let settings = settings(place, activations);
    Ok(load::tower(
        &checkpoint,
        &settings,
        patches,
        &mut |_, _| {},
    )?)
}

/// The settings of a place with a type of activations, if a GPU computes.
pub(crate) fn settings(place: &Settings, activations: DType) -> Settings {
    let mut settings = place.clone();
    if place.backend != Backend::Cpu {
        settings.cuda.activations = activations;
    }
    settings
}

fn compare(stem: &Path, of: (&Settings, DType), bound: f64) -> Result<String, Box<dyn Error>> {
    let Reference { case, .. } = Reference::read(stem);
    let mut tower = load(&stem.with_extension("mmproj-f16.gguf"), of, PATCHES)?;
    let [_, reserved] = tower.memory();
    let begun = Instant::now();
    let (values, _) = embed(&mut tower, &case);
    let seconds = begun.elapsed().as_secs_f64();
    let length = values.len().min(case.embeds.len());
    let off = relative(&values[..length], &case.embeds[..length]);
    if off.is_nan() || off > bound {
        return Err(
            format!("{off:.2e} of the embeddings' root mean square, above {bound:.0e}").into(),
        );
    }
    // Neither pauses nor an earlier image change a bit.
    if paused(&mut tower, &case)? != values {
        return Err("pauses change the embeddings".into());
    }
    if tower.memory()[1] != reserved {
        return Err("an image needs more memory than was reserved".into());
    }
    Ok(format!(
        "{off:.2e} of the embeddings, {:.1} ms",
        1e3 * seconds
    ))
}

/// Returns the shortest time for an image of 1280 x 720 pixels in patches of 16, and that of its parts after the first.
fn time(file: &Path, of: (&Settings, DType)) -> Result<String, Box<dyn Error>> {
    const RUNS: usize = 5;
    let grid = Grid {
        rows: 46,
        columns: 80,
    };
    let mut tower = load(file, of, grid.patches())?;
    let mut random = fastrand::Rng::with_seed(15);
    let count = grid.patches() * tower.shape().patch.received();
    let pixels: Vec<f32> = (0..count).map(|_| 2.0 * random.f32() - 1.0).collect();
    let (mut whole, mut parts) = (f64::INFINITY, f64::INFINITY);
    let runs = if of.0.backend == Backend::Cpu {
        1
    } else {
        RUNS
    };
    for _ in 0..runs {
        let begun = Instant::now();
        tower.begin(&pixels, grid)?;
        tower.advance(&mut || true)?;
        let first = Instant::now();
        tower.advance(&mut || false)?;
        parts = parts.min(first.elapsed().as_secs_f64());
        whole = whole.min(begun.elapsed().as_secs_f64());
    }
    let [weights, reserved] = tower.memory().map(|bytes| bytes >> 20);
    Ok(format!(
        "{} patches in {:.1} ms, without the pixels {:.1} ms; {weights} MiB of weights, {reserved} MiB for images",
        grid.patches(),
        1e3 * whole,
        1e3 * parts
    ))
}

/// The embeddings of all pictures or tiles of a case, one after the other, and those of `DeepStack`.
pub(crate) fn embed(tower: &mut Tower, case: &Case) -> (Vec<f32>, Vec<Vec<f32>>) {
    let (mut values, mut deepstack) = (Vec::new(), Vec::<Vec<f32>>::new());
    for Picture { grid, pixels } in &case.pictures {
        let found = tower.embed(pixels, *grid).expect("it is encoded");
        values.extend(found.values);
        deepstack.resize(found.deepstack.len(), Vec::new());
        for (all, own) in deepstack.iter_mut().zip(found.deepstack) {
            all.extend(own);
        }
    }
    (values, deepstack)
}

/// The embeddings of all pictures of a case, with a pause after each part.
fn paused(tower: &mut Tower, case: &Case) -> Result<Vec<f32>, Box<dyn Error>> {
    let mut values = Vec::new();
    for Picture { grid, pixels } in &case.pictures {
        tower.begin(pixels, *grid)?;
        let found = loop {
            if let Some(found) = tower.advance(&mut || true)? {
                break found;
            }
        };
        values.extend(found.values);
    }
    Ok(values)
}
