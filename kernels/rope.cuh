// Rotary embedding (Su et al. 2021) of a head after an optional norm of it (Qwen3), by a warp.
#pragma once
#include "cache.cuh"

// Each lane holds the pairs lane, lane + 32, ... of a head.
#define PAIRS 4
#define MOST_HEAD_DIM (2 * 32 * PAIRS)

struct Head {
    float first[PAIRS], second[PAIRS];

    // Pair i are the elements i and i + rotated / 2; what is not rotated lies behind those, two by two.
    static __device__ __forceinline__ u32 at_first(const Cache &c, u32 pair) { return pair < c.rotated / 2 ? pair : 2 * pair; }
    static __device__ __forceinline__ u32 at_second(const Cache &c, u32 pair) { return pair < c.rotated / 2 ? pair + c.rotated / 2 : 2 * pair + 1; }

    // Zeros from nowhere.
    __device__ __forceinline__ Head(const Cache &c, const float *from, u32 lane) {
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            u32 pair = lane + 32 * i;
            bool there = from && pair < c.head_dim / 2;
            first[i] = there ? from[at_first(c, pair)] : 0.0f;
            second[i] = there ? from[at_second(c, pair)] : 0.0f;
        }
    }

    __device__ __forceinline__ void normalize(const Cache &c, const float *norm, float epsilon, u32 lane) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) sum += first[i] * first[i] + second[i] * second[i];
        float scale = 1.0f / sqrtf(warp_sum(sum) / (float)c.head_dim + epsilon);
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            u32 pair = lane + 32 * i;
            if (pair < c.head_dim / 2) first[i] = first[i] * scale * norm[at_first(c, pair)], second[i] = second[i] * scale * norm[at_second(c, pair)];
        }
    }

    // `angles`: (position, rotated / 2) of (cos, sin).
    __device__ __forceinline__ void rotate(const Cache &c, u64 angles, u32 position, u32 lane) {
        const float2 *of = at<const float2>(angles) + (u64)position * (c.rotated / 2);
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            u32 pair = lane + 32 * i;
            if (pair >= c.rotated / 2) continue;
            float2 angle = of[pair];
            float low = first[i] * angle.x - second[i] * angle.y;
            second[i] = second[i] * angle.x + first[i] * angle.y;
            first[i] = low;
        }
    }

    // Of a query that has been rotated.
    __device__ __forceinline__ void scale(const Cache &c, u32 position) {
        if (!c.original) return;
        float by = 1.0f + c.beta * logf((float)(1 + position / c.original));
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) first[i] *= by, second[i] *= by;
    }

    template <typename R> __device__ __forceinline__ void put(const Cache &c, R *to, u32 lane) const {
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            u32 pair = lane + 32 * i;
            if (pair < c.head_dim / 2) to[at_first(c, pair)] = round_to<R>(first[i]), to[at_second(c, pair)] = round_to<R>(second[i]);
        }
    }
};
