//! Random runs of conversations, rewinds, resets, modes, reloads and refused calls, compared with the design's model
//! and with a runner that records nothing.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use ganglion::fault::{Call, Fault, How};
use ganglion::graph::{Budget, GraphOptions, Mode, State};
use ganglion::kv::{Change, Owner};
use ganglion::runner::{RunError, Runner};
use ganglion::sampler::Parameters;
use ganglion::trial::refusals::same;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

use super::cache::Cache;
use super::model::{Model, Outcome};
use super::random_events::{Act, Engine, Keep, Run, TOKENS, Turn, runs};
use super::reported::Reported;
use super::{CONTEXT, SIZES, TINY, chunks, runner};

/// The number of random runs.
const RUNS: u32 = 192;

/// All events of the random runs together, to check that they cover every kind.
#[derive(Debug, Default)]
struct Met {
    struck: HashSet<(Call, How)>,
    changes: HashSet<Change>,
    states: HashSet<(Mode, State)>,
    tokens: HashSet<u32>,
    steps: u64,
}

struct World<'a> {
    runner: Runner,
    /// One per neural network, by its number. They neither record nor cache.
    eager: &'a mut [Runner],
    network: usize,
    model: Model,
    cache: Cache,
    /// All tokens of each owner's conversation.
    texts: HashMap<Option<u64>, Vec<u32>>,
    reported: Reported,
    met: &'a mut Met,
}

impl World<'_> {
    /// Whether the device survives.
    fn act(&mut self, act: &Act) -> Result<bool, String> {
        let mut alive = true;
        match act {
            Act::Turn(turn) => alive = self.turn(turn)? != Outcome::Lost,
            Act::Rewind { owner, keep } => {
                let text = self.texts.entry(Some(*owner)).or_default();
                let keep = keep.index(text.len() + 1);
                text.truncate(keep);
                let rewound = self.runner.rewind(Owner(*owner), keep);
                rewound.map_err(|error| error.to_string())?;
                if let Some(change) = self.cache.rewind(*owner, keep) {
                    self.met.changes.insert(change);
                    self.model.change(change, self.cache.epoch);
                }
            }
            Act::Release(owner) => {
                self.runner.release(Owner(*owner));
                self.cache.release(*owner);
            }
            Act::Reset => {
                self.runner.reset_graph();
                self.model.reset();
            }
            Act::Mode(mode) => {
                self.runner.set_graph_mode(*mode);
                self.model.set_mode(*mode);
            }
            Act::Arm(fault) => self.arm(*fault),
            Act::Reload(engine) => self.reload(engine)?,
        }
        if alive {
            self.check()?;
        }
        Ok(alive)
    }

    fn reload(&mut self, engine: &Engine) -> Result<(), String> {
        let mut before = std::mem::replace(&mut self.runner, run(engine));
        let taken = self.runner.succeed(&mut before);
        taken.map_err(|error| error.to_string())?;
        self.network = engine.model;
        let layers = self.runner.shape().layers.len();
        self.model.reload(engine.mode, layers, engine.most_prompts);
        let change = self.cache.replace(engine.pages);
        self.met.changes.insert(change);
        self.model.change(change, self.cache.epoch);
        Ok(())
    }

    fn arm(&mut self, fault: Fault) {
        self.runner.executor().faults().arm(fault);
        self.model.arm(fault);
    }

    fn turn(&mut self, turn: &Turn) -> Result<Outcome, String> {
        let owner = turn.owner;
        let prompt = self.prompt(turn);
        let parameters = parameters(turn.sampled);
        let to_be = plain(
            &mut self.eager[self.network],
            &prompt,
            parameters,
            turn.steps.len() + 1,
        );
        self.met.tokens.extend(&to_be);

        let user = turn.user();
        let cached = self
            .runner
            .begin(owner.map(Owner), user, &prompt, parameters);
        let (kept, change) = self.cache.begin(owner, user, &prompt);
        self.model.change(change, self.cache.epoch);
        self.met.changes.insert(change);
        same("tokens kept", cached.map_err(|e| e.to_string())?, kept)?;
        self.check()?;

        let entry = self.cache.active;
        for (chunk, ending) in chunks(&prompt[kept..]) {
            let ran = self.runner.prefill(chunk, ending);
            let outcome = self.model.prompt(chunk.len(), ending, entry);
            if !self.ran(&ran, outcome)? {
                return Ok(outcome);
            }
            self.cache.push(chunk);
            self.check()?;
        }
        let mut tokens = vec![self.runner.token()];
        for (at, fault) in turn.steps.iter().enumerate() {
            if let Some(fault) = fault {
                self.arm(*fault);
            }
            let token = self.runner.step(at + 1 < turn.steps.len());
            let outcome = self.model.step(entry);
            if !self.ran(&token, outcome)? {
                break;
            }
            self.cache.push(&tokens[at..]);
            tokens.extend(token);
            self.check()?;
        }
        same("tokens", &tokens[..], &to_be[..tokens.len()])?;
        let text = self.texts.entry(owner).or_default();
        *text = prompt;
        text.extend(&tokens);
        let lost = self.model.struck.last().map(|(_, how)| *how) == Some(How::Lost);
        Ok(if lost { Outcome::Lost } else { Outcome::Ran })
    }

    /// Compares a step's outcome with the expected one. Returns whether it ran.
    fn ran<T>(&self, ran: &Result<T, RunError>, outcome: Outcome) -> Result<bool, String> {
        let is = match ran {
            Ok(_) => Outcome::Ran,
            Err(error) if error.is_fatal() => Outcome::Lost,
            Err(_) => Outcome::Failed,
        };
        same("outcome", is, outcome)?;
        if is == Outcome::Failed {
            self.check_life()?;
        }
        Ok(is == Outcome::Ran)
    }

    fn prompt(&self, turn: &Turn) -> Vec<u32> {
        let text = self.texts.get(&turn.owner).map_or(&[][..], Vec::as_slice);
        let kept = match &turn.keep {
            Keep::All => text,
            Keep::Some(keep) => &text[..keep.index(text.len() + 1)],
            Keep::Nothing => &[],
        };
        let mut prompt = [kept, &turn.more].concat();
        if prompt.is_empty() || prompt.len() + TOKENS > CONTEXT {
            prompt = [&[1][..], &turn.more].concat();
        }
        prompt
    }

    fn check_life(&self) -> Result<(), String> {
        self.model.check(self.runner.graph())
    }

    fn check(&mut self) -> Result<(), String> {
        self.check_life()?;
        same("tokens held", self.runner.len(), self.cache.held())?;
        for event in self.runner.take_graph_events() {
            self.reported.receive(event)?;
        }
        self.reported.check(self.runner.graph())?;
        let mode = self.runner.graph().mode();
        self.met.states.insert((mode, self.model.state()));
        self.met.steps += 1;
        Ok(())
    }
}

