//! Compares steps and prompts with plain recurrences in f64, and with each other bit for bit.

mod exact;
mod layer;

use std::ops::Range;

use self::exact::{Exact, gated, short};
use self::layer::{Layer, TAPS, delta, mamba, random};
use super::States;
use crate::executor::StateError;
use crate::tape::{GateOrder, HeadOrder, StateHeads, StateInfo, StatePool};

const RULES: [fn() -> StateHeads; 2] = [delta, mamba];

/// Runs a prompt from position 0 in slices that end at these positions.
fn prompt(layer: &mut Layer, slot: usize, ends: &[usize]) -> Vec<f32> {
    let mut first = 0;
    let mut out = Vec::new();
    for end in ends {
        out.extend(
            layer
                .prompt(slot, first..*end)
                .expect("the prompt continues"),
        );
        first = *end;
    }
    out
}

fn steps(layer: &mut Layer, slot: usize, positions: Range<usize>) -> Vec<f32> {
    let step = |position| layer.step(&[(slot, position)]).expect("the step continues");
    positions.flat_map(step).collect()
}

/// The mean of |delta| over the root of the mean square.
#[allow(clippy::cast_precision_loss)] // counts are small
fn error(exact: &[f64], ours: &[f32]) -> f64 {
    let delta = exact.iter().zip(ours);
    let delta: f64 = delta.map(|(a, b)| (a - f64::from(*b)).abs()).sum();
    let square: f64 = exact.iter().map(|value| value * value).sum();
    delta / exact.len() as f64 / (square / exact.len() as f64).sqrt()
}

#[test]
fn errors_stay_small_and_do_not_grow_over_four_thousand_tokens() {
    const TOKENS: usize = 4000;
    for heads in RULES {
        let exact = Exact::new(heads()).outputs(TOKENS);
        let width = heads().values();
        let mut layer = Layer::new(heads());
        let stepped = steps(&mut layer, 0, 0..TOKENS);
        let ends: Vec<_> = (0..TOKENS).step_by(448).skip(1).chain([TOKENS]).collect();
        let prompted = prompt(&mut layer, 1, &ends);
        for ours in [stepped, prompted] {
            let thousands = exact.chunks(1000 * width).zip(ours.chunks(1000 * width));
            let errors: Vec<_> = thousands.map(|(a, b)| error(a, b)).collect();
            assert!(errors.iter().all(|error| *error < 2e-6), "{errors:?}");
            assert!(errors[3] < 1.5 * errors[0], "{errors:?}");
        }
    }
}

#[test]
fn tiled_heads_read_other_key_heads_than_grouped_ones() {
    for order in [HeadOrder::Grouped, HeadOrder::Tiled] {
        let heads = StateHeads { order, ..delta() };
        let exact = Exact::new(heads).outputs(20);
        let ours = steps(&mut Layer::new(heads), 0, 0..20);
        assert!(error(&exact, &ours) < 1e-6);
    }
}

#[test]
fn a_step_that_runs_again_adds_nothing() {
    for heads in RULES {
        let mut once = Layer::new(heads());
        let mut thrice = Layer::new(heads());
        for position in 0..40 {
            let first = once.step(&[(0, position)]);
            for _ in 0..3 {
                assert_eq!(thrice.step(&[(0, position)]), first);
            }
        }
    }
}

