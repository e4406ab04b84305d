//! Tries the device layer on a GPU, in the parts named as arguments, or all but `sticky`, which breaks the context on
//! purpose.

use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ganglion::device::{
    Arena, Command, Context, Error, Geometry, LaunchOrder, MemoryFault, MemoryKind, Modules, Plan,
    Result, Row, SmokeArgs, StepMailbox, Stream, TokenMailbox, try_memory,
};
use ganglion::graph::{Graph, Recording, Renewal, Trace};

const WORDS: usize = 150_000_002;
const NODES: usize = 200;

/// Runs the parts named by `wanted`.
pub(crate) fn run(wanted: &[String]) -> ExitCode {
    let context = match Context::open(true) {
        Ok(context) => context,
        Err(error) => return super::not_run(&error),
    };
    println!(
        "{:?}, {:?} B free",
        context.properties(),
        context.free_memory()
    );
    let mut failed = false;
    for (name, part) in PARTS {
        let all = wanted.is_empty() && *name != "sticky";
        if all || wanted.iter().any(|one| one == name) {
            let outcome = part(&context);
            failed |= outcome.is_err();
            println!(
                "{name}: {}",
                outcome.map_or_else(|error| error.to_string(), |()| "passed".into())
            );
        }
    }
    super::verdict(!failed)
}

type Part = fn(&Rc<Context>) -> Result<()>;

const PARTS: &[(&str, Part)] = &[
    ("lookups", lookups),
    ("device", |context| memory(context, MemoryKind::Device)),
    ("unified", |context| memory(context, MemoryKind::Unified)),
    ("too-much", too_much),
    ("graph", graph),
    ("sticky", sticky),
];

/// A kernel is found by name, for its own parameters, within an Orin's limits.
fn lookups(context: &Rc<Context>) -> Result<()> {
    let start = Instant::now();
    let modules = Modules::load(context)?;
    println!("{} loaded in {:?}", modules.kind(), start.elapsed());
    let kernel = modules.kernel::<SmokeArgs>("smoke_scale", 163 << 10, LaunchOrder::Prompt)?;
    let too_shared =
        modules.kernel::<SmokeArgs>("smoke_scale", (163 << 10) + 1, LaunchOrder::Prompt);
    assert!(
        matches!(too_shared, Err(Error::Limit { asked: 166_913, .. })),
        "{too_shared:?}"
    );
    let unknown = modules.kernel::<SmokeArgs>("smoke_nothing", 0, LaunchOrder::Prompt);
    assert!(
        matches!(unknown, Err(Error::NoKernel { .. })),
        "{unknown:?}"
    );
    let mut stream = Stream::new(context)?;
    let mut wide = Geometry::new(1, 1025);
    // SAFETY: it is refused before it reaches the driver.
    let refused = unsafe { kernel.launch(&mut stream, (wide, false), &SmokeArgs::default()) };
    assert!(
        matches!(refused, Err(Error::Limit { limit: 1024, .. })),
        "{refused:?}"
    );
    wide = Geometry {
        shared: (163 << 10) + 4,
        ..Geometry::new(1, 32)
    };
    // SAFETY: as above.
    let refused = unsafe { kernel.launch(&mut stream, (wide, false), &SmokeArgs::default()) };
    assert!(matches!(refused, Err(Error::Limit { .. })), "{refused:?}");
    Ok(())
}

/// Fills chunks, changes them by a kernel, and reads them back, by copies and by a borrow.
fn memory(context: &Rc<Context>, memory: MemoryKind) -> Result<()> {
    let tried = match try_memory(context, memory, 2 * WORDS) {
        Ok(tried) => tried,
        Err(MemoryFault::Device(error)) => return Err(error),
        Err(MemoryFault::Wrong(what)) => panic!("{memory:?}: {what}"),
    };
    println!(
        "{memory:?}: {} MB filled in {:?}",
        tried.bytes / 1_000_000,
        tried.filled_in
    );
    Ok(())
}

/// A too large request is refused with both figures before anything is allocated.
fn too_much(context: &Rc<Context>) -> Result<()> {
    let mut plan = Plan::new();
    while plan.bytes() <= context.free_memory()? {
        plan.add(512 << 20)?;
    }
    for memory in [MemoryKind::Device, MemoryKind::Unified] {
        let refused = Arena::new(context, memory, &plan).map(|_| ());
        let need = plan.bytes();
        assert!(
            matches!(refused, Err(Error::OutOfMemory { need: n, .. }) if n == need),
            "{refused:?}"
        );
    }
    Ok(())
}

