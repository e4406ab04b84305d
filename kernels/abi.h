// The parameters of every kernel: each kernel takes one struct, by value. This is their only declaration: the build
// derives the Rust side from this file. Fields are u32, u64, f32, an enum of u32, or a struct of them; a pointer into
// device memory is a u64. Fields of 8 bytes come first, so that no compiler inserts padding.
//
// `count` is the address of the number of real rows of a prompt, in its `Row`; rows after them pad the prompt to a
// recorded size. With 0, all rows are real. `stamp` is the address where a kernel records its start and end; with 0, it
// records nothing.
#pragma once
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;

// What a product does with its sums: y = weight input + bias.
enum class Epilogue : u32 {
    // out = y
    Stored = 0,
    // out += y
    Added = 1,
    // out0 = activation(y0) y1, rounded to the input's type
    Gated = 2,
    // out = activation(y)
    Activated = 3,
    // out0 = y out1, rounded to the input's type; out1 is what `Activated` stored
    Multiplied = 4,
    // out0 = activation(y), rounded to the input's type
    Rounded = 5,
};

// The activation function of a gate, for `Gated`, `Activated` and `Rounded`.
enum class Activation : u32 {
    Silu = 0,
    GeluTanh = 1,
    // Only of gate.cu, as the next one.
    SquaredRelu = 2,
    Sigmoid = 3,
    // Only of vision towers, as the next one: x / 2 (1 + erf(x / sqrt(2))).
    Gelu = 4,
    Identity = 5,
};

// A weight matrix in tiles (see tile.cuh).
struct Tiles {
    u64 data;
    u32 format;
    // Rows of the matrix.
    u32 rows;
    // Columns of the matrix, rounded up to 64.
    u32 columns;
    u32 pad;
};

// Where conversations lie: `Conversation` and `Row` of state.cuh, and the pages of the cache.
struct Places {
    u64 conversations;
    // (slots, pages): addresses of pages.
    u64 tables;
    // (STEP_ROWS) rows of a step, or one row for a prompt.
    u64 rows;
    // Pages in a table.
    u32 pages;
    // 1 for a step, where each row is one token; 0 for a prompt, where one row describes all tokens.
    u32 step;
};

// x = scale table[token], for the tokens whose rows are in this part of the table. The first part applies commands
// first.
struct EmbedArgs {
    Tiles table;
    Places places;
    // In pinned memory: (COMMANDS, STEP_ROWS) for steps. A prompt has one, in device memory.
    u64 commands;
    // The host's copy of the tables, in pinned memory.
    u64 host_tables;
    // The number of the last run that chose a token.
    u64 sequence;
    // Tokens of a prompt.
    u64 tokens;
    u64 x;
    u64 stamp;
    u32 hidden;
    // First row of the whole table that this part has.
    u32 first;
    f32 scale;
    u32 pad;
};

