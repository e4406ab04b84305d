// Attention of a prompt's rows, in the tiles of FlashAttention-2 (Dao 2023, arXiv 2307.08691), on the tensor cores.
// A block takes query rows of one KV head, counted over tokens and the heads that share it; keys come in tiles of
// KEYS at absolute positions, one after the other: so a row's bits depend on nothing but its own position. The
// weights of the softmax are rounded to the activations' type twice, the second time what the first has lost. A cache of
// integers becomes values of that type as a tile arrives.
#include "prompt/product.cuh"
#include "rope.cuh"

#define ATTEND_WARPS 4
// Exponentials are taken to base 2.
#define LOG2_E 1.4426950408889634f

__device__ __forceinline__ void matrices_turned(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from));
}
__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Asked again where it is needed rather than kept in a register.
__device__ __forceinline__ u32 thread_in_block() {
    u32 thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

// tanh of what is not large: no error of it is more than 2^-22.
__device__ __forceinline__ float squashed(float x) { return 1.0f - 2.0f / (power_of_two(2.0f * LOG2_E * x) + 1.0f); }

// M: tiles of 16 query rows a warp. KEYS: of a tile.
template <typename T, typename C, int D, int M, u32 KEYS> __device__ __forceinline__ void prompt_attend(const AttendArgs &a) {
    Stopwatch stopwatch(a.stamp);
    constexpr u32 PITCH = 2 * D + 16, PIECES = D / 8, ROWS = 16 * M * ATTEND_WARPS, THREADS_ = 32 * ATTEND_WARPS;
    constexpr bool PACKED = sizeof(C) == 1;
    constexpr u32 BLOCK = D % 32 ? 16 : 32, SCALES = D / BLOCK;
    const Cache &c = a.cache;
    const Row *prompt = at<const Row>(c.places.rows);
    u32 group = c.heads / c.kv_heads, kv_head = blockIdx.y, tokens = prompt->count;
    // The last tokens see the most keys: theirs go first.
    u32 first = (gridDim.x - 1 - blockIdx.x) * ROWS, all = tokens * group;
    if (first >= all) return;
    u32 position = prompt->position, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 last_position = position + (min(first + ROWS, all) - 1) / group, tiles = last_position / KEYS + 1;
    u32 base = (u32)__cvta_generic_to_shared(staged), at_k = base + ROWS * PITCH, at_v = at_k + KEYS * PITCH, at_packed = at_v + KEYS * PITCH;
    const u64 *table = table_of(c, prompt->entry);
    // Keys of a tile lie in one page.
    auto load = [&](u32 to, u64 side, u32 tile) {
        u64 page = table[tile * KEYS / PAGE];
        const C *from = in_page<C>(page, side, c, kv_head, tile * KEYS);
        if constexpr (PACKED) {
            const half *scales = scales_in_page(page, side, c, kv_head, tile * KEYS);
            for (u32 i = threadIdx.x; i < KEYS * D / 16; i += THREADS_) copy_16(at_packed + i * 16, from + i * 16);
            for (u32 i = threadIdx.x; i < KEYS * SCALES / 8; i += THREADS_) copy_16(at_packed + KEYS * D + i * 16, scales + i * 8);
            copies_end();
            return;
        }
#pragma unroll 1
        for (u32 i = threadIdx.x; i < KEYS * PIECES; i += THREADS_) {
            u32 key = i / PIECES, piece = i % PIECES;
            bool there = tile * KEYS + key <= last_position;
            copy_16_or_zero(to + key * PITCH + piece * 16, from + (there ? key : 0) * D + piece * 8, there);
        }
        copies_end();
    };
    // What has arrived as integers; nothing where there is nothing.
    auto unpack = [&](u32 to, u32 tile) {
        if constexpr (PACKED) {
            const u8 *packed = staged + (at_packed - base);
#pragma unroll 1
            for (u32 i = threadIdx.x; i < KEYS * PIECES; i += THREADS_) {
                u32 key = i / PIECES, piece = i % PIECES;
                uint2 quants = *reinterpret_cast<const uint2 *>(packed + i * 8);
                half scale = reinterpret_cast<const half *>(packed + KEYS * D)[key * SCALES + piece * 8 / BLOCK];
                uint4 values = make_uint4(0, 0, 0, 0);
                if (tile * KEYS + key <= last_position)
                    values = make_uint4(dequantized<T>(quants.x, 0, scale), dequantized<T>(quants.x, 1, scale), dequantized<T>(quants.y, 0, scale), dequantized<T>(quants.y, 1, scale));
                *reinterpret_cast<uint4 *>(staged + (to - base) + key * PITCH + piece * 16) = values;
            }
            __syncthreads();
        }
    };
    for (u32 i = threadIdx.x; i < ROWS * PIECES; i += THREADS_) {
        u32 row = min(first + i / PIECES, all - 1), piece = i % PIECES;
        copy_16(base + i / PIECES * PITCH + piece * 16, at<const T>(a.q) + (u64)(row / group) * a.stride + (kv_head * group + row % group) * D + piece * 8);
    }
    // Where the window of a position begins.
    auto window_of = [&](u32 position) { return a.window && position >= a.window ? position + 1 - a.window : 0; };
    u32 first_tile = window_of(position + first / group) / KEYS;
    load(at_k, c.k, first_tile);
    // Of rows g and g + 8 of each tile.
    float greatest[M][2], sum[M][2];
    float out[M][D / 8][4] = {};
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int e = 0; e < 2; ++e) greatest[m][e] = -INFINITY, sum[m][e] = 0.0f;
    // Tiles of which every row of the warp sees all.
    u32 seen_whole = (position + min(first + warp * M * 16, all - 1) / group + 1) / KEYS;
    // Tiles before this one lie outside the window of some row of the warp, in part or whole.
    u32 all_inside = (window_of(position + min(first + (warp + 1) * M * 16 - 1, all - 1) / group) + KEYS - 1) / KEYS;
    float scale = a.softcap != 0.0f ? LOG2_E : a.scale * LOG2_E;
    u32 q_from = base + (warp * M * 16 + lane % 16) * PITCH + lane / 16 * 16;
    u32 k_from = at_k + (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 16;
    u32 v_from = at_v + lane % 16 * PITCH + lane / 16 * 16;
    for (u32 tile = first_tile; tile < tiles; ++tile) {
        copies_wait<0>();
        __syncthreads();
        unpack(at_k, tile);
        load(at_v, c.v, tile);
        float scores[M][KEYS / 8][4] = {};
// Keys are loaded once for all: what a scheduler would load ahead does not fit.
#pragma unroll 1
        for (u32 d = 0; d < D / 16; ++d) {
            u32 q[M][4];
#pragma unroll
            for (int m = 0; m < M; ++m) matrices(q[m], q_from + m * 16 * PITCH + d * 32);
#pragma unroll
            for (u32 n = 0; n < KEYS / 16; ++n) {
                u32 k[4];
                matrices(k, k_from + n * 16 * PITCH + d * 32);
#pragma unroll
                for (int m = 0; m < M; ++m) {
                    Mma<T>::run(scores[m][2 * n], q[m], k[0], k[1]);
                    Mma<T>::run(scores[m][2 * n + 1], q[m], k[2], k[3]);
                }
            }
        }
        copies_wait<0>();
        __syncthreads();
        unpack(at_v, tile);
        if (tile + 1 < tiles) load(at_k, c.k, tile + 1);
        if (a.softcap != 0.0f) {
            float within = a.scale / a.softcap;
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (u32 n = 0; n < KEYS / 8; ++n)
#pragma unroll
                    for (int i = 0; i < 4; ++i) scores[m][n][i] = a.softcap * squashed(scores[m][n][i] * within);
        }
        if (tile >= seen_whole || tile < all_inside) {
            u32 thread = thread_in_block(), warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    u32 seen = at<const Row>(a.cache.places.rows)->position + min(first + (warp * M + m) * 16 + g + 8 * e, all - 1) / group;
#pragma unroll
                    for (u32 n = 0; n < KEYS / 8; ++n)
#pragma unroll
                        for (int i = 0; i < 2; ++i)
                        {
                            u32 key = tile * KEYS + n * 8 + 2 * t + i;
                            if (key > seen || (a.window && key + a.window <= seen)) scores[m][n][2 * e + i] = -INFINITY;
                        }
                }
        }
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float most = greatest[m][e];
#pragma unroll
                for (u32 n = 0; n < KEYS / 8; ++n) most = fmaxf(most, fmaxf(scores[m][n][2 * e], scores[m][n][2 * e + 1]));
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
                // Nothing of a tile may be inside the window.
                float reference = most == -INFINITY ? 0.0f : most;
                float before = power_of_two((greatest[m][e] - reference) * scale), less = reference * scale, added = 0.0f;
                greatest[m][e] = most;
#pragma unroll
                for (u32 n = 0; n < KEYS / 8; ++n) {
                    // In place: a pair of weights, and a pair of what it has lost.
                    float(&pair)[4] = scores[m][n];
                    float low = power_of_two(fmaf(pair[2 * e], scale, -less)), high = power_of_two(fmaf(pair[2 * e + 1], scale, -less));
                    added += low + high;
                    u32 packed = Mma<T>::pack(low, high);
                    pair[2 * e] = __uint_as_float(packed), pair[2 * e + 1] = __uint_as_float(Mma<T>::rest(low, high, packed));
                }
                sum[m][e] = fmaf(sum[m][e], before, added);
#pragma unroll
                for (u32 d = 0; d < D / 8; ++d) out[m][d][2 * e] *= before, out[m][d][2 * e + 1] *= before;
            }
#pragma unroll
        for (u32 n = 0; n < KEYS / 16; ++n) {
            auto weights = [&](int m, int lost, u32(&to)[4]) {
#pragma unroll
                for (int i = 0; i < 4; ++i) to[i] = __float_as_uint(scores[m][2 * n + i / 2][2 * (i % 2) + lost]);
            };
#pragma unroll
            for (u32 d = 0; d < D / 16; ++d) {
                u32 v[4];
                matrices_turned(v, v_from + n * 16 * PITCH + d * 32);
#pragma unroll
                for (int m = 0; m < M; ++m)
#pragma unroll
                    for (int lost = 0; lost < 2; ++lost) {
                        u32 p[4];
                        weights(m, lost, p);
                        Mma<T>::run(out[m][2 * d], p, v[0], v[1]);
                        Mma<T>::run(out[m][2 * d + 1], p, v[2], v[3]);
                    }
            }
        }
    }
    u32 thread = thread_in_block(), g = thread % 32 / 4, t = thread % 4;
    warp = thread / 32;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            float total = sum[m][e];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            u32 row = first + (warp * M + m) * 16 + g + 8 * e;
            if (row >= all) continue;
            if (a.sinks) total += power_of_two(at<const float>(a.sinks)[kv_head * group + row % group] * LOG2_E - greatest[m][e] * scale);
            T *to = at<T>(a.out) + (u64)(row / group) * a.stride + (kv_head * group + row % group) * D + 2 * t;
            float share = 1.0f / total;
#pragma unroll
            for (u32 d = 0; d < D / 8; ++d) *reinterpret_cast<u32 *>(to + d * 8) = Mma<T>::pack(out[m][d][2 * e] * share, out[m][d][2 * e + 1] * share);
        }
}

#define KERNEL(T, NAME, C, D, M, KEYS) \
    extern "C" __global__ void __launch_bounds__(32 * ATTEND_WARPS) prompt_attend_##NAME##_##D(const __grid_constant__ AttendArgs a) { prompt_attend<T, C, D, M, KEYS>(a); }
#define KERNELS(T, NAME, C) \
    KERNEL(T, NAME, C, 64, 2, 64) KERNEL(T, NAME, C, 80, 2, 64) KERNEL(T, NAME, C, 96, 2, 64) KERNEL(T, NAME, C, 128, 2, 64) KERNEL(T, NAME, C, 256, 1, 32)
KERNELS(half, f16, half)
KERNELS(__nv_bfloat16, bf16, __nv_bfloat16)
KERNELS(half, q8_f16, Q8)
KERNELS(__nv_bfloat16, q8_bf16, Q8)
