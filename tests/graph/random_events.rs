//! Random sequences of all events in a runner's life.

use ganglion::fault::{Call, Fault, How};
use ganglion::graph::Mode;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::TINY;

/// The most tokens of a turn.
pub(super) const TOKENS: usize = 6;

#[derive(Clone, Debug)]
pub(super) enum Act {
    Turn(Turn),
    Rewind {
        owner: u64,
        keep: Index,
    },
    Release(u64),
    Reset,
    Mode(Mode),
    Arm(Fault),
    /// Another engine replaces this one.
    Reload(Engine),
}

#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// `None` is a conversation of one turn.
    pub(super) owner: Option<u64>,
    /// Whether a conversation of one turn belongs to another user, who repeats the first user's text.
    pub(super) another: bool,
    /// The part of its owner's earlier tokens that its prompt starts with.
    pub(super) keep: Keep,
    pub(super) more: Vec<u32>,
    /// The seed of sampled tokens.
    pub(super) sampled: Option<u64>,
    /// One for each token after the first; a fault is armed before it.
    pub(super) steps: Vec<Option<Fault>>,
}

#[derive(Clone, Debug)]
pub(super) enum Keep {
    All,
    Some(Index),
    Nothing,
}

/// The kind of engine, and its settings.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    pub(super) model: usize,
    pub(super) pages: usize,
    pub(super) mode: Mode,
    pub(super) verify: bool,
    pub(super) most_prompts: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) engine: Engine,
    pub(super) acts: Vec<Act>,
}

fn fault() -> impl Strategy<Value = Fault> {
    let how = prop_oneof![
        8 => Just(How::Before),
        6 => Just(How::After),
        4 => Just(How::Synchronize),
        1 => Just(How::Lost),
    ];
    let skip = prop_oneof![3 => Just(0), 2 => 0..4_u32, 1 => 0..60_u32];
    (select(&Call::ALL[..]), skip, how).prop_map(|(call, skip, how)| Fault { call, skip, how })
}

/// A fault of a call that every recording makes. Several consecutive ones disable the graph.
fn refusal() -> impl Strategy<Value = Fault> {
    let calls = [
        Call::BeginCapture,
        Call::EndCapture,
        Call::Upload,
        Call::GraphLaunch,
    ];
    select(calls.to_vec()).prop_map(|call| Fault {
        call,
        skip: 0,
        how: How::Before,
    })
}

fn turn() -> impl Strategy<Value = Turn> {
    let keep = prop_oneof![
        4 => Just(Keep::All),
        2 => any::<Index>().prop_map(Keep::Some),
        2 => Just(Keep::Nothing),
    ];
    // Few different tokens, so that conversations share prefixes by chance.
    let more = prop_oneof![4 => vec(1..4_u32, 0..6), 1 => vec(1..4_u32, 6..36)];
    let well = vec(Just(None), 0..TOKENS);
    let badly = vec(option::weighted(0.8, fault()), 0..TOKENS);
    let steps = prop_oneof![4 => well, 2 => badly, 1 => vec(refusal().prop_map(Some), 0..TOKENS)];
    let owner = option::weighted(0.75, 1..4_u64);
    let sampled = option::of(any::<u64>());
    let about = (owner, any::<bool>(), keep, more, sampled, steps);
    about.prop_map(|(owner, another, keep, more, sampled, steps)| Turn {
        owner,
        another,
        keep,
        more,
        sampled,
        steps,
    })
}

impl Turn {
    /// The conversation's owner.
    pub(super) fn user(&self) -> u32 {
        match self.owner {
            Some(owner) => u32::from(owner % 2 == 0),
            None => u32::from(self.another),
        }
    }
}

fn engine() -> impl Strategy<Value = Engine> {
    let mode = prop_oneof![5 => select(&Mode::ALL[..3]), 1 => Just(Mode::None)];
    let about = (0..TINY.len(), 1..=3_usize, mode, any::<bool>(), 1..=4_usize);
    about.prop_map(|(model, pages, mode, verify, most_prompts)| Engine {
        model,
        pages,
        mode,
        verify,
        most_prompts,
    })
}

pub(super) fn runs() -> impl Strategy<Value = Run> {
    let act = prop_oneof![
        10 => turn().prop_map(Act::Turn),
        1 => (1..4_u64, any::<Index>()).prop_map(|(owner, keep)| Act::Rewind { owner, keep }),
        1 => (1..4_u64).prop_map(Act::Release),
        1 => Just(Act::Reset),
        1 => select(&Mode::ALL[..]).prop_map(Act::Mode),
        3 => fault().prop_map(Act::Arm),
        1 => engine().prop_map(Act::Reload),
    ];
    (engine(), vec(act, 1..40)).prop_map(|(engine, acts)| Run { engine, acts })
}