// out = T(x / sqrt(mean(x^2) + epsilon) * weight), (rows, stride). `norm_columns` has f32 for T, no sums, and the first
// of the columns that it fills as `out`.
struct NormArgs {
    u64 x;
    // Null: out = T(x)
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

// x = scale (x + y / sqrt(mean(y^2) + epsilon) * weight), (rows, hidden)
struct AddNormedArgs {
    u64 y;
    u64 weight;
    // A float, or null: 1.
    u64 scale;
    u64 x;
    u64 count;
    u64 stamp;
    u32 hidden;
    u32 rows;
    f32 epsilon;
    u32 pad;
};

// inputs = (scale table[token] + rmsnorm(inputs)) / sqrt(2), (rows, columns), where each `width` columns are normed
// apart
struct LayerInputsArgs {
    Tiles table;
    Places places;
    // Tokens of a prompt.
    u64 tokens;
    u64 norm;
    u64 inputs;
    u64 stamp;
    u32 width;
    u32 columns;
    // First row of the whole table that this part has.
    u32 first;
    f32 scale;
    f32 epsilon;
    u32 pad;
};

// out = T(activation(gate) * input), (rows, width)
struct GateArgs {
    u64 gate;
    // The first column of the input; or null: 1.
    u64 input;
    u64 out;
    u64 count;
    u64 stamp;
    u32 width;
    u32 input_stride;
    u32 stride;
    Activation activation;
    // Whether the input is T, and not f32.
    u32 rounded;
    u32 pad;
};

// logits = cap tanh(logits / cap), (rows, vocabulary)
struct SoftcapArgs {
    u64 logits;
    u64 stamp;
    u32 vocabulary;
    u32 rows;
    f32 cap;
    u32 pad;
};

// Sums of 32 adjacent columns of each input row, two per 64 columns, in the layout of sums.cuh.
struct SumsArgs {
    u64 input;
    // (stride / 64, rows), with rows rounded up to a multiple of 16.
    u64 sums;
    u64 count;
    u64 stamp;
    u32 stride;
    u32 rows;
};

// out[i] = weight[i] y + bias[i] for the rows of a step. y is the input, or rmsnorm(x) where `input` is null. All
// weights have one format and width.
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
    // Selects the row of x: the last real row of a prompt.
    u64 count;
    u64 stamp;
    u32 hidden;
    u32 stride;
    f32 epsilon;
    Epilogue epilogue;
    u32 rows;
    // Elements between two rows of the outputs; 0: the rows of their weight.
    u32 out_stride;
    // How many parts of the columns a block holds in shared memory, one after the other; 1 where rows are normed.
    u32 phases;
    Activation activation;
};

// Two products of weights in different formats by the same rows, in one launch.
struct MixedStepArgs {
    StepArgs first;
    StepArgs second;
    // Blocks that work on the first product; the other blocks work on the second.
    u32 blocks;
    u32 pad;
};

// out[i] = weight[i] input + bias[i] for all rows of a prompt, or what `epilogue` says. All weights have one format and
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
    // As in SumsArgs, for formats with a minimum.
    u64 sums;
    u64 count;
    u64 stamp;
    u32 rows;
    u32 stride;
    // Elements between two rows of the outputs; 0: the rows of their weight.
    u32 out_stride;
    Epilogue epilogue;
    // In a kernel of two tile shapes: grid rows that take tiles of the larger shape. The others take the smaller one.
    u32 whole;
    // Tiles of the smaller shape along the tokens.
    u32 along;
    Activation activation;
    u32 pad;
};

// Where a layer's K and V lie in the pages of a cache, and how queries are rotated.
struct Cache {
    Places places;
    // Offsets of the layer within a page: (kv_heads, PAGE, head_dim) each.
    u64 k;
    u64 v;
    u32 heads;
    u32 kv_heads;
    u32 head_dim;
    // How many leading elements of a head are rotated; 0: none.
    u32 rotated;
    // A rotated query is multiplied by 1 + beta ln(1 + floor(position / original)); original 0: it is not.
    u32 original;
    f32 beta;
};

// Rotates q, and stores rotated k, and v, in the cache, for a prompt.
struct RopeStoreArgs {
    Cache cache;
    u64 q;
    // Null: k and v are not stored.
    u64 k;
    u64 v;
    u64 q_norm;
    u64 k_norm;
    u64 angles;
    u64 out;
    // (rows) of `Shown`: rows turn by positions of three parts; or null.
    u64 shown;
    u64 stamp;
    u32 stride;
    f32 epsilon;
    // Whether each head of v is normed, by weights of 1.
    u32 norms_v;
    // The pairs that turn by an image's row and column: every third pair, from the second or the third on.
    u32 row_pairs;
    u32 column_pairs;
    u32 pad;
};

// out = softmax(scale q K^T) V. For a step, q, k and v may be a product's plain outputs: the kernel then rotates q and
// k, and stores k and v.
struct AttendArgs {
    Cache cache;
    // Rotated, in the activations' type; f32 if `k` is set.
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
    // f32 (heads), the logarithm of a weight that each head gives to no position; or null.
    u64 sinks;
    // (rows) of `Shown`: rows of an image see all of its rows; or null. Only of a prompt.
    u64 shown;
    u32 rows;
    u32 stride;
    f32 scale;
    f32 epsilon;
    // Splits of a row's positions, at most.
    u32 splits;
    // Positions that a row sees, including its own; 0: all.
    u32 window;
    // Scores become cap * tanh(score / cap); 0: they do not.
    f32 softcap;
    // Query heads that share a KV head.
    u32 group;
};

