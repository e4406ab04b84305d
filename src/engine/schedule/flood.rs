//! A short question beside users who flood the engine with long prompts, in a time of its own: what it waits for is a layer of
//! theirs and the steps that run, however they time what they ask.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Next, Stage, Standing, Unread, next, preempts};
use crate::engine::service::Service;
use crate::engine::slices::{Share, Slices};
use crate::engine::{Client, Priority};

const LAYERS: u32 = 36;
const ROWS: usize = 8;
const CHUNK: usize = 512;
const STEP: Duration = Duration::from_micros(1400);
const LONG: usize = 500;
const SHORT: usize = 40;

/// Of a layer for so many tokens.
fn layer(tokens: usize) -> Duration {
    Duration::from_nanos(1400 * tokens as u64).max(Duration::from_micros(60))
}

/// One who asks again and again; of a user who floods as soon as the last prompt was read.
struct Asker {
    client: Client,
    tokens: usize,
    /// When the prompt comes that is not read yet.
    comes: Duration,
    joined: bool,
    left: u32,
    answering: bool,
}

impl Asker {
    fn new(user: u32, tokens: usize, comes: Duration) -> Self {
        let client = Client {
            name: format!(":1.{user}").into(),
            user,
        };
        Self {
            client,
            tokens,
            comes,
            joined: false,
            left: LAYERS,
            answering: false,
        }
    }

    fn unread(&self, service: &Service) -> Unread {
        Unread {
            user: self.client.user,
            priority: Priority::Normal,
            had: service.had(&self.client),
            tokens: self.tokens,
        }
    }
}

/// How long the short question takes that comes at such a time; those who flood wait so long before each of their prompts, and
/// one of them is always being answered.
fn asked(at: Duration, pauses: &[[u64; 2]]) -> Duration {
    let (mut now, mut service, mut slices) =
        (Duration::ZERO, Service::default(), Slices::default());
    let share = Share::default();
    let mut all = vec![
        Asker::new(1, LONG, Duration::ZERO),
        Asker::new(2, LONG, Duration::ZERO),
        Asker::new(3, SHORT, at),
        Asker::new(2, 0, Duration::ZERO),
    ];
    (all[3].answering, all[3].left) = (true, 0);
    let mut pauses = pauses.iter().cycle();
    loop {
        all.iter_mut()
            .for_each(|one| one.joined |= one.comes <= now);
        let joined = (0..).zip(&all).filter(|(_, one)| one.joined);
        let standings: Vec<_> = joined
            .map(|(id, one)| Standing {
                id,
                user: one.client.user,
                priority: Priority::Normal,
                stage: if one.answering {
                    Stage::Answering
                } else {
                    Stage::Reading
                },
                had: service.had(&one.client),
                unread: one.tokens,
                passes: slices.passes(share, CHUNK, one.client.user, one.tokens),
            })
            .collect();
        match next(&standings, ROWS, slices.owed()) {
            Next::Rest => panic!("one is answered"),
            Next::Step(_) => {
                now += STEP;
                slices.stepped(STEP);
            }
            Next::Read { id, others } => {
                let index = usize::try_from(id).expect("it is small");
                let reader = all[index].unread(&service);
                let begun = now;
                while all[index].left > 0 {
                    now += layer(reader.tokens);
                    all[index].left -= 1;
                    let mut come = all.iter().filter(|one| !one.joined && one.comes <= now);
                    if now - begun >= share.slice
                        || come.any(|one| preempts(one.unread(&service), reader))
                    {
                        break;
                    }
                }
                let took = now - begun;
                let one = &mut all[index];
                service.serve(&one.client, took);
                slices.owe(share, one.client.user, took, others > 0);
                if one.left == 0 {
                    slices.read(reader.tokens, layer(reader.tokens) * LAYERS);
                    if index == 2 {
                        return now - at;
                    }
                    let pause = pauses.next().map_or(0, |pauses| pauses[index]);
                    let comes = now + Duration::from_micros(pause);
                    *one = Asker::new(one.client.user, one.tokens, comes);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn a_short_question_waits_for_no_prompt_of_those_who_flood(
        at in 0..200_000_u64,
        pauses in vec([0..4000_u64, 0..4000_u64], 1..8),
    ) {
        let took = asked(Duration::from_micros(at), &pauses);
        let alone = layer(SHORT) * LAYERS;
        // A step that has begun, one that is due, a layer.
        let most = alone + 2 * STEP + layer(LONG);
        prop_assert!(took <= most, "{took:?}, alone {alone:?}");
    }
}
