// Rotary embedding (Su et al. 2021) of a head, after an optional norm (Qwen3), by a warp.
#pragma once
#include "cache.cuh"

// Pairs that a lane holds: two neighbours, two that are 64 further on, and so on. Kernels for wide heads set it first.
#ifndef HELD_PAIRS
#define HELD_PAIRS 4
#endif
#define MOST_HEAD_DIM (2 * 32 * HELD_PAIRS)

// How a head's pairs are spread over the lanes of a warp.
struct HeadLayout {
    // Pair i is the elements i and i + rotated / 2. Elements that are not rotated follow, two by two.
    static __device__ __forceinline__ u32 at_first(const Cache &c, u32 pair) {
        return pair < c.rotated / 2 ? pair : 2 * pair;
    }
    static __device__ __forceinline__ u32 at_second(const Cache &c, u32 pair) {
        return pair < c.rotated / 2 ? pair + c.rotated / 2 : 2 * pair + 1;
    }
    static __device__ __forceinline__ u32 pair_of(u32 lane, int i) { return i / 2 * 64 + 2 * lane + i % 2; }
    // Whether a lane's two pairs are adjacent in memory, at even places. They are if the whole head is rotated.
    static __device__ __forceinline__ bool even(const Cache &c) {
        return c.rotated == c.head_dim && c.head_dim % 4 == 0;
    }

    // Calls `whole(i, pair)` for two adjacent pairs, or `single(i, pair)` for each pair.
    template <typename Whole, typename Single>
    static __device__ __forceinline__ void each(const Cache &c, u32 lane, u32 pairs, Whole whole, Single single) {
        bool side_by_side = even(c);
#pragma unroll
        for (int i = 0; i < HELD_PAIRS; i += 2) {
            u32 pair = pair_of(lane, i);
            if (side_by_side) {
                if (pair < pairs) whole(i, pair);
                continue;
            }
#pragma unroll
            for (int n = 0; n < 2; ++n)
                if (pair + n < pairs) single(i + n, pair + n);
        }
    }
};

// The weights of a head's norm. Adjacent pairs are read at once, possibly before the head is there.
struct NormWeights : HeadLayout {
    const float *all;
    float2 low[HELD_PAIRS / 2], high[HELD_PAIRS / 2];

    // Without weights, nothing is read.
    __device__ __forceinline__ NormWeights(const Cache &c, const float *weights, u32 lane) : all(weights) {
        if (!all) return;
        each(
            c, lane, c.head_dim / 2,
            [&](int i, u32 pair) {
                low[i / 2] = *reinterpret_cast<const float2 *>(all + pair),
                        high[i / 2] = *reinterpret_cast<const float2 *>(all + c.head_dim / 2 + pair);
            },
            [](int, u32) {});
    }
};

// The angles of a position's heads, read as `NormWeights` is. `angles`: (position, rotated / 2) of (cos, sin).
struct Angles : HeadLayout {
    const float2 *all;
    float4 both[HELD_PAIRS / 2];

    __device__ __forceinline__ Angles(const Cache &c, u64 angles, u32 position, u32 lane)
        : all(at<const float2>(angles) + (u64)position * (c.rotated / 2)) {
        each(
            c, lane, c.rotated / 2,
            [&](int i, u32 pair) { both[i / 2] = *reinterpret_cast<const float4 *>(all + pair); }, [](int, u32) {});
    }
    __device__ __forceinline__ float2 of(u32 pair) const { return all[pair]; }
};

// The angles of a row of a prompt with images, whose pairs turn by time, row or column: interleaved M-RoPE (Qwen3-VL).
struct ShownAngles : HeadLayout {
    const float2 *all;
    u32 pairs, row_pairs, column_pairs;
    Shown row;
    float4 both[HELD_PAIRS / 2];

    __device__ __forceinline__ ShownAngles(const RopeStoreArgs &a, u32 index, u32 lane)
        : all(at<const float2>(a.angles)), pairs(a.cache.rotated / 2), row_pairs(a.row_pairs),
          column_pairs(a.column_pairs), row(at<const Shown>(a.shown)[index]) {
        each(
            a.cache, lane, pairs,
            [&](int i, u32 pair) {
                float2 low = of(pair), high = of(pair + 1);
                both[i / 2] = make_float4(low.x, low.y, high.x, high.y);
            },
            [](int, u32) {});
    }
    __device__ __forceinline__ float2 of(u32 pair) const {
        const u32 part = pair % 3;
        const u32 position = part == 1 && pair < 3 * row_pairs      ? row.turned[1]
                             : part == 2 && pair < 3 * column_pairs ? row.turned[2]
                                                                    : row.turned[0];
        return all[(u64)position * pairs + pair];
    }
};

