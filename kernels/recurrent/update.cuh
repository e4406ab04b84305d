// The recurrent state of a conversation: where it lies, and its update by one token.
//
// The heads of a layer are f32 (head, value_dim, key_dim): a matrix of columns, each of `key_dim` adjacent values. A
// block updates PART columns of a head. A column lies in the registers of LANES lanes of one warp; sums over it have a
// fixed order, so that the bits of a row depend neither on other rows nor on where a prompt was cut.
//
// A step leaves pending updates in a ring by position, and its state knows the position that it has reached. A step
// that runs again therefore adds nothing.
#pragma once
#include "common.cuh"
#include "state.cuh"

// As in src/tape/state_info.rs.
#define UPDATES 16
#define COLUMNS 24
#define PART 32
#define LANES 8
// The longest column: each lane has up to four times four adjacent keys.
#define MOST_KEYS (4 * 4 * LANES)
// Tokens that a block has in shared memory.
#define TILE UPDATES

// A conversation's rows in this launch.
struct Rows {
    u32 slot;
    // Of the first row.
    u32 position;
    u32 first;
    u32 count;
};

// The rows of the conversation whose first row is `row`; none if another row is its first, or for padding.
__device__ __forceinline__ Rows rows_from(const Places &places, u32 row, u32 rows) {
    const Row *own = at<const Row>(places.rows) + row;
    if (!places.step) return {own->slot, own->position, 0, own->count};
    Rows all = {own->slot, own->position, row, 0};
    if (own->slot == NO_SLOT || own->first != row) return all;
    while (row + all.count < rows && own[all.count].slot == own->slot) ++all.count;
    return all;
}

// A layer of the state with an index in the pool.
__device__ __forceinline__ u8 *layer_of(const State &state, u32 index) {
    return at<u8>(at<const u64>(state.states)[index]) + state.layer;
}
__device__ __forceinline__ u8 *layer_of_slot(const State &state, u32 slot) {
    return layer_of(state, at<const Conversation>(state.places.conversations)[slot].state);
}

// The inputs of the convolution at a position.
__device__ __forceinline__ float *column(const State &state, u8 *layer, u32 position) {
    const u32 place = position % (state.taps - 1 + COLUMNS);
    return reinterpret_cast<float *>(layer + state.columns) + (u64)place * state.channels;
}

// The columns that a block updates.
struct Part {
    u32 index;
    u32 head;
    u32 key_head;
    // The first column.
    u32 first;
    // This lane's column, and its lane of LANES.
    u32 own;
    u32 lane;

    __device__ __forceinline__ Part(const State &state, u32 part) : index(part) {
        const u32 parts = (state.value_dim + PART - 1) / PART;
        head = part / parts, first = part % parts * PART;
        key_head = state.tiled ? head % state.key_heads : head / (state.heads / state.key_heads);
        own = first + threadIdx.x / LANES, lane = threadIdx.x % LANES;
    }
    __device__ __forceinline__ u32 *position(const State &state, u8 *layer) const {
        return reinterpret_cast<u32 *>(layer + state.positions) + index;
    }
};
static_assert(THREADS == PART * LANES, "each lane of a block has one column");

// This lane's share of its column: four keys of each LANES * 4.
struct Share {
    float value[16];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (float &one : value) one = 0.0f;
    }
    __device__ __forceinline__ void load(const State &state, const u8 *layer, const Part &part) {
        clear();
        if (part.own >= state.value_dim) return;
        const float *from = reinterpret_cast<const float *>(layer) + start(state, part);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const u32 key = (i * LANES + part.lane) * 4;
            if (key < state.key_dim)
                reinterpret_cast<float4 *>(value)[i] = *reinterpret_cast<const float4 *>(from + key);
        }
    }
    __device__ __forceinline__ void store(const State &state, u8 *layer, const Part &part) const {
        if (part.own >= state.value_dim) return;
        float *to = reinterpret_cast<float *>(layer) + start(state, part);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const u32 key = (i * LANES + part.lane) * 4;
            if (key < state.key_dim) *reinterpret_cast<float4 *>(to + key) = reinterpret_cast<const float4 *>(value)[i];
        }
    }

  private:
    __device__ __forceinline__ static u64 start(const State &state, const Part &part) {
        return ((u64)part.head * state.value_dim + part.own) * state.key_dim;
    }
};

