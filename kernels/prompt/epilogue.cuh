// How a block of a prompt's product turns its sums into outputs: scales, biases, and what the `Epilogue` asks for.
//
// Sums pass through shared memory, so that a thread has four adjacent rows of an output and walks along the tokens.
#pragma once
#include "prompt/block.cuh"
#include "prompt/copy.cuh"

// Four neighbours of a row of outputs, in one access where rows begin at multiples of four.
template <typename T> struct alignas(4 * sizeof(T)) Four {
    T each[4];
};
template <typename T>
__device__ __forceinline__ void put_four(T *out, u32 stride, u32 row, u32 rows, const float (&values)[4]) {
    Four<T> four;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) four.each[i] = round_to<T>(values[i]);
    if (stride % 4 == 0 && row + 3 < rows) *reinterpret_cast<Four<T> *>(out + row) = four;
    else
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            if (row + i < rows) out[row + i] = four.each[i];
}
__device__ __forceinline__ void read_four(const float *from, u32 stride, u32 row, u32 rows, float (&values)[4]) {
    Four<float> four = {};
    if (stride % 4 == 0 && row + 3 < rows) four = *reinterpret_cast<const Four<float> *>(from + row);
    else
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            if (row + i < rows) four.each[i] = from[row + i];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) values[i] = four.each[i];
}

// Outputs of two tokens and four adjacent rows, from the order in which registers held them (`SWAP`), and back.
template <int F> __device__ __forceinline__ void read_two_tokens(const float *from, float (&values)[2][4]) {
#pragma unroll
    for (u32 i = 0; i < 4; i += 2) {
        const float4 two = reinterpret_cast<const float4 *>(from)[i / 2];
        values[SWAP<F>][i] = two.x, values[1 ^ SWAP<F>][i] = two.y;
        values[SWAP<F>][i + 1] = two.z, values[1 ^ SWAP<F>][i + 1] = two.w;
    }
}
template <int F> __device__ __forceinline__ void put_two_tokens(float *to, const float (&values)[2][4]) {
#pragma unroll
    for (u32 i = 0; i < 4; i += 2)
        reinterpret_cast<float4 *>(to)[i / 2] =
            make_float4(values[SWAP<F>][i], values[1 ^ SWAP<F>][i], values[SWAP<F>][i + 1], values[1 ^ SWAP<F>][i + 1]);
}

// The sums of a block in shared memory: (pairs of tokens, rows, tokens). PITCH floats per pair keep a half warp's
// accesses in different banks.
template <class S> struct SharedSums {
    static constexpr u32 PITCH = 2 * S::tiles * 16 + 8;
};

// Puts a warp's sums there. Sums that were swapped lie in pairs of registers anyway, and leave as pairs; to pair others
// would cost the loop over columns registers.
template <int F, class S>
__device__ __forceinline__ void leave_sums_of_warp(const float (&sums)[S::M][S::N][2][4], const Thread<S> &thread,
                                                   u32 base) {
    constexpr u32 M = S::M, N = S::N, PITCH = SharedSums<S>::PITCH;
#pragma unroll
    for (u32 m = 0; m < M; ++m)
#pragma unroll
        for (u32 n = 0; n < N; ++n)
#pragma unroll
            for (int h = 0; h < 2; ++h)
#pragma unroll
                // Sums 0 and 1 are row g's of tokens 2 t and 2 t + 1 in half h of sixteen; 2 and 3 are row g + 8's.
                for (int second = 0; second < 2; ++second) {
                    const u32 pair = (thread.along_tokens * M + m) * 8 + 4 * h + thread.t;
                    const u32 row = (thread.along_rows * N + n) * 16 + 8 * second + thread.g;
                    const u32 to = base + (pair * PITCH + 2 * row) * 4;
                    const float *two = &sums[m][n][h][2 * second];
                    if constexpr (SWAP<F>)
                        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(two[0]), "f"(two[1]));
                    else
#pragma unroll
                        for (int i = 0; i < 2; ++i)
                            asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + i * 4), "f"(two[i]));
                }
}

// What multiplies the sums of four adjacent rows, and what is added to them.
template <int F>
__device__ __forceinline__ void read_factors(const PromptArgs &a, const Tiles &of, const float *bias, u32 row,
                                             bool gated, float (&scales)[4], float (&up_scales)[4],
                                             float (&biases)[4]) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        const bool there = row + i < of.rows;
        scales[i] = there ? row_scale<F>(of, row + i) : 1.0f;
        up_scales[i] = gated && there ? row_scale<F>(a.weight1, row + i) : 1.0f;
        biases[i] = !gated && bias && there ? bias[row + i] : 0.0f;
    }
}

