// The parameters of every kernel: each takes one struct, by value. The only place where they are
// declared: the build makes the Rust side from this file. Fields are u32, u64, f32, or a struct of
// them; a pointer into device memory is a u64. 8-byte fields come first, so that no compiler pads.
//
// `count`: the address of how many rows of a prompt are real; those after them only fill it up to a size
// that was recorded. 0: all are. `stamp`: where the kernel notes when it began and ended; 0: nowhere.
#pragma once
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;

// A matrix in tiles (see tile.cuh).
struct Tiles {
    u64 data;
    u32 format;
    // Rows of the matrix, and its columns rounded up to 64.
    u32 rows;
    u32 columns;
    u32 pad;
};

// x = table[token], for the tokens of which this part of the table holds the row.
struct EmbedArgs {
    Tiles table;
    u64 state;
    u64 mailbox;
    u64 tokens;
    u64 count;
    u64 x;
    u64 stamp;
    u32 hidden;
    // Row of the whole table that this part begins with.
    u32 first;
    // Where tokens come from: 0 `tokens`, 1 the state, once the mailbox has been taken, 2 the state.
    u32 source;
    u32 pad;
};

// out = T(x / sqrt(mean(x^2) + epsilon) * weight), (rows, stride)
struct NormArgs {
    u64 x;
    u64 weight;
    u64 out;
    // f32 (rows, stride / 32), as in SumsArgs.
    u64 sums;
    u64 count;
    u64 stamp;
    u32 hidden;
    u32 stride;
    f32 epsilon;
    u32 pad;
};

// sums[row][i] = the sum of input[row][32 i .. 32 i + 31]
struct SumsArgs {
    u64 input;
    u64 sums;
    u64 count;
    u64 stamp;
    u32 stride;
    u32 pad;
};

// out[i] = weight[i] y + bias[i] of a step's row, y the input, or rmsnorm(x) where `input` is null; weights of one
// format and width.
struct StepArgs {
    Tiles weight0;
    Tiles weight1;
    Tiles weight2;
    u64 bias0;
    u64 bias1;
    u64 bias2;
    u64 out0;
    u64 out1;
    u64 out2;
    u64 x;
    u64 norm;
    u64 input;
    // Says which row of x: the last real one of a prompt.
    u64 count;
    u64 stamp;
    u32 hidden;
    u32 stride;
    f32 epsilon;
    // As in PromptArgs.
    u32 outcome;
};

// out[i] = weight[i] input + bias[i] of all rows of a prompt, or what `outcome` says; weights of one format and
// width.
struct PromptArgs {
    Tiles weight0;
    Tiles weight1;
    Tiles weight2;
    u64 bias0;
    u64 bias1;
    u64 bias2;
    u64 out0;
    u64 out1;
    u64 out2;
    u64 input;
    // f32 (rows, stride / 32): the input's sums over 32 columns each, for formats with a minimum.
    u64 sums;
    u64 count;
    u64 stamp;
    u32 rows;
    u32 stride;
    // Elements from one row of the outputs to the next, where that is not the rows of their weight; else 0.
    u32 out_stride;
    // 0: stored; 1: added to out; 2: silu(out0) * out1 is stored in out0, rounded to the input's type; 3: silu of it is
    // stored; 4: its product with what is in out1 is stored in out0, rounded as with 2.
    u32 outcome;
};

// Rotated q, and k and v into the cache.
struct RopeStoreArgs {
    u64 q;
    u64 k;
    u64 v;
    u64 q_norm;
    u64 k_norm;
    u64 angles;
    u64 rotated;
    u64 cache_k;
    u64 cache_v;
    u64 position;
    u64 count;
    u64 stamp;
    u32 rows;
    u32 heads;
    u32 kv_heads;
    u32 head_dim;
    u32 context;
    u32 stride;
    f32 epsilon;
    u32 pad;
};

// out = softmax(q K^T / sqrt(head_dim)) V
struct AttendArgs {
    u64 q;
    u64 cache_k;
    u64 cache_v;
    u64 out;
    u64 partials;
    u64 arrivals;
    u64 position;
    u64 count;
    u64 stamp;
    u32 heads;
    u32 kv_heads;
    u32 head_dim;
    u32 context;
    u32 stride;
    f32 scale;
    // Of a prompt: how many.
    u32 rows;
    u32 pad;
};

// The next token, by the sampler's state.
struct ChooseArgs {
    u64 logits;
    u64 partials;
    u64 arrivals;
    u64 state;
    u64 token_mailbox;
    // Of the run's first row; the state's advances to the one after its last.
    u64 position;
    u64 count;
    u64 stamp;
    u32 vocabulary;
    u32 rows;
};

// The example kernels of smoke.cu.
struct SmokeArgs {
    u64 step_mailbox;
    u64 token_mailbox;
    u64 state;
    u64 data;
    u32 count;
    u32 factor;
};
