//! Conversations with images that step together have the bits that each has alone, whichever join or leave.

use std::error::Error;

use ganglion::kv::{FIRST_IMAGE_ROW, Owner, Wanted};
use ganglion::runner::{ImageTile, PromptImage, PromptInput, Runner, TileEmbeddings};
use ganglion::sampler::Parameters;
use ganglion::tape::Ending;
use ganglion::trial::rows::hashes;

use super::images::reference::Case;

const STEPS: usize = 24;
/// Each number of conversations at once, the first of which leaves after its steps and joins again.
const TOGETHER: [usize; 5] = [2, 5, 1, 8, 4];

/// The tokens of a conversation's steps, each with a hash of its logits.
type Steps = Vec<(u32, u64)>;

/// Compares the cases, in two versions with different images, and returns how many rows were compared.
pub(super) fn hold(runner: &mut Runner, cases: &[Case]) -> Result<usize, Box<dyn Error>> {
    let darker: Vec<Case> = cases.iter().map(Case::darker).collect();
    let conversations: Vec<&Case> = cases.iter().chain(&darker).collect();
    let mut alone = Vec::new();
    for number in 0..conversations.len() {
        let entry = begin(runner, &conversations, number)?;
        let mut steps = Steps::new();
        for _ in 0..STEPS {
            let token = runner.step_rows(&[entry], false)?[0];
            steps.push((token, hashes(runner, 1, false)?[0]));
        }
        runner.leave(entry);
        alone.push(steps);
    }
    // Each with its slot and its progress, the oldest first.
    let mut running: Vec<(usize, usize, usize)> = Vec::new();
    let (mut next, mut compared) = (0, 0);
    for round in 0..8 * TOGETHER.len() {
        let rows = TOGETHER[round % TOGETHER.len()].min(conversations.len());
        while running.len() >= rows || running.iter().any(|(.., said)| said + 3 > STEPS) {
            runner.leave(running.remove(0).1);
        }
        while running.len() < rows {
            while running
                .iter()
                .any(|(number, ..)| *number == next % conversations.len())
            {
                next += 1;
            }
            let number = next % conversations.len();
            let entry = begin(runner, &conversations, number)?;
            running.push((number, entry, 0));
        }
        let entries: Vec<_> = running.iter().map(|(_, entry, _)| *entry).collect();
        // The last step launched ahead has the conversations of before the change.
        for ahead in [&[false][..], &[true, false], &[true]][round % 3] {
            let tokens = runner.step_rows(&entries, *ahead)?;
            let hashes = hashes(runner, entries.len(), *ahead)?;
            for (row, (number, _, said)) in running.iter_mut().enumerate() {
                let (token, hash) = alone[*number][*said];
                if token != tokens[row] || (hashes[row] != 0 && hash != hashes[row]) {
                    let name = &conversations[*number].name;
                    let (rows, said) = (entries.len(), *said);
                    return Err(format!("{name}: step {said} differs next to {rows} rows").into());
                }
                *said += 1;
                compared += 1;
            }
        }
    }
    running
        .iter()
        .for_each(|(_, entry, _)| runner.leave(*entry));
    Ok(compared)
}

/// Starts a conversation, which shares no page with others. Half of them are greedy.
fn begin(
    runner: &mut Runner,
    conversations: &[&Case],
    number: usize,
) -> Result<usize, Box<dyn Error>> {
    let case = conversations[number];
    let seed = u32::try_from(number)?;
    let images = case.images();
    let inputs = case.inputs(&images);
    let (numbers, tiles) = numbered(&inputs, &images)?;
    let parameters = Parameters {
        temperature: if number.is_multiple_of(2) { 0.0 } else { 0.9 },
        seed: seed.into(),
        ..Parameters::default()
    };
    let owner = Owner(seed.into());
    runner.rewind(owner, 0)?;
    let wanted = Wanted::without_answers(&numbers);
    let joined = runner.join(Some(owner), seed, wanted, parameters, runner.context());
    let (entry, mut at) = joined?;
    runner.place_images(entry, &numbers, &tiles)?;
    let embeddings = tiles
        .iter()
        .zip(&images)
        .map(|(tile, image)| TileEmbeddings {
            rows: tile.rows.clone(),
            embeddings: image.embeddings,
        });
    let embeddings: Vec<_> = embeddings.collect();
    while at < numbers.len() {
        let rows = runner.run_length(entry, numbers.len() - at, runner.prefill_chunk());
        let slice = &numbers[at..at + rows];
        at += rows;
        let ending = if at == numbers.len() {
            Ending::Token
        } else {
            Ending::Kv
        };
        runner.prefill_images(slice, &embeddings, ending, None)?;
    }
    Ok(entry)
}

/// Returns a prompt as the cache knows it, and its images.
fn numbered(
    inputs: &[PromptInput],
    images: &[PromptImage<'_>],
) -> Result<(Vec<u32>, Vec<ImageTile>), Box<dyn Error>> {
    let (mut tiles, mut first) = (Vec::new(), FIRST_IMAGE_ROW);
    for image in images {
        let end = first + u32::try_from(image.embeddings.tokens)?;
        tiles.push(ImageTile {
            rows: first..end,
            grid: image.grid,
        });
        first = end;
    }
    let number = |input: &PromptInput| match *input {
        PromptInput::Token(token) => Ok(token),
        PromptInput::Image { image, row } => {
            u32::try_from(row).map(|row| tiles[image].rows.start + row)
        }
    };
    let numbers = inputs.iter().map(number).collect::<Result<_, _>>()?;
    Ok((numbers, tiles))
}
