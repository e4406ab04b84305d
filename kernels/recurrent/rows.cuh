// The rows of a recurrent layer as tokens: norms of keys and queries, decays and betas.
#pragma once
#include "recurrent/update.cuh"

// Above this, softplus is its argument.
#define LINEAR 20.0f

__device__ __forceinline__ float softplus(float x) { return x > LINEAR ? x : log1pf(expf(x)); }

// What a thread has read of the rows of a tile: keys and queries of two of them, values and gates.
template <bool DELTA> struct Fetched {
    static_assert(TILE == 2 * WARPS && TILE * PART == 2 * THREADS, "each thread has two of each");
    float4 keys[2], queries[2];
    float values[2];
    float step, beta;

    // Reads the rows from `row` on into the places from `place` on; `end` is the place after the last one.
    __device__ __forceinline__ void read(const UpdateArgs &a, const Part &part, u32 row, u32 place, u32 end) {
        const State &state = a.state;
        const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, wide = state.key_heads * state.key_dim;
        const u32 queries_at = DELTA ? 0 : state.heads * state.value_dim + wide;
        const u32 keys_at = DELTA ? wide : state.heads * state.value_dim;
        const float *input = at<const float>(a.input);
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            const u32 t = warp + i * WARPS;
            keys[i] = queries[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (t < place || t >= end || lane * 4 >= state.key_dim) continue;
            const float *own =
                input + (u64)(row + t - place) * state.channels + part.key_head * state.key_dim + lane * 4;
            keys[i] = *reinterpret_cast<const float4 *>(own + keys_at);
            queries[i] = *reinterpret_cast<const float4 *>(own + queries_at);
        }
        const u32 values_at = DELTA ? 2 * wide : 0;
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            const u32 t = warp + i * WARPS, value = part.first + lane;
            values[i] = 0.0f;
            if (t < place || t >= end || value >= state.value_dim) continue;
            values[i] =
                input[(u64)(row + t - place) * state.channels + values_at + part.head * state.value_dim + value];
        }
        const u32 t = threadIdx.x;
        if (t >= place && t < end) {
            const u64 gate = (u64)(row + t - place) * state.heads + part.head;
            step = at<const float>(a.steps)[gate];
            if (DELTA) beta = at<const float>(a.betas)[gate];
        }
    }

    // Leaves the tokens in shared memory. Those of Mamba-2 need the steps there first: see `leave_gates`.
    __device__ __forceinline__ void leave(const UpdateArgs &a, const Part &part, u32 place, u32 end, Tokens &tokens) {
        const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const float skip = DELTA ? 0.0f : at<const float>(a.skip)[part.head];
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            const u32 t = warp + i * WARPS;
            if (t < place || t >= end) continue;
            float key_scale = 1.0f, query_scale = 1.0f;
            if (DELTA) {
                key_scale = 1.0f / sqrtf(warp_sum(squares(keys[i])) + a.epsilon);
                query_scale = 1.0f / sqrtf((float)a.state.key_dim) / sqrtf(warp_sum(squares(queries[i])) + a.epsilon);
            }
            *reinterpret_cast<float4 *>(tokens.keys[t] + lane * 4) = scaled(keys[i], key_scale);
            *reinterpret_cast<float4 *>(tokens.queries[t] + lane * 4) = scaled(queries[i], query_scale);
            tokens.values[t][lane] = DELTA ? values[i] : values[i] * tokens.beta[t];
            if (!DELTA) tokens.skipped[t][lane] = skip * values[i];
        }
    }

    // Leaves decays, and betas or the steps of Mamba-2, in shared memory.
    __device__ __forceinline__ void leave_gates(const UpdateArgs &a, const Part &part, u32 place, u32 end,
                                                Tokens &tokens) {
        const u32 t = threadIdx.x;
        if (t < place || t >= end) return;
        const float length = softplus(step + at<const float>(a.step_bias)[part.head]);
        tokens.decay[t] = expf(at<const float>(a.rate)[part.head] * length);
        tokens.beta[t] = DELTA ? 1.0f / (1.0f + expf(-beta)) : length;
    }

  private:
    __device__ __forceinline__ static float squares(float4 x) {
        return fmaf(x.x, x.x, fmaf(x.y, x.y, fmaf(x.z, x.z, x.w * x.w)));
    }
    __device__ __forceinline__ static float4 scaled(float4 x, float by) {
        return make_float4(x.x * by, x.y * by, x.z * by, x.w * by);
    }
};
static_assert(MOST_KEYS == 4 * 32, "a warp reads the keys of a token at once");

// Stores the output of a column for a row.
template <bool DELTA>
__device__ __forceinline__ void put(const UpdateArgs &a, const Part &part, const Share &share, const Tokens &tokens,
                                    u32 t, u32 row) {
    float result = over_column(share, tokens.queries[t], part.lane);
    if (!DELTA) result += tokens.skipped[t][part.own - part.first];
    if (part.lane != 0 || part.own >= a.state.value_dim) return;
    at<float>(a.out)[((u64)row * a.state.heads + part.head) * a.state.value_dim + part.own] = result;
}

// Stores a value that is no result for all columns of a block.
__device__ __forceinline__ void put_all(const UpdateArgs &a, const Part &part, Rows rows, float value) {
    if (part.lane != 0 || part.own >= a.state.value_dim) return;
    for (u32 row = rows.first; row < rows.first + rows.count; ++row)
        at<float>(a.out)[((u64)row * a.state.heads + part.head) * a.state.value_dim + part.own] = value;
}

#define NOT_A_NUMBER __int_as_float(0x7fffffff)