// Tokens in shared memory. Keys and queries after `key_dim` are zero.
struct Tokens {
    float keys[TILE][MOST_KEYS];
    float queries[TILE][MOST_KEYS];
    // Of this block's columns.
    float values[TILE][PART];
    // `skip x` of Mamba-2.
    float skipped[TILE][PART];
    float decay[TILE];
    float beta[TILE];
};

// The sum over a column of the products with keys or queries, in all of its lanes.
__device__ __forceinline__ float over_column(const Share &share, const float *by, u32 lane) {
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        const float4 four = *reinterpret_cast<const float4 *>(by + (i * LANES + lane) * 4);
        sums[0] = fmaf(share.value[4 * i], four.x, sums[0]);
        sums[1] = fmaf(share.value[4 * i + 1], four.y, sums[1]);
        sums[2] = fmaf(share.value[4 * i + 2], four.z, sums[2]);
        sums[3] = fmaf(share.value[4 * i + 3], four.w, sums[3]);
    }
    float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
#pragma unroll
    for (u32 offset = LANES / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    return sum;
}

// Updates a column by token `t`. With DELTA, S = decay S; S += beta (v - S k) k^T (gated delta rule: Yang et al. 2024);
// else S = decay S + v k^T (Mamba-2: Dao and Gu 2024). No compiler may contract these sums in another way elsewhere.
template <bool DELTA>
__device__ __forceinline__ void advance(Share &share, const Tokens &tokens, u32 t, const Part &part) {
    const float decay = tokens.decay[t];
    float added = tokens.values[t][part.own - part.first];
    if (DELTA) {
        const float kept = over_column(share, tokens.keys[t], part.lane);
        added = __fmul_rn(tokens.beta[t], fmaf(-decay, kept, added));
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        const float4 key = *reinterpret_cast<const float4 *>(tokens.keys[t] + (i * LANES + part.lane) * 4);
        share.value[4 * i] = fmaf(added, key.x, __fmul_rn(decay, share.value[4 * i]));
        share.value[4 * i + 1] = fmaf(added, key.y, __fmul_rn(decay, share.value[4 * i + 1]));
        share.value[4 * i + 2] = fmaf(added, key.z, __fmul_rn(decay, share.value[4 * i + 2]));
        share.value[4 * i + 3] = fmaf(added, key.w, __fmul_rn(decay, share.value[4 * i + 3]));
    }
}

// A pending update of a layer: keys, values, a decay for each head, and with the delta rule a beta for each head.
struct Update {
    float *keys;
    float *values;
    float *decays;
    float *betas;

    template <bool DELTA> __device__ __forceinline__ static Update of(const State &state, u8 *layer, u32 position) {
        const u32 keys = state.key_heads * state.key_dim, values = state.heads * state.value_dim;
        float *const own = reinterpret_cast<float *>(layer + state.updates) +
                           (u64)(position % UPDATES) * (keys + values + (DELTA ? 2 : 1) * state.heads);
        return {own, own + keys, own + keys + values, own + keys + values + state.heads};
    }
};

// Brings the pending updates of `count` positions to shared memory, by a whole block.
template <bool DELTA>
__device__ __forceinline__ void take_pending(const State &state, u8 *layer, const Part &part, u32 position, u32 count,
                                             Tokens &tokens) {
    for (u32 t = threadIdx.x / 32; t < count; t += WARPS) {
        const Update update = Update::of<DELTA>(state, layer, position + t);
        const u32 lane = threadIdx.x % 32;
        const float *keys = update.keys + part.key_head * state.key_dim;
        for (u32 key = lane; key < MOST_KEYS; key += 32) tokens.keys[t][key] = key < state.key_dim ? keys[key] : 0.0f;
        const u32 value = part.first + lane;
        tokens.values[t][lane] = value < state.value_dim ? update.values[part.head * state.value_dim + value] : 0.0f;
        if (lane == 0) {
            tokens.decay[t] = update.decays[part.head];
            if (DELTA) tokens.beta[t] = update.betas[part.head];
        }
    }
}
