//! The daemon's engine with a real model, for the measuring programs.

use std::path::PathBuf;

use ganglion::engine::{Handle, Limits, Share, State, UserLimits, channel, worker};
use ganglion::load::{self, Backend};

/// Loads a model and returns when it is ready. The cache has room for nine conversations of `context` positions.
pub(crate) async fn start(model: PathBuf, backend: Backend, context: usize) -> Handle {
    start_for(model, backend, context, 9).await
}

/// As `start`, with room for this many conversations.
pub(crate) async fn start_for(
    model: PathBuf,
    backend: Backend,
    context: usize,
    conversations: usize,
) -> Handle {
    let (handle, inbox) = channel(Limits {
        requests: 256,
        queue: 64,
        sessions: 64,
        prefill: Share::default(),
        grammar: ganglion::guide::Limits::USUAL,
        user: UserLimits {
            requests: 64,
            sessions: 64,
            queue_percent: 100,
            kv_percent: 100,
        },
    });
    let settings = worker::Settings {
        model,
        chat_template: None,
        runner: load::Settings {
            backend,
            context,
            kv_memory: load::KvMemory::Conversations(conversations),
            rows: 8,
            ..load::Settings::default()
        },
    };
    std::thread::spawn(move || {
        if let Err(error) = worker::run(&inbox, &settings) {
            eprintln!("{error}");
        }
    });
    let mut status = handle.status();
    let settled = status.wait_for(|status| status.state != State::Loading);
    let state = settled.await.expect("the engine lives").state.clone();
    assert_eq!(state, State::Ready, "the model is not loaded");
    handle
}