// Where a layer's recurrent state lies, and its geometry: `StateInfo` of src/tape/state_info.rs.
struct State {
    Places places;
    // (states): addresses. A conversation has the index of its state, and a prompt that of the spare state it writes.
    u64 states;
    // Offset of the layer in a state.
    u64 layer;
    // Offsets in the layer: pending updates, inputs of the convolution, positions. The heads are at 0.
    u64 updates;
    u64 columns;
    u64 positions;
    u32 heads;
    u32 value_dim;
    u32 key_heads;
    u32 key_dim;
    // Whether heads take turns with the key heads.
    u32 tiled;
    u32 channels;
    u32 taps;
    u32 pad;
};

// `shift` has no kernel, bias and silu: its state is the ring of hidden states, as that of a convolution of two taps.
// out = convolution(input), with `silu` x sigmoid(x) of it, (rows, channels). With `gated`, a row of the input is
// [b | c | x], and out = T(c convolution(b x)).
struct ConvolveArgs {
    State state;
    u64 input;
    u64 kernel;
    // Or null.
    u64 bias;
    u64 out;
    u64 stamp;
    u32 rows;
    u32 silu;
    u32 stride;
    u32 pad;
};

// Updates states by rows, and computes the rows' outputs (rows, heads * value_dim).
struct UpdateArgs {
    State state;
    // [q | k | v] with the delta rule, else [x | b | c].
    u64 input;
    // (rows, heads): a of DeltaNet, dt of Mamba-2.
    u64 steps;
    // (rows, heads): b of DeltaNet.
    u64 betas;
    // (heads) each. `skip` is of Mamba-2.
    u64 rate;
    u64 step_bias;
    u64 skip;
    u64 out;
    u64 stamp;
    u32 rows;
    f32 epsilon;
};

// Replays the pending updates of all layers of a state up to a position.
struct CommitArgs {
    // Of the first layer.
    State state;
    // The address of the state; null: the state and the position are those of a prompt.
    u64 address;
    u64 layer_bytes;
    u64 stamp;
    u32 position;
    u32 pad;
};

// Copies a page of a checkpoint from or to a state. Its words: the position (2), then the heads and the last
// `taps - 1` inputs of the convolution of each layer, the oldest first, then the last hidden state.
struct CopyStateArgs {
    // Of the first layer.
    State state;
    // The address of the state.
    u64 address;
    u64 layer_bytes;
    u64 page;
    // The checkpoint's first page.
    u64 first_page;
    // Words of the pages before this one, and of each page.
    u64 before;
    u64 words;
    u32 layers;
    // Of a stored state. A loaded one's is in the checkpoint.
    u32 position;
    // Columns of a hidden state, whose ring follows the layers; 0: none.
    u32 hidden;
    u32 pad;
};

// out = T(rmsnorm(y) norm silu(gate)), (rows, columns), where each `group` columns are normed apart; or, with
// `gate_first`, T(rmsnorm(y silu(gate)) norm).
struct GatedNormArgs {
    u64 y;
    u64 gate;
    u64 norm;
    u64 out;
    u64 count;
    u64 stamp;
    u32 columns;
    u32 group;
    u32 stride;
    u32 gate_first;
    // Whether all groups have the same weights.
    u32 shared;
    f32 epsilon;
};

// Chooses the next token of each row, with its conversation's sampler.
struct SampleArgs {
    Places places;
    u64 logits;
    u64 partials;
    u64 arrivals;
    u64 sequence;
    // (MAILBOX_STEPS, STEP_ROWS), in pinned memory.
    u64 tokens;
    // (MAILBOX_STEPS, STEP_ROWS, 1 + BEST), in pinned memory.
    u64 best;
    // (slots + STEP_ROWS, mask_words): a head, then a bit for each token that the conversation allows next; behind the
    // slots, after a guess.
    u64 masks;
    // (mask_words): the same for conversations without a guide; or null: they allow all tokens.
    u64 allowed;
    u64 stamp;
    u32 vocabulary;
    u32 mask_words;
};

