//! The daemon's engine with a real model, for the measuring programs.

use std::path::PathBuf;

use ganglion::engine::{Handle, Limits, Share, State, UserLimits, channel, worker};
use ganglion::load::{self, Backend};

/// The conversations of `context` positions for which a cache usually has room.
pub(crate) const CONVERSATIONS: usize = 9;

/// Returns the settings of an engine whose cache has room for this many conversations.
pub(crate) fn settings(backend: Backend, context: usize, conversations: usize) -> load::Settings {
    load::Settings {
        backend,
        context,
        kv_memory: load::KvMemory::Conversations(conversations),
        rows: 8,
        ..load::Settings::default()
    }
}

/// Loads a model and returns when it is ready.
pub(crate) async fn start(model: PathBuf, runner: load::Settings) -> Handle {
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
        runner,
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
