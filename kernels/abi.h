// The parameters of every kernel: each takes one struct, by value. The only place where they are
// declared: the build makes the Rust side from this file. Fields are u32, u64, f32, or a struct of
// them; a pointer into device memory is a u64. 8-byte fields come first, so that no compiler pads.
//
// `count`: the address of how many rows of a prompt are real, in its `Row`; those after them only fill it up to a size
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

// Where conversations are: `Conversation`, `Row` and their pages of state.cuh.
struct Places {
    u64 conversations;
    // (conversations, pages): addresses of pages.
    u64 tables;
    // (STEP_ROWS) of a step; of a prompt one.
    u64 rows;
    // Pages of a table.
    u32 pages;
    // 1 of a step, whose rows are each of their own; 0 of a prompt.
    u32 step;
};

// x = table[token], for the tokens of which this part of the table holds the row; the first part takes commands before.
struct EmbedArgs {
    Tiles table;
    Places places;
    // In pinned memory, (COMMANDS, STEP_ROWS) of steps; of a prompt its one command.
    u64 commands;
    // The host's copy of the tables, in pinned memory.
    u64 host_tables;
    // Number of the token that was chosen last.
    u64 sequence;
    // Of a prompt, in pinned memory.
    u64 tokens;
    u64 x;
    u64 stamp;
    u32 hidden;
    // Row of the whole table that this part begins with.
    u32 first;
};

// out = T(x / sqrt(mean(x^2) + epsilon) * weight), (rows, stride)
struct NormArgs {
    u64 x;
    u64 weight;
    u64 out;
    // As in SumsArgs, or null.
    u64 sums;
    u64 count;
    u64 stamp;
    u32 hidden;
    u32 stride;
    f32 epsilon;
    u32 rows;
};

// The sums of input[row][64 i .. 64 i + 31] and of the 32 columns behind them, as sums.cuh has them.
struct SumsArgs {
    u64 input;
    // (stride / 64, rows), rows filled up to a multiple of sixteen.
    u64 sums;
    u64 count;
    u64 stamp;
    u32 stride;
    u32 rows;
};

// out[i] = weight[i] y + bias[i] of the rows of a step, y the input, or rmsnorm(x) where `input` is null; weights of
// one format and width.
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
    u32 rows;
    // Elements from one row of the outputs to the next, where that is not the rows of their weight; else 0.
    u32 out_stride;
    // In how many parts of their columns, one after the other, a block has the rows; 1 where they are normed.
    u32 phases;
    u32 pad;
};

// Products of weights of two formats by the same rows, at once.
struct MixedStepArgs {
    StepArgs first;
    StepArgs second;
    // How many share the first; the others share the second.
    u32 blocks;
    u32 pad;
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
    // The input's sums over 32 columns each, for formats with a minimum: as in SumsArgs.
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
    // Of a kernel of two shapes: how many blocks along the weights take one of the larger tiles each; and how many of the smaller
    // ones, in which the rest comes, there are along the tokens.
    u32 whole;
    u32 along;
};

// Where a layer's K and V lie in the pages of a cache, and how queries meet them.
struct Cache {
    Places places;
    // Of the layer within a page: (kv_heads, PAGE, head_dim) each.
    u64 k;
    u64 v;
    u32 heads;
    u32 kv_heads;
    u32 head_dim;
    // Elements of a head that are rotated, its first ones; 0: none.
    u32 rotated;
    // A rotated query is multiplied by 1 + beta ln(1 + floor(position / original)); original 0: it is not.
    u32 original;
    f32 beta;
};

// Rotated q, and k and v into the cache, of a prompt.
struct RopeStoreArgs {
    Cache cache;
    u64 q;
    u64 k;
    u64 v;
    u64 q_norm;
    u64 k_norm;
    u64 angles;
    u64 out;
    u64 stamp;
    u32 stride;
    f32 epsilon;
};

// out = softmax(scale q K^T) V. Of a step q, k and v may come as they left their product: they are rotated,
// and k and v stored, on the way.
struct AttendArgs {
    Cache cache;
    // Rotated, in the activations' type; f32 where there is `k`.
    u64 q;
    u64 k;
    u64 v;
    u64 q_norm;
    u64 k_norm;
    u64 angles;
    u64 out;
    u64 partials;
    u64 arrivals;
    u64 stamp;
    // f32 (heads): what each head gives to nothing, as the logarithm of a weight; or null.
    u64 sinks;
    u32 rows;
    u32 stride;
    f32 scale;
    f32 epsilon;
    // Into which the positions of a row may be split.
    u32 splits;
    // How many positions a row sees, itself among them; 0: all.
    u32 window;
    // Scores become cap * tanh(score / cap), where it is not 0.
    f32 softcap;
    // Query heads that share a KV head.
    u32 group;
};

// The next token of each row, by its conversation's sampler.
struct SampleArgs {
    Places places;
    u64 logits;
    u64 partials;
    u64 arrivals;
    u64 sequence;
    // (TOKENS, STEP_ROWS), in pinned memory.
    u64 tokens;
    // (TOKENS, STEP_ROWS, 1 + BEST), in pinned memory.
    u64 best;
    // (conversations, mask_words): what each may say next, a head and a bit for each token.
    u64 masks;
    u64 stamp;
    u32 vocabulary;
    u32 mask_words;
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
