//! The settings of the engine, the bus and the front ends, derived from the configuration.

use crate::board::Rules;
use crate::bus::BusConfig;
use crate::config::Config;
use crate::http::{HttpConfig, Keys};
use crate::{engine, front, guide};

/// Returns the engine's limits.
pub(super) fn limits(config: &Config) -> engine::Limits {
    let limits = &config.limits;
    engine::Limits {
        requests: limits.requests,
        queue: config.queue.capacity,
        sessions: limits.sessions,
        prefill: engine::Share {
            slice: config.engine.prefill_slice,
            percent: config.engine.prefill_share,
        },
        grammar: guide::Limits {
            bytes: limits.grammar_bytes,
            work: limits.grammar_work,
            compile: limits.grammar_time,
            mask: limits.mask_time,
        },
        user: engine::UserLimits {
            requests: limits.requests_per_user,
            sessions: limits.sessions_per_user,
            queue_percent: limits.queue_percent_per_user,
            kv_percent: limits.kv_percent_per_user,
        },
    }
}

/// Returns what to do on a hot board.
pub(super) fn heat_rules(config: &Config) -> Rules {
    let half = (config.engine.rows / 2).max(1);
    Rules {
        celsius: Some(config.heat.celsius).filter(|celsius| *celsius > 0),
        rows: config.heat.rows.unwrap_or(half),
    }
}

/// Returns the settings of the bus alone.
pub(super) fn bus_config(config: &Config) -> BusConfig {
    BusConfig {
        stream_stall: config.stream.stall,
        ..BusConfig::default()
    }
}

/// Returns the settings of HTTP alone.
pub(super) fn http_config(config: &Config, keys: Option<Keys>) -> HttpConfig {
    HttpConfig {
        max_body: config.http.max_body_mib << 20,
        stream_stall: config.stream.stall,
        users: config.http.users.by_name().clone(),
        keys,
    }
}

/// Returns the limits and defaults of requests for all front ends.
pub(super) fn front_config(config: &Config) -> front::Config {
    front::Config {
        max_tokens: config.sampling.max_tokens,
        max_tokens_limit: config.limits.max_tokens,
        sampling: config.sampling.set(),
        sampling_from_model: config.sampling.from_model,
        seed: config.sampling.seed,
        thinking: config.model.thinking,
        tools_bytes: config.limits.grammar_bytes,
        guess: config.engine.guess,
        guess_tokens: config.engine.guess_tokens,
        images: front::ImageLimits {
            max_pixels: config.vision.max_pixels,
            max_tokens: config.vision.max_tokens,
            max_images: config.vision.max_images,
        },
        hold_longest: config.hold.longest,
        realtime_group: config.limits.realtime_group.clone(),
        ..front::Config::default()
    }
}