fn parameters(sampled: Option<u64>) -> Parameters {
    sampled.map_or_else(Parameters::default, |seed| Parameters {
        temperature: 0.9,
        top_k: 50,
        top_p: 0.95,
        min_p: 0.0,
        repetition_penalty: 1.1,
        seed,
        ..Parameters::default()
    })
}

/// Returns the eager answer to a new prompt.
fn plain(eager: &mut Runner, prompt: &[u32], parameters: Parameters, count: usize) -> Vec<u32> {
    let owner = Owner(0);
    eager.rewind(owner, 0).expect("it does not run");
    let cached = eager.begin(Some(owner), 0, prompt, parameters);
    assert_eq!(cached.expect("nothing fails here"), 0);
    eager.prefill_all(prompt).expect("nothing fails here");
    let mut tokens = vec![eager.token()];
    while tokens.len() < count {
        tokens.push(eager.step(false).expect("nothing fails here"));
    }
    tokens
}

fn run(engine: &Engine) -> Runner {
    let options = GraphOptions {
        mode: engine.mode,
        capture_sizes: SIZES.to_vec(),
        budget: Budget {
            graphs: engine.most_prompts,
            bytes: 1 << 20,
        },
        verify_addresses: engine.verify,
        refuse_launches: 0,
        record_at_start: false,
        ..GraphOptions::default()
    };
    runner(TINY[engine.model], engine.pages, options)
}

fn check(random: &Run, eager: &mut [Runner], met: &mut Met) -> Result<(), String> {
    let engine = &random.engine;
    let runner = run(engine);
    let layers = runner.shape().layers.len();
    let mut world = World {
        runner,
        eager,
        network: engine.model,
        model: Model::new(engine.mode, layers, engine.most_prompts),
        cache: Cache::new(engine.pages),
        texts: HashMap::new(),
        reported: Reported::default(),
        met,
    };
    for (index, act) in random.acts.iter().enumerate() {
        let alive = world.act(act);
        if !alive.map_err(|error| format!("act {index}: {error}"))? {
            break;
        }
    }
    world.met.struck.extend(world.model.struck);
    Ok(())
}

#[test]
fn random_runs_follow_the_design_and_give_the_eager_text() {
    let none = || GraphOptions {
        mode: Mode::None,
        ..GraphOptions::default()
    };
    let eager: Vec<_> = TINY.iter().map(|name| runner(name, 1, none())).collect();
    let (eager, met) = (RefCell::new(eager), RefCell::new(Met::default()));
    let mut tests = TestRunner::new(Config {
        cases: RUNS,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(4),
        ..Config::default()
    });
    let tried = tests.run(&runs(), |events| {
        let (mut eager, mut met) = (eager.borrow_mut(), met.borrow_mut());
        check(&events, &mut eager, &mut met).map_err(TestCaseError::fail)
    });
    match tried {
        Ok(()) => {}
        Err(TestError::Fail(why, events)) => panic!("{why}\nin {events:#?}"),
        Err(error) => panic!("{error}"),
    }
    let met = met.into_inner();
    println!("{} checks, {} tokens met", met.steps, met.tokens.len());
    for call in Call::ALL {
        for how in [How::Before, How::After, How::Synchronize] {
            assert!(met.struck.contains(&(call, how)), "{call:?} {how:?}");
        }
    }
    for change in [
        Change::NewTurn,
        Change::Cleared,
        Change::Rewound,
        Change::Switched,
        Change::Restored,
        Change::Resized,
    ] {
        assert!(met.changes.contains(&change), "{change:?}");
    }
    for mode in Mode::ALL {
        let states = [State::Invalid, State::Valid, State::Disabled];
        for state in states.map(|state| (mode, state)) {
            let possible = mode != Mode::None || state.1 == State::Disabled;
            assert_eq!(met.states.contains(&state), possible, "{state:?}");
        }
    }
    assert!(met.tokens.len() > 100, "the models repeat themselves");
}