#[test]
fn an_abandoned_row_adds_nothing() {
    for heads in RULES {
        let mut layer = Layer::new(heads());
        let expected = steps(&mut layer, 0, 0..200);
        let width = heads().values();
        let mut position = 0;
        // Some rows of each step are accepted: the next step begins behind them.
        for accepted in [1, 8, 3, 1, 1, 7, 5, 2, 4, 6, 8, 8, 1].into_iter().cycle() {
            if position + 8 > 200 {
                break;
            }
            layer.wrong_from = Some(position + accepted);
            let rows: Vec<_> = (position..position + 8).map(|at| (1, at)).collect();
            let out = layer.step(&rows).expect("the step continues");
            let right = position * width..(position + accepted) * width;
            assert_eq!(out[..accepted * width], expected[right]);
            layer.wrong_from = None;
            position += accepted;
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_rows_of_a_step() {
    for heads in RULES {
        let mut layer = Layer::new(heads());
        let width = heads().values();
        let expected = steps(&mut layer, 0, 0..48);
        for rows in 1..=8 {
            let mut out = Vec::new();
            for first in (0..48 / rows * rows).step_by(rows) {
                let positions: Vec<_> = (first..first + rows).map(|at| (1, at)).collect();
                out.extend(layer.step(&positions).expect("the step continues"));
            }
            assert_eq!(out, expected[..out.len()], "{rows} rows");
        }
        // Rows of three conversations, of which one has several.
        steps(&mut layer, 0, 0..10);
        steps(&mut layer, 1, 0..20);
        steps(&mut layer, 2, 0..30);
        let rows = [(1, 20), (0, 10), (0, 11), (0, 12), (2, 30)];
        let out = layer.step(&rows).expect("the step continues");
        for ((_, position), out) in rows.iter().zip(out.chunks(width)) {
            assert_eq!(out, &expected[position * width..][..width]);
        }
    }
}

#[test]
fn bits_do_not_depend_on_where_a_prompt_is_cut() {
    for heads in RULES {
        let mut layer = Layer::new(heads());
        let whole = prompt(&mut layer, 0, &[300]);
        let after = steps(&mut layer, 0, 300..310);
        for ends in [&[64, 128, 300][..], &[192, 256, 300], &[64, 300]] {
            assert_eq!(prompt(&mut layer, 1, ends), whole, "{ends:?}");
            assert_eq!(steps(&mut layer, 1, 300..310), after, "{ends:?}");
        }
    }
}

#[test]
fn a_checkpoint_continues_bit_for_bit() {
    for heads in RULES {
        for begins in [0, 1, 2, 64, 77] {
            let mut layer = Layer::new(heads());
            if begins > 0 {
                prompt(&mut layer, 0, &[begins]);
            }
            steps(&mut layer, 0, begins..begins + 5);
            let mut bytes = Vec::new();
            let states = &mut layer.states;
            states.read(0, begins + 5, &mut bytes).expect("it commits");
            assert_eq!(bytes.len(), states.info().checkpoint_bytes());
            steps(&mut layer, 2, 0..3);
            assert_eq!(layer.states.write(2, &bytes), Ok(begins + 5));
            let [original, copy] = [0, 2].map(|slot| {
                let mut out = steps(&mut layer, slot, begins + 5..begins + 9);
                let more = layer.prompt(slot, begins + 9..begins + 80);
                out.extend(more.expect("the prompt continues"));
                out.extend(steps(&mut layer, slot, begins + 80..begins + 84));
                out
            });
            assert_eq!(original, copy, "from {begins}");
            // A checkpoint of another model is refused.
            let wrong = layer.states.write(2, &bytes[4..]);
            assert!(matches!(wrong, Err(StateError::Checkpoint { .. })));
        }
    }
}

#[test]
fn a_dropped_prompt_leaves_its_state() {
    for heads in RULES {
        let mut layer = Layer::new(heads());
        let expected = prompt(&mut layer, 0, &[64, 200]);
        prompt(&mut layer, 1, &[64]);
        // It runs again after it was dropped before its end, and a prompt of another slot takes its spare state.
        layer.drops = true;
        for _ in 0..3 {
            layer.prompt(1, 64..150).expect("the prompt continues");
        }
        layer.states.places_mut().discard(1);
        layer.drops = false;
        prompt(&mut layer, 2, &[130]);
        let out = layer.prompt(1, 64..200).expect("the prompt continues");
        assert_eq!(out, expected[64 * heads().values()..]);
    }
}

#[test]
fn a_row_below_the_state_is_refused_except_at_the_beginning() {
    for heads in RULES {
        let mut layer = Layer::new(heads());
        let expected = steps(&mut layer, 0, 0..20);
        let refused = StateError::Position {
            position: 10,
            state: 19,
        };
        assert_eq!(layer.step(&[(0, 10)]), Err(refused));
        assert!(layer.prompt(0, 10..20).is_err(), "a prompt neither");
        assert!(layer.step(&[(0, 40)]).is_err(), "updates are missing");
        assert_eq!(steps(&mut layer, 0, 0..20), expected);
    }
}

#[test]
fn prompts_take_no_more_spare_states_than_there_are() {
    let mut states = Layer::new(delta()).states;
    let spares = states.info().pool.spares;
    for slot in 0..spares {
        states.places_mut().reserve(slot, 64).expect("one is free");
        states
            .places_mut()
            .reserve(slot, 128)
            .expect("the slot has it");
    }
    assert_eq!(
        states.places_mut().reserve(spares, 64),
        Err(StateError::Spares { spares })
    );
    states.places_mut().swap(0);
    states
        .places_mut()
        .reserve(spares, 64)
        .expect("one is free again");
}

#[test]
fn gated_norms_are_those_of_plain_loops() {
    for order in [GateOrder::NormFirst, GateOrder::GateFirst] {
        for weights in [12, 36] {
            let [y, gate] = [1, 2].map(|seed| random(seed, 5 * 36));
            let weight = random(3, weights);
            let mut out = vec![0.0; y.len()];
            let norm = super::GatedNorm {
                columns: 36,
                group: 12,
                order,
                weight: &weight,
                epsilon: 1e-5,
            };
            norm.run(&y, &gate, &mut out);
            let exact = gated(&y, &gate, &weight, (36, 12), order);
            assert!(error(&exact, &out) < 1e-6, "{order:?}");
        }
    }
}

#[test]
fn short_convolutions_are_those_of_plain_loops() {
    let info = StateInfo {
        layers: 1,
        heads: None,
        channels: 24,
        taps: TAPS,
        hidden: 6,
        pool: StatePool {
            slots: 2,
            owned: 2,
            spares: 1,
        },
    };
    let mut layer = Layer::short(info);
    let exact = short(&layer, 90);
    let mut out = prompt(&mut layer, 0, &[2, 64, 70]);
    out.extend(steps(&mut layer, 0, 70..82));
    let rows: Vec<_> = (82..90).map(|at| (0, at)).collect();
    out.extend(layer.step(&rows).expect("the step continues"));
    assert!(error(&exact, &out) < 1e-6);
    let mut bytes = Vec::new();
    layer.states.read(0, 90, &mut bytes).expect("it commits");
    let mut other = States::new(info);
    assert_eq!(other.write(1, &bytes), Ok(90));
}