struct Head : HeadLayout {
    float first[HELD_PAIRS], second[HELD_PAIRS];

    // Zeros without a source.
    __device__ __forceinline__ Head(const Cache &c, const float *from, u32 lane) {
#pragma unroll
        for (int i = 0; i < HELD_PAIRS; ++i) first[i] = second[i] = 0.0f;
        if (!from) return;
        each(
            c, lane, c.head_dim / 2,
            [&](int i, u32 pair) {
                float2 low = *reinterpret_cast<const float2 *>(from + pair),
                       high = *reinterpret_cast<const float2 *>(from + c.head_dim / 2 + pair);
                first[i] = low.x, first[i + 1] = low.y, second[i] = high.x, second[i + 1] = high.y;
            },
            [&](int i, u32 pair) { first[i] = from[at_first(c, pair)], second[i] = from[at_second(c, pair)]; });
    }

    __device__ __forceinline__ void normalize(const Cache &c, const NormWeights &norm, float epsilon, u32 lane) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < HELD_PAIRS; ++i) sum += first[i] * first[i] + second[i] * second[i];
        float scale = 1.0f / sqrtf(warp_sum(sum) / (float)c.head_dim + epsilon);
        each(
            c, lane, c.head_dim / 2,
            [&](int i, u32) {
                float2 low = norm.low[i / 2], high = norm.high[i / 2];
                first[i] = first[i] * scale * low.x, first[i + 1] = first[i + 1] * scale * low.y;
                second[i] = second[i] * scale * high.x, second[i + 1] = second[i + 1] * scale * high.y;
            },
            [&](int i, u32 pair) {
                first[i] = first[i] * scale * norm.all[at_first(c, pair)],
                second[i] = second[i] * scale * norm.all[at_second(c, pair)];
            });
    }

    // By weights of 1.
    __device__ __forceinline__ void normalize(const Cache &c, float epsilon) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < HELD_PAIRS; ++i) sum += first[i] * first[i] + second[i] * second[i];
        float scale = 1.0f / sqrtf(warp_sum(sum) / (float)c.head_dim + epsilon);
#pragma unroll
        for (int i = 0; i < HELD_PAIRS; ++i) first[i] *= scale, second[i] *= scale;
    }

    template <class A> __device__ __forceinline__ void rotate(const Cache &c, const A &angles, u32 lane) {
        auto turn = [&](int i, float cosine, float sine) {
            float low = first[i] * cosine - second[i] * sine;
            second[i] = second[i] * cosine + first[i] * sine;
            first[i] = low;
        };
        each(
            c, lane, c.rotated / 2,
            [&](int i, u32) {
                turn(i, angles.both[i / 2].x, angles.both[i / 2].y),
                    turn(i + 1, angles.both[i / 2].z, angles.both[i / 2].w);
            },
            [&](int i, u32 pair) {
                float2 two = angles.of(pair);
                turn(i, two.x, two.y);
            });
    }

    // Of a query that has been rotated.
    __device__ __forceinline__ void scale(const Cache &c, u32 position) {
        if (!c.original) return;
        float by = 1.0f + c.beta * logf((float)(1 + position / c.original));
#pragma unroll
        for (int i = 0; i < HELD_PAIRS; ++i) first[i] *= by, second[i] *= by;
    }

    template <typename R> __device__ __forceinline__ void put(const Cache &c, R *to, u32 lane) const {
        each(
            c, lane, c.head_dim / 2,
            [&](int i, u32 pair) {
                put_two(to + pair, first[i], first[i + 1]);
                put_two(to + c.head_dim / 2 + pair, second[i], second[i + 1]);
            },
            [&](int i, u32 pair) {
                to[at_first(c, pair)] = round_to<R>(first[i]), to[at_second(c, pair)] = round_to<R>(second[i]);
            });
    }

    template <typename R> static __device__ __forceinline__ void put_two(R *to, float first, float second) {
        struct alignas(2 * sizeof(R)) Two {
            R first, second;
        };
        *reinterpret_cast<Two *>(to) = {round_to<R>(first), round_to<R>(second)};
    }
};
