//! Measures a model that sees images: the first token after a camera frame and a text, the same frame in the next turn,
//! the gaps that frames cause in other callers' answers, the time from pixels to patches on one core, and the memory of one
//! conversation.
//!
//! Run `cargo build --release` first, which builds gangliond. Then run `cargo run --release --example images -- MODEL
//! [cpu|cuda [FRAMES]]`, with the model's mmproj file next to MODEL. Frames have 1280 x 720 pixels, and the text has 64
//! tokens in the vocabulary of `tests/gpu/synthesize.py`. The program prints figures; it judges nothing.

#[allow(dead_code)] // other programs use the rest
mod asking;
mod engine;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ganglion::engine::{Handle, Message, MessageImage, Priority, Role};
use ganglion::load::Backend;
use ganglion::vision::{Fields, Format, Limits, Processor, Received, Settings};

use asking::{Answers, hear, options};

const WIDTH: u32 = 1280;
const HEIGHT: u32 = 720;
/// The positions of a conversation.
const CONTEXT: usize = 4096;
/// Callers with long answers.
const SPEAKERS: u32 = 4;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let Some(model) = arguments.first() else {
        eprintln!("images MODEL [cpu|cuda [FRAMES]]");
        std::process::exit(2);
    };
    let (backend, frames) = match arguments.get(1).map(String::as_str) {
        Some("cuda") => (Backend::Cuda, 20),
        _ => (Backend::Cpu, 2),
    };
    let frames = arguments
        .get(2)
        .map_or(frames, |count| count.parse().expect("a number"));
    preprocess();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(memory(model.into(), backend));
    runtime.block_on(measure(model.into(), backend, frames));
}

/// Prints the memory of one conversation after a frame.
async fn memory(model: PathBuf, backend: Backend) {
    let engine = engine::start(model, engine::settings(backend, CONTEXT, 1)).await;
    ask(&engine, 1, &[with_frame(frame(0))]).await;
    engine.idle().await;
    let memory = engine.status().borrow().memory;
    let parts = [
        ("weights", memory.weights),
        ("cache in use", memory.kv),
        ("activations", memory.activations),
    ];
    for (what, bytes) in parts {
        println!("{what:<44} {:>8} MiB", bytes >> 20);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for key in ["VmHWM:", "RssAnon:"] {
        let line = status.lines().find(|line| line.starts_with(key));
        println!("the program's own memory, {}", line.unwrap_or_default());
    }
    engine.close();
}

async fn measure(model: PathBuf, backend: Backend, frames: u8) {
    let engine = engine::start(
        model,
        engine::settings(backend, CONTEXT, engine::CONVERSATIONS),
    )
    .await;
    println!("ms to the first token                            best   median       of");
    let (mut new, mut again, mut text) = (Vec::new(), Vec::new(), Vec::new());
    let mut tokens = 0;
    for number in 0..=frames {
        let mut talk = vec![with_frame(frame(number))];
        let (first, answer, read) = ask(&engine, 1, &talk).await;
        talk.push(Message::new(Role::Assistant, answer));
        talk.push(Message::new(Role::User, words()));
        let (next, ..) = ask(&engine, 1, &talk).await;
        // As long a conversation of text.
        let long = "t0".repeat(read as usize / 2);
        let mut talk_of_text = vec![Message::new(Role::User, long)];
        let (_, answer, _) = ask(&engine, 2, &talk_of_text).await;
        talk_of_text.push(Message::new(Role::Assistant, answer));
        talk_of_text.push(Message::new(Role::User, words()));
        let (spoken, ..) = ask(&engine, 2, &talk_of_text).await;
        tokens = read;
        // The first run prepares memory.
        if number > 0 {
            new.push(first);
            again.push(next);
            text.push(spoken);
        }
    }
    print(&format!("a new frame and 64 tokens, {tokens} in all"), new);
    print("the next turn with that frame", again);
    print("the next turn of as long a text", text);
    gaps(&engine, frames).await;
    engine.close();
}

/// Prints the gaps between the tokens of answers, without and with frames of another caller.
async fn gaps(engine: &Handle, frames: u8) {
    println!("\nms between tokens of {SPEAKERS} answers          p50      p99       of");
    for has_frames in [false, true] {
        let answers = Answers::begin(engine, SPEAKERS, 400, Priority::Normal).await;
        let begun = Instant::now();
        if has_frames {
            for number in 0..frames {
                ask(engine, 3, &[with_frame(frame(100 + number))]).await;
            }
        } else {
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        let took = begun.elapsed();
        let mut all: Vec<f64> = answers
            .gaps(begun, begun + took)
            .into_iter()
            .map(ms)
            .collect();
        all.sort_by(f64::total_cmp);
        let at = |share: usize| {
            all.get(all.len() * share / 100)
                .copied()
                .unwrap_or(f64::NAN)
        };
        let what = if has_frames {
            "next to frames"
        } else {
            "alone"
        };
        println!(
            "{what:<40} {:>8.2} {:>8.2} {:>8}   in {:.1} s",
            at(50),
            at(99),
            all.len(),
            took.as_secs_f64()
        );
        drop(answers);
        engine.idle().await;
    }
}

async fn ask(engine: &Handle, user: u32, talk: &[Message]) -> (f64, String, u32) {
    let options = options(user, 4, Priority::Normal, true);
    let heard = hear(engine, user, talk.to_vec(), options, |_| {}).await;
    assert_eq!(heard.outcome.error, None);
    (
        ms(heard.first),
        heard.text,
        heard.outcome.usage.prompt_tokens,
    )
}

fn ms(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}

fn print(what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    println!(
        "{what:<44} {:>8.2} {:>8.2} {:>8}",
        times[0],
        times[times.len() / 2],
        times.len()
    );
}

fn words() -> String {
    "t0".repeat(32)
}

fn with_frame(image: Received) -> Message {
    Message {
        images: vec![MessageImage {
            at: 0,
            image: Some(Arc::new(image)),
        }],
        ..Message::new(Role::User, words())
    }
}

/// A frame that differs from others.
fn frame(number: u8) -> Received {
    let bytes =
        (0..WIDTH * HEIGHT * 3).map(|at| (at / 640).to_le_bytes()[0].wrapping_mul(3) ^ number);
    let fields = Fields {
        format: Format::Rgb24,
        width: Some(WIDTH),
        height: Some(HEIGHT),
        ..Fields::default()
    };
    Received::new(bytes.collect(), fields, ())
}

/// Prints the time from a frame to the patches of Qwen3-VL, on this thread alone.
fn preprocess() {
    const RUNS: usize = 20;
    let settings = Settings::qwen();
    let processor = Processor::new(settings).expect("published settings");
    let plan = processor.plan(WIDTH, HEIGHT, None).expect("a plan");
    let image = frame(1);
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let begun = Instant::now();
        let opened = image.source().open(&Limits::default()).expect("it opens");
        let pixels = opened.decode(&|| false).expect("it is whole");
        processor
            .pixels(&pixels, &plan, &|| false)
            .expect("it has a plan");
        times.push(ms(begun.elapsed()));
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{WIDTH} x {HEIGHT} pixels to {} patches on one core: {:.2} ms",
        plan.patches(),
        times[0]
    );
}