// Computes the outputs of two tokens and adds other values to them, or multiplies them by these.
__device__ __forceinline__ void combine(const PromptArgs &a, const float (&scales)[4], const float (&biases)[4],
                                        const float (&others)[2][4], float (&values)[2][4]) {
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        float &value = values[i / 4][i % 4];
        value = value * scales[i % 4] + biases[i % 4];
        value = a.epilogue == Epilogue::Added ? value + others[i / 4][i % 4] : value * others[i / 4][i % 4];
    }
}

// Computes the outputs of one token that are not combined with other values.
__device__ __forceinline__ void activate(const PromptArgs &a, bool gated, const float (&scales)[4],
                                         const float (&biases)[4], const float (&ups)[4], const float (&up_scales)[4],
                                         float (&values)[4]) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        float &value = values[i];
        value = value * scales[i] + biases[i];
        if (gated || a.epilogue == Epilogue::Activated) value = activated(a.activation, value);
        if (a.epilogue == Epilogue::Rounded) value = activated_of_tower(a.activation, value);
        if (gated) value *= ups[i] * up_scales[i];
    }
}

// Stores the outputs of a block, whose sums lie at the start of shared memory. A thread has four adjacent rows of one
// matrix, of every `at_once`-th pair of tokens.
template <int F, typename T, class S>
__device__ __forceinline__ void finish(const PromptArgs &a, float *sums, u32 first, u32 first_tile, u32 rows,
                                       u32 all_tiles) {
    constexpr u32 PITCH = SharedSums<S>::PITCH;
    // Gate and up alternate; there are half as many outputs then.
    const bool gated = S::tiles % 2 == 0 && a.epilogue == Epilogue::Gated;
    const u32 along = S::tiles * (gated ? 2 : 4), at_once = S::threads / along, four = threadIdx.x % along;
    const u32 index = four / 4 * (gated ? 2 : 1), within = four % 4 * 4;
    // Threads without an output.
    if (threadIdx.x / along >= at_once || first_tile + index >= all_tiles) return;
    u32 matrix, tile;
    tile_of(a, first_tile + index, matrix, tile);
    const Tiles &of = matrix_of(a, matrix);
    const u32 row = tile * 16 + within, stride = a.out_stride ? a.out_stride : of.rows;
    float *out = at<float>(matrix == 0 ? a.out0 : matrix == 1 ? a.out1 : a.out2);
    const float *bias = at<const float>(matrix == 0 ? a.bias0 : matrix == 1 ? a.bias1 : a.bias2);
    float scales[4], up_scales[4], biases[4];
    read_factors<F>(a, of, bias, row, gated, scales, up_scales, biases);
    float *from = sums + (index * 16 + within) * 2;
    const u32 begin = threadIdx.x / along, end = min(S::tokens, rows - first);
    const bool combined = a.epilogue == Epilogue::Added || a.epilogue == Epilogue::Multiplied;
    const bool rounded = gated || a.epilogue == Epilogue::Multiplied || a.epilogue == Epilogue::Rounded;
    // Values in memory that the outputs are combined with are read for several tokens at once, and before anything is
    // stored: a load behind a store waits for it.
    if (combined) {
        constexpr u32 AT_ONCE = 4;
        const float *others = a.epilogue == Epilogue::Added ? out : at<const float>(a.out1);
#pragma unroll 1
        for (u32 pair = begin; 2 * pair < end; pair += AT_ONCE * at_once) {
            float other[AT_ONCE][2][4];
#pragma unroll
            for (u32 k = 0; k < 2 * AT_ONCE; ++k) {
                const u32 token = 2 * (pair + k / 2 * at_once) + k % 2;
                if (token < end)
                    read_four(others + (u64)(first + token) * stride, stride, row, of.rows, other[k / 2][k % 2]);
            }
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; ++k) {
                const u32 here = pair + k * at_once;
                if (2 * here >= end) break;
                float each[2][4];
                read_two_tokens<F>(from + here * PITCH, each);
                combine(a, scales, biases, other[k], each);
                put_two_tokens<F>(from + here * PITCH, each);
            }
        }
    }
#pragma unroll 1
    for (u32 pair = begin; 2 * pair < end; pair += at_once) {
        float values[2][4], ups[2][4];
        read_two_tokens<F>(from + pair * PITCH, values);
        if (gated) read_two_tokens<F>(from + pair * PITCH + 32, ups);
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            if (2 * pair + k >= end) break;
            if (!combined) activate(a, gated, scales, biases, ups[k], up_scales, values[k]);
            const u64 to = (u64)(first + 2 * pair + k) * stride;
            if (rounded) put_four<T>(at<T>(a.out0) + to, stride, row, of.rows, values[k]);
            else put_four<float>(out + to, stride, row, of.rows, values[k]);
        }
    }
}
