// Attention of all patches of an image to all of its patches on the tensor cores, in the tiles of FlashAttention-2 (Dao
// 2023, arXiv 2307.08691). A block takes query rows of one head, and the keys in tiles of KEYS, in order. The tile
// after the current one is on its way meanwhile. The softmax's weights are multiplied twice, rounded to the
// activations' type and as their rounding errors.
//
// Heads whose size is not a multiple of 16 are padded by zeros in shared memory.
#pragma once
#include "prompt/copy.cuh"

#define ATTEND_WARPS 4
#define ATTEND_THREADS (32 * ATTEND_WARPS)
// src/cuda/encode_kernels.rs computes the same sizes.
#define KEYS 64

__device__ __forceinline__ void matrices_turned(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
}

// The copies of a block: rows of q, k or v into tiles of D columns, whose rows are shifted by a bank each.
template <typename T, u32 D> struct HeadCopies {
    static constexpr u32 PITCH = 2 * D + 16, PIECES = D / 8;
    const T *head;
    u32 stride, rows, pieces;

    // Requests `count` rows from `first` on. Rows and columns that do not exist become zeros.
    __device__ __forceinline__ void load(u32 to, u32 which, u32 first, u32 count) const {
        for (u32 i = threadIdx.x; i < count * PIECES; i += ATTEND_THREADS) {
            const u32 row = first + i / PIECES, piece = i % PIECES;
            const bool there = row < rows && piece < pieces;
            const T *from = head + which + (u64)(there ? row : 0) * stride + (there ? piece * 8 : 0);
            copy_16_or_zero(to + i / PIECES * PITCH + piece * 16, from, there);
        }
    }
};