// The hidden states that an assistant continues from: a ring by position for each slot. `keep_hidden` stores the rows
// of `states`, of a prompt only the last one. `join_hidden`: out = [x | state]; a slot's first row has the state of its
// position in the ring, and a later one that of the row before it in `states`.
struct HiddenArgs {
    Places places;
    // f32 (rows, hidden)
    u64 states;
    // f32 (slots, HIDDEN_PLACES, hidden)
    u64 ring;
    // f32 (rows, hidden) and (rows, 2 hidden); of `join_hidden` alone.
    u64 x;
    u64 out;
    u64 stamp;
    u32 hidden;
    u32 pad;
};

// x = values for the rows of images, (rows, hidden); with `adds`, x += values.
struct ShowArgs {
    // f32 (rows, stride): the first of the columns that are read.
    u64 values;
    u64 x;
    // (rows) of `Shown`.
    u64 shown;
    u64 count;
    u64 stamp;
    u32 hidden;
    u32 stride;
    u32 adds;
    u32 pad;
};

// out = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias, (rows, columns); not `centered`: mean(x) is 0.
struct VisionNormArgs {
    u64 x;
    // Null: 1.
    u64 weight;
    // Null: 0.
    u64 bias;
    u64 out;
    u64 stamp;
    u32 columns;
    // Elements between two rows of the outputs.
    u32 stride;
    f32 epsilon;
    u32 centered;
    // Whether the output is T, and not f32.
    u32 rounded;
    u32 pad;
};

// out = T(input between `least` and `greatest`), (rows, columns), and zeros up to `stride`.
struct VisionClampArgs {
    u64 input;
    u64 out;
    u64 stamp;
    u32 columns;
    u32 input_stride;
    u32 stride;
    // Whether the input is T, and not f32.
    u32 rounded;
    f32 least;
    f32 greatest;
};

// out = activation(y between `least` and `greatest`), (rows, columns); with `adds`, out += that.
struct VisionFinishArgs {
    // f32 (rows, columns)
    u64 y;
    // The first column that is written.
    u64 out;
    u64 stamp;
    u32 columns;
    u32 stride;
    f32 least;
    f32 greatest;
    Activation activation;
    u32 adds;
    // Whether the output is T, and not f32.
    u32 rounded;
    u32 pad;
};

// Norms and turns the heads of q and k, and norms those of v; a row is [q | k | v].
struct VisionRotateArgs {
    // f32 (rows, 3 heads head_dim)
    u64 qkv;
    // (rows, head_dim / 2) of (cos, sin)
    u64 turns;
    // Null: heads are not normed.
    u64 q_norm;
    u64 k_norm;
    u64 out;
    u64 stamp;
    u32 heads;
    u32 head_dim;
    // Parts of a head that turn by themselves.
    u32 parts;
    u32 stride;
    f32 epsilon;
    // Whether each head of v is normed, by weights of 1.
    u32 norms_v;
};

// out = softmax(scale q K^T) V over all rows; a row of qkv is [q | k | v].
struct VisionAttendArgs {
    u64 qkv;
    u64 out;
    u64 stamp;
    u32 rows;
    u32 stride;
    u32 out_stride;
    u32 heads;
    // A multiple of 8.
    u32 head_dim;
    f32 scale;
};

// Tokens of squares of patches: their patches one after the other, or scale mean(patches), and then with `bias`
// (out - bias) factor.
struct VisionSquareArgs {
    u64 x;
    u64 bias;
    u64 factor;
    u64 out;
    u64 stamp;
    // Columns of a patch.
    u32 columns;
    u32 x_stride;
    u32 stride;
    u32 side;
    // Patches in a row of the image; 0: the patches of a square are consecutive.
    u32 across;
    f32 scale;
    // Whether x and out are T, and not f32.
    u32 x_rounded;
    u32 rounded;
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
