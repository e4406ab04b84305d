// The parameters of every kernel: each takes one struct, by value. The only place where they are
// declared: the build makes the Rust side from this file. Fields are u32, u64, f32, or a struct of
// them; a pointer into device memory is a u64. 8-byte fields come first, so that no compiler pads.
#pragma once
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;

// The example kernels of smoke.cu.
struct SmokeArgs {
    u64 step_mailbox;
    u64 token_mailbox;
    u64 state;
    u64 data;
    u32 count;
    u32 factor;
};
