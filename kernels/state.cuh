// What a step reads and advances, in device memory, and the two mailboxes to the host.
#pragma once
#include "abi.h"

#define HISTORY 64

// The host writes `generation` last; the head kernel takes the rest when it differs from the state's.
struct StepMailbox {
    u32 token;
    u32 position;
    u32 flags;
    u32 generation;
    u32 unused[12];
};

struct State {
    u32 token;
    u32 position;
    u32 generation;
    // Tokens chosen since the process started: the TokenMailbox carries it.
    u32 sequence;
    // The sampler: parameters, counter of the random numbers, latest tokens.
    f32 temperature;
    f32 top_p;
    f32 min_p;
    f32 repetition_penalty;
    u32 top_k;
    u32 counter_low;
    u32 counter_high;
    u32 seed_low;
    u32 seed_high;
    u32 pushed;
    u32 unused[2];
    u32 history[HISTORY];
};