/// Steps advance themselves, two ahead; a graph is updated in place; a failed recording leaves no trace.
fn graph(context: &Rc<Context>) -> Result<()> {
    let modules = Modules::load(context)?;
    let scale = modules.kernel::<SmokeArgs>("smoke_scale", 0, LaunchOrder::Prompt)?;
    let step = modules.kernel::<SmokeArgs>("smoke_step", 0, LaunchOrder::Prompt)?;
    let mut stream = Stream::new(context)?;
    let mut mailbox = StepMailbox::new(context)?;
    let tokens = TokenMailbox::new(context)?;
    let mut plan = Plan::new();
    let (state, data) = (plan.add(16)?, plan.add(4096)?);
    let mut arena = Arena::new(context, MemoryKind::Device, &plan)?;
    arena.set(state, 0, &mut stream)?;
    let args = SmokeArgs {
        step_mailbox: mailbox.address(),
        token_mailbox: tokens.address(),
        state: arena.address(state)?,
        data: arena.address(data)?,
        count: 1024,
        factor: 3,
    };
    let record = |stream: &mut Stream, nodes: usize, factor: u32| {
        Recording::begin(stream)?.record(|stream| {
            let args = SmokeArgs { factor, ..args };
            for _ in 1..nodes {
                // SAFETY: the arena outlives the graph: it is declared before it.
                unsafe { scale.launch(stream, (Geometry::new(16, 64), false), &args) }?;
            }
            // SAFETY: as above, and so do the mailboxes.
            unsafe { step.launch(stream, (Geometry::new(1, 1), false), &args) }
        })
    };
    // A failed or abandoned recording leaves the stream usable.
    let broken = Recording::begin(&mut stream)?.record(|_| Err::<(), _>(Error::NoDevice));
    assert_eq!(broken.err(), Some(Error::NoDevice));
    drop(Recording::begin(&mut stream)?);
    let copying = Recording::begin(&mut stream)?.record(|stream| arena.set(data, 0, stream))?;
    let refused = Graph::new(copying, Trace::default(), &mut stream).map(|_| ());
    assert!(matches!(refused, Err(Error::NotAKernel(_))), "{refused:?}");
    let synchronized = Recording::begin(&mut stream)?.record(Stream::synchronize);
    assert!(
        synchronized.is_err_and(|error| !error.is_sticky()),
        "a capture cannot wait"
    );

    let captured = record(&mut stream, NODES, 3)?;
    let start = Instant::now();
    let mut graph = Graph::new(captured, Trace::default(), &mut stream)?;
    let instantiated = start.elapsed();
    assert_eq!(graph.nodes(), NODES);
    assert_eq!(graph.dot()?.matches("smoke_scale").count().min(1), 1);

    let (mut token, mut position, mut sequence) = (7_u32, 100_u32, 0);
    mailbox.post(
        0,
        &Command {
            row: Row {
                token,
                position,
                sequence: 1,
                ..Row::default()
            },
            ..Command::default()
        },
    );
    let mut waited = Vec::new();
    let mut run = |graph: &mut Graph, stream: &mut Stream, steps: u32, factor: u32| -> Result<()> {
        graph.launch(stream)?;
        for left in (0..steps).rev() {
            if left > 0 {
                graph.launch(stream)?;
            }
            sequence += 1;
            let start = Instant::now();
            let arrived = tokens.wait(sequence, 1, Duration::from_micros(50), || {
                stream.synchronize()
            })?[0];
            waited.push(start.elapsed());
            token = token.wrapping_mul(factor).wrapping_add(position);
            position += 1;
            assert_eq!(arrived, token, "token {sequence}");
        }
        Ok(())
    };
    run(&mut graph, &mut stream, 500, 3)?;
    let mut renewals = Vec::new();
    for factor in [5, 7, 11, 5] {
        let start = Instant::now();
        let captured = record(&mut stream, NODES, factor)?;
        graph.replace(captured, Trace::default())?;
        let renewal = graph.renew(&mut stream)?;
        renewals.push(start.elapsed());
        assert_eq!(renewal, Renewal::Updated);
        run(&mut graph, &mut stream, 20, factor)?;
    }
    let captured = record(&mut stream, NODES + 1, 5)?;
    graph.replace(captured, Trace::default())?;
    assert_eq!(graph.renew(&mut stream)?, Renewal::Instantiated);
    run(&mut graph, &mut stream, 20, 5)?;
    stream.synchronize()?;
    waited.sort();
    println!(
        "graph of {NODES}: instantiated and uploaded in {instantiated:?}, recorded and renewed in {renewals:?}, step {:?} (median)",
        waited[waited.len() / 2]
    );
    Ok(())
}

/// An illegal address is reported as the end of this context.
fn sticky(context: &Rc<Context>) -> Result<()> {
    let modules = Modules::load(context)?;
    let scale = modules.kernel::<SmokeArgs>("smoke_scale", 0, LaunchOrder::Prompt)?;
    let mut stream = Stream::new(context)?;
    let args = SmokeArgs {
        data: 64,
        count: 1024,
        factor: 3,
        ..SmokeArgs::default()
    };
    // SAFETY: it is not safe, which is the purpose; the process ends after it.
    unsafe { scale.launch(&mut stream, (Geometry::new(1, 32), false), &args) }?;
    let error = stream.synchronize().expect_err("the address is illegal");
    println!("{error}");
    assert!(error.is_sticky() && stream.idle().is_err_and(|error| error.is_sticky()));
    Ok(())
}