// M: tiles of 16 query rows in a warp. D: columns of a head, padded.
template <typename T, u32 D, u32 M> __device__ __forceinline__ void attend_all(const VisionAttendArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    constexpr u32 PITCH = 2 * D + 16, ROWS = 16 * M * ATTEND_WARPS, SIDE = KEYS * PITCH;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, width = a.heads * a.head_dim;
    const u32 first = blockIdx.x * ROWS, tiles = (a.rows + KEYS - 1) / KEYS;
    const u32 base = in_shared(staged), at_k = base + ROWS * PITCH, at_v = at_k + 2 * SIDE;
    const HeadCopies<T, D> copies = {at<const T>(a.qkv) + blockIdx.y * a.head_dim, a.stride, a.rows, a.head_dim / 8};
    copies.load(base, 0, first, ROWS);
    copies.load(at_k, width, 0, KEYS);
    copies_end();
    copies.load(at_v, 2 * width, 0, KEYS);
    copies_end();
    // For rows g and g + 8 of each tile: the greatest score, this lane's part of the sum of weights, and the weighted
    // sum of values.
    float greatest[M][2], sum[M][2], out[M][D / 8][4] = {};
#pragma unroll
    for (u32 m = 0; m < M; ++m)
#pragma unroll
        for (u32 e = 0; e < 2; ++e) greatest[m][e] = -INFINITY, sum[m][e] = 0.0f;
    const float scale = a.scale * LOG2_E;
    const u32 q_from = base + (warp * M * 16 + lane % 16) * PITCH + lane / 16 * 16;
    const u32 k_from = at_k + (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 16;
    const u32 v_from = at_v + lane % 16 * PITCH + lane / 16 * 16;
    for (u32 tile = 0; tile < tiles; ++tile) {
        const u32 place = tile % 2 * SIDE, next = SIDE - place, after = (tile + 1) * KEYS;
        copies_wait<1>();
        __syncthreads();
        if (tile + 1 < tiles) copies.load(at_k + next, width, after, KEYS);
        copies_end();
        float scores[M][KEYS / 8][4] = {};
#pragma unroll
        for (u32 d = 0; d < D / 16; ++d) {
            u32 q[M][4];
#pragma unroll
            for (u32 m = 0; m < M; ++m) matrices(q[m], q_from + m * 16 * PITCH + d * 32);
#pragma unroll
            for (u32 n = 0; n < KEYS / 16; ++n) {
                u32 k[4];
                matrices(k, k_from + place + n * 16 * PITCH + d * 32);
#pragma unroll
                for (u32 m = 0; m < M; ++m) {
                    Mma<T>::run(scores[m][2 * n], q[m], k[0], k[1]);
                    Mma<T>::run(scores[m][2 * n + 1], q[m], k[2], k[3]);
                }
            }
        }
        copies_wait<1>();
        __syncthreads();
        if (tile + 1 < tiles) copies.load(at_v + next, 2 * width, after, KEYS);
        copies_end();
        if (after > a.rows) {
#pragma unroll
            for (u32 n = 0; n < KEYS / 8; ++n)
#pragma unroll
                for (u32 i = 0; i < 4; ++i)
                    if (tile * KEYS + n * 8 + 2 * (lane % 4) + i % 2 >= a.rows)
#pragma unroll
                        for (u32 m = 0; m < M; ++m) scores[m][n][i] = -INFINITY;
        }
#pragma unroll
        for (u32 m = 0; m < M; ++m)
#pragma unroll
            for (u32 e = 0; e < 2; ++e) {
                // Each tile has a key, so the greatest score is a number.
                float most = greatest[m][e];
#pragma unroll
                for (u32 n = 0; n < KEYS / 8; ++n)
                    most = fmaxf(most, fmaxf(scores[m][n][2 * e], scores[m][n][2 * e + 1]));
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
                const float before = power_of_two((greatest[m][e] - most) * scale), less = most * scale;
                float added = 0.0f;
                greatest[m][e] = most;
#pragma unroll
                for (u32 n = 0; n < KEYS / 8; ++n) {
                    // In place: a pair of rounded weights, and the pair of their rounding errors.
                    float (&pair)[4] = scores[m][n];
                    const float low = power_of_two(fmaf(pair[2 * e], scale, -less)),
                                high = power_of_two(fmaf(pair[2 * e + 1], scale, -less));
                    added += low + high;
                    const u32 packed = Mma<T>::pack(low, high);
                    pair[2 * e] = __uint_as_float(packed),
                             pair[2 * e + 1] = __uint_as_float(Mma<T>::rest(low, high, packed));
                }
                sum[m][e] = fmaf(sum[m][e], before, added);
#pragma unroll
                for (u32 d = 0; d < D / 8; ++d) out[m][d][2 * e] *= before, out[m][d][2 * e + 1] *= before;
            }
#pragma unroll
        for (u32 n = 0; n < KEYS / 16; ++n)
#pragma unroll
            for (u32 d = 0; d < D / 16; ++d) {
                u32 v[4];
                matrices_turned(v, v_from + place + n * 16 * PITCH + d * 32);
#pragma unroll
                for (u32 m = 0; m < M; ++m)
#pragma unroll
                    for (u32 lost = 0; lost < 2; ++lost) {
                        u32 p[4];
#pragma unroll
                        for (u32 i = 0; i < 4; ++i)
                            p[i] = __float_as_uint(scores[m][2 * n + i / 2][2 * (i % 2) + lost]);
                        Mma<T>::run(out[m][2 * d], p, v[0], v[1]);
                        Mma<T>::run(out[m][2 * d + 1], p, v[2], v[3]);
                    }
            }
    }
    const u32 g = lane / 4, t = lane % 4;
#pragma unroll
    for (u32 m = 0; m < M; ++m)
#pragma unroll
        for (u32 e = 0; e < 2; ++e) {
            float total = sum[m][e];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            const u32 row = first + (warp * M + m) * 16 + g + 8 * e;
            if (row >= a.rows) continue;
            T *to = at<T>(a.out) + (u64)row * a.out_stride + blockIdx.y * a.head_dim + 2 * t;
            const float share = 1.0f / total;
#pragma unroll
            for (u32 d = 0; d < D / 8; ++d)
                if (8 * d < a.head_dim)
                    *reinterpret_cast<u32 *>(to + d * 8) =
                        Mma<T>::pack(out[m][d][2 * e] * share, out[m][d][2 * e + 1] * share);
        }
}
