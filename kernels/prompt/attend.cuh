// Attention of a prompt's rows on the tensor cores, in the tiles of FlashAttention-2 (Dao 2023, arXiv 2307.08691). A
// block takes query rows of one KV head, counted over tokens and the heads that share it. Keys come in tiles of KEYS at
// absolute positions, in order: a row's bits depend only on its own position. The softmax's weights are multiplied
// twice, rounded to the activations' type and as their rounding errors. A cache of integers becomes values of that type
// when a tile arrives.
//
// Positions come in splits. Each split is summed by itself, and a row's splits are merged in order. Each split has a
// block, and the last block to end merges; if there are more splits than blocks, one block takes all of them. Both give
// the same bits. The first positions come in short splits, which serve a few rows behind a conversation of usual
// length. Later ones come in long splits, because a merge takes time, too. Outputs of 512 columns do not fit the
// registers: two blocks share them, both compute the scores, and no splits are made.
#pragma once
#include "prompt/copy.cuh"
#include "attention.cuh"

#define ATTEND_WARPS 4
// Positions of a split below LONG_SPLIT, and from there on. src/cuda/prompt_attend.rs has the same values.
#define SHORT_SPLIT 512
#define LONG_SPLIT 4096

// Splits, in tiles of KEYS keys.
template <u32 KEYS> struct Splits {
    static constexpr u32 SHORT = SHORT_SPLIT / KEYS, LONG = LONG_SPLIT / KEYS, SHORTS = LONG / SHORT;
    static __device__ __forceinline__ u32 of(u32 tile) { return tile < LONG ? tile / SHORT : SHORTS - 1 + tile / LONG; }
    static __device__ __forceinline__ u32 begin(u32 split) {
        return split < SHORTS ? split * SHORT : (split - (SHORTS - 1)) * LONG;
    }
    static __device__ __forceinline__ bool begins(u32 tile) { return tile % (tile < LONG ? SHORT : LONG) == 0; }
};

__device__ __forceinline__ void matrices_turned(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
}

// Read where it is needed instead of kept in a register.
__device__ __forceinline__ u32 thread_in_block() {
    u32 thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

__device__ __forceinline__ u32 block_along_heads() {
    u32 block;
    asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(block));
    return block;
}

// What a block of wide heads with splits reads again where it needs it, because no register is left.
struct Aside {
    u32 first, tiles, seen_whole[ATTEND_WARPS], all_inside[ATTEND_WARPS];
};

// tanh for small numbers: no error exceeds 2^-22.
__device__ __forceinline__ float squashed(float x) { return 1.0f - 2.0f / (power_of_two(2.0f * LOG2_E * x) + 1.0f); }

struct Yes {
    __device__ constexpr operator bool() const { return true; }
};
struct No {
    __device__ constexpr operator bool() const { return false; }
};

// The type of the cache's keys or values, and how many columns of them a block reads.
template <typename C, u32 COLUMNS_> struct Columns {
    typedef C Type;
    static constexpr u32 COLUMNS = COLUMNS_;
};

// The last position that a prompt's row sees: its own, or the last one of its image. No row sees less than the row
// before it.
__device__ __forceinline__ u32 last_seen(const AttendArgs &a, u32 position, u32 row) {
    const u32 own = position + row;
    return a.shown ? max(own + 1, at<const Shown>(a.shown)[row].length) - 1 : own;
}

// M: tiles of 16 query rows in a warp. KEYS: keys in a tile. AHEAD: the next tile's keys and values are requested while
// the current ones are multiplied, which doubles their shared memory. D: columns of a head, of which a block outputs W.
template <typename T, typename K, typename V, int D, int M, u32 KEYS, bool AHEAD, int W = D>
__device__ __forceinline__ void prompt_attend(const AttendArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    constexpr u32 PITCH = 2 * D + 16, V_PITCH = 2 * W + 16, PIECES = D / 8, ROWS = 16 * M * ATTEND_WARPS,
                  THREADS_ = 32 * ATTEND_WARPS;
    constexpr bool PACKED_K = sizeof(K) == 1, PACKED_V = sizeof(V) == 1;
    constexpr u32 BLOCK = D % 32 ? 16 : 32, SCALES = D / BLOCK;
    // Places for keys and for values, as they are multiplied and as they arrive.
    constexpr u32 PLACES_K = AHEAD && !PACKED_K ? 2 : 1, PLACES_V = AHEAD && !PACKED_V ? 2 : 1, SIDE = KEYS * PITCH;
    static_assert(W == D || (D > 128 && !AHEAD && W % 256 == 0),
                  "blocks share a head without splits and without requests ahead");
    // Offset of arriving packed values behind packed keys, where both are in flight.
    constexpr u32 ARRIVING = AHEAD && PACKED_K ? KEYS * (D + 2 * SCALES) : 0;
    // Without unrolling, a warp that is alone on its scheduler waits for its requests one by one.
    constexpr u32 UNROLLED = AHEAD ? 8 : 1;
    const Cache &c = a.cache;
    const Row *prompt = at<const Row>(c.places.rows);
    u32 group = c.heads / c.kv_heads, kv_head = blockIdx.y, tokens = prompt->count;
    // The last tokens see the most keys, so their blocks start first.
    u32 first = (gridDim.x - 1 - blockIdx.x) * ROWS, all = tokens * group;
    if (first >= all) return;
    u32 position = prompt->position, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 last_position = last_seen(a, position, (min(first + ROWS, all) - 1) / group), tiles = last_position / KEYS + 1;
    u32 base = in_shared(staged), at_k = base + ROWS * PITCH, at_v = at_k + PLACES_K * SIDE,
        at_packed = at_v + PLACES_V * KEYS * V_PITCH;
    const u64 *table = table_of(c, prompt->slot);
    constexpr bool SPLITS = W == D, ASIDE = SPLITS && D > 128;
    __shared__ volatile Aside aside;
    // In shared memory, because no registers are left.
    __shared__ u32 last_of_all, first_split, splits;
    if (SPLITS && threadIdx.x == 0) last_of_all = last_position;
    if (SPLITS) __syncthreads();
    auto is_there = [&](u32 key) { return key <= (SPLITS ? last_of_all : last_position); };
    // Requests a tile's keys, or the block's columns of its values. The keys of a tile are in one page.
    auto load = [&](auto side_of, u32 to, u64 side, u32 tile, u32 arriving) {
        typedef decltype(side_of) Side;
        typedef typename Side::Type C;
        constexpr u32 COLUMNS = Side::COLUMNS, PIECES = COLUMNS / 8;
        const u32 of_head = ASIDE ? block_along_heads() : kv_head;
        u64 page = (ASIDE ? table_of(c, at<const Row>(c.places.rows)->slot) : table)[tile * KEYS / PAGE];
        const C *from = in_page<C>(page, side, c, of_head, tile * KEYS);
        if constexpr (COLUMNS < D) from += blockIdx.z * COLUMNS;
        if constexpr (sizeof(C) == 1) {
            const half *scales = scales_in_page(page, side, c, of_head, tile * KEYS);
            if constexpr (COLUMNS < D) {
                constexpr u32 OF_KEY = COLUMNS / 16, SCALES_OF_KEY = COLUMNS / BLOCK / 8;
                scales += blockIdx.z * (COLUMNS / BLOCK);
                for (u32 i = threadIdx.x; i < KEYS * OF_KEY; i += THREADS_)
                    copy_16(at_packed + i * 16, from + i / OF_KEY * D + i % OF_KEY * 16);
                for (u32 i = threadIdx.x; i < KEYS * SCALES_OF_KEY; i += THREADS_)
                    copy_16(at_packed + KEYS * COLUMNS + i * 16,
                            scales + i / SCALES_OF_KEY * SCALES + i % SCALES_OF_KEY * 8);
            } else {
                for (u32 i = threadIdx.x; i < KEYS * D / 16; i += THREADS_)
                    copy_16(at_packed + arriving + i * 16, from + i * 16);
                for (u32 i = threadIdx.x; i < KEYS * SCALES / 8; i += THREADS_)
                    copy_16(at_packed + arriving + KEYS * D + i * 16, scales + i * 8);
            }
            copies_end();
            return;
        }
#pragma unroll UNROLLED
        for (u32 i = threadIdx.x; i < KEYS * PIECES; i += THREADS_) {
            u32 key = i / PIECES, piece = i % PIECES;
            bool there = is_there(tile * KEYS + key);
            copy_16_or_zero(to + key * (2 * COLUMNS + 16) + piece * 16, from + (there ? key : 0) * D + piece * 8,
                            there);
        }
        copies_end();
    };
    // Converts arrived integers to values; does nothing in a cache of values.
    auto unpack = [&](auto side_of, u32 to, u32 tile, u32 arriving) {
        typedef decltype(side_of) Side;
        if constexpr (sizeof(typename Side::Type) == 1) {
            constexpr u32 COLUMNS = Side::COLUMNS, PIECES = COLUMNS / 8, PITCH = 2 * COLUMNS + 16,
                          SCALES = COLUMNS / BLOCK;
            const u8 *packed = staged + (at_packed + arriving - base);
#pragma unroll 1
            for (u32 i = threadIdx.x; i < KEYS * PIECES; i += THREADS_) {
                u32 key = i / PIECES, piece = i % PIECES;
                uint2 quants = *reinterpret_cast<const uint2 *>(packed + i * 8);
                half scale = reinterpret_cast<const half *>(packed + KEYS * COLUMNS)[key * SCALES + piece * 8 / BLOCK];
                uint4 values = make_uint4(0, 0, 0, 0);
                if (is_there(tile * KEYS + key))
                    values = make_uint4(dequantized<T>(quants.x, 0, scale), dequantized<T>(quants.x, 1, scale),
                                        dequantized<T>(quants.y, 0, scale), dequantized<T>(quants.y, 1, scale));
                *reinterpret_cast<uint4 *>(staged + (to - base) + key * PITCH + piece * 16) = values;
            }
            __syncthreads();
        }
    };
    for (u32 i = threadIdx.x; i < ROWS * PIECES; i += THREADS_) {
        u32 row = min(first + i / PIECES, all - 1), piece = i % PIECES;
        copy_16(base + i / PIECES * PITCH + piece * 16,
                at<const T>(a.q) + (u64)(row / group) * a.stride + (kv_head * group + row % group) * D + piece * 8);
    }
    // First position of the window of `position`.
    auto window_of = [&](u32 position) { return a.window && position >= a.window ? position + 1 - a.window : 0; };
    u32 first_tile = window_of(position + first / group) / KEYS;
    typedef Splits<KEYS> InSplits;
    if constexpr (SPLITS) {
        u32 begins = InSplits::of(first_tile), count = InSplits::of(tiles - 1) + 1 - begins, mine = begins + blockIdx.z;
        if (blockIdx.z >= (count <= gridDim.z ? count : 1)) return;
        if (count <= gridDim.z)
            first_tile = max(first_tile, InSplits::begin(mine)), tiles = min(tiles, InSplits::begin(mine + 1));
        if (threadIdx.x == 0) first_split = begins, splits = count;
    }
    typedef Columns<K, D> Keys;
    typedef Columns<V, W> Values;
    load(Keys(), at_k, c.k, first_tile, 0);
    if (AHEAD) load(Values(), at_v, c.v, first_tile, ARRIVING);
    // For rows g and g + 8 of each tile, in this split: the greatest score, this lane's part of the sum of weights, and
    // the weighted sum of values.
    float greatest[M][2], sum[M][2], out[M][W / 8][4];
    auto begin = [&] {
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
            for (int e = 0; e < 2; ++e) greatest[m][e] = -INFINITY, sum[m][e] = 0.0f;
#pragma unroll
            for (u32 d = 0; d < W / 8; ++d)
#pragma unroll
                for (int i = 0; i < 4; ++i) out[m][d][i] = 0.0f;
        }
    };
    begin();
    // Tiles that every row of the warp sees entirely.
    u32 seen_whole = (last_seen(a, position, min(first + warp * M * 16, all - 1) / group) + 1) / KEYS;
    // Earlier tiles are partly or entirely outside the window of some row of the warp.
    u32 all_inside = (window_of(position + min(first + (warp + 1) * M * 16 - 1, all - 1) / group) + KEYS - 1) / KEYS;
    if (ASIDE) {
        aside.first = first, aside.tiles = tiles;
        aside.seen_whole[warp] = seen_whole, aside.all_inside[warp] = all_inside;
        __syncthreads();
    }
    auto end = [&] { return ASIDE ? aside.tiles : tiles; };
    auto is_partly_seen = [&](u32 tile) {
        const u32 warp = thread_in_block() / 32;
        return tile >= (ASIDE ? aside.seen_whole[warp] : seen_whole) ||
               tile < (ASIDE ? aside.all_inside[warp] : all_inside);
    };
    float scale = a.softcap != 0.0f ? LOG2_E : a.scale * LOG2_E;
    // Where a thread stores its part of a split.
    auto left = [&](u32 split) {
        u64 block = ((u64)split * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        return at<float4>(a.partials) + block * (M * (W / 8 + 1) * THREADS_) + thread_in_block();
    };
    auto leave = [&](float4 *to) {
#pragma unroll
        for (int m = 0; m < M; ++m) {
            to[m * THREADS_] = make_float4(greatest[m][0], greatest[m][1], sum[m][0], sum[m][1]);
#pragma unroll
            for (u32 d = 0; d < W / 8; ++d)
                to[(M + m * (W / 8) + d) * THREADS_] =
                    make_float4(out[m][d][0], out[m][d][1], out[m][d][2], out[m][d][3]);
        }
    };
    // Merges with a stored part, whose splits are all earlier or all later.
    auto merge = [&](const float4 *from, auto earlier) {
#pragma unroll
        for (int m = 0; m < M; ++m) {
            float4 there = __ldcg(from + m * THREADS_);
            float weights[2][2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float greatest_there = e ? there.y : there.x, sum_there = e ? there.w : there.z;
                float most = fmaxf(greatest[m][e], greatest_there), reference = most == -INFINITY ? 0.0f : most;
                float here = power_of_two((greatest[m][e] - reference) * scale),
                      other = power_of_two((greatest_there - reference) * scale);
                weights[e][0] = here, weights[e][1] = other;
                sum[m][e] =
                    earlier ? fmaf(sum_there, other, sum[m][e] * here) : fmaf(sum[m][e], here, sum_there * other);
                greatest[m][e] = most;
            }
#pragma unroll
            for (u32 d = 0; d < W / 8; ++d) {
                float4 four = __ldcg(from + (M + m * (W / 8) + d) * THREADS_);
                float others[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    float here = weights[i / 2][0], other = weights[i / 2][1];
                    out[m][d][i] = earlier ? fmaf(others[i], other, out[m][d][i] * here)
                                           : fmaf(out[m][d][i], here, others[i] * other);
                }
            }
        }
    };
    u32 q_from = base + (warp * M * 16 + lane % 16) * PITCH + lane / 16 * 16;
    u32 k_from = at_k + (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 16;
    u32 v_from = at_v + lane % 16 * V_PITCH + lane / 16 * 16;
    for (u32 tile = first_tile; tile < end(); ++tile) {
        const u32 place = AHEAD ? (tile - first_tile) % 2 * SIDE : 0, k_place = PLACES_K > 1 ? place : 0,
                  v_place = PLACES_V > 1 ? place : 0;
        const u32 k_next = PLACES_K > 1 ? SIDE - place : 0, v_next = PLACES_V > 1 ? SIDE - place : 0;
        copies_wait<AHEAD ? 1 : 0>();
        __syncthreads();
        unpack(Keys(), at_k, tile, 0);
        if (!AHEAD) load(Values(), at_v, c.v, tile, 0);
        else if (tile + 1 < end()) load(Keys(), at_k + k_next, c.k, tile + 1, 0);
        else copies_end();
        float scores[M][KEYS / 8][4] = {};
// Keys are loaded once for all rows. With two tiles a warp, further loads ahead do not fit the registers.
#pragma unroll UNROLLED
        for (u32 d = 0; d < D / 16; ++d) {
            u32 q[M][4];
#pragma unroll
            for (int m = 0; m < M; ++m) matrices(q[m], q_from + m * 16 * PITCH + d * 32);
#pragma unroll
            for (u32 n = 0; n < KEYS / 16; ++n) {
                u32 k[4];
                matrices(k, k_from + k_place + n * 16 * PITCH + d * 32);
#pragma unroll
                for (int m = 0; m < M; ++m) {
                    Mma<T>::run(scores[m][2 * n], q[m], k[0], k[1]);
                    Mma<T>::run(scores[m][2 * n + 1], q[m], k[2], k[3]);
                }
            }
        }
        copies_wait<AHEAD ? 1 : 0>();
        __syncthreads();
        unpack(Values(), at_v, tile, ARRIVING);
        if (tile + 1 < end())
            AHEAD ? load(Values(), at_v + v_next, c.v, tile + 1, ARRIVING) : load(Keys(), at_k, c.k, tile + 1, 0);
        else if (AHEAD) copies_end();
        if (a.softcap != 0.0f) {
            float within = a.scale / a.softcap;
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (u32 n = 0; n < KEYS / 8; ++n)
#pragma unroll
                    for (int i = 0; i < 4; ++i) scores[m][n][i] = a.softcap * squashed(scores[m][n][i] * within);
        }
        if (is_partly_seen(tile)) {
            u32 thread = thread_in_block(), warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    u32 token = min(first + (warp * M + m) * 16 + g + 8 * e, all - 1) / group,
                        position = at<const Row>(a.cache.places.rows)->position, own = position + token,
                        seen = last_seen(a, position, token);
#pragma unroll
                    for (u32 n = 0; n < KEYS / 8; ++n)
#pragma unroll
                        for (int i = 0; i < 2; ++i) {
                            u32 key = tile * KEYS + n * 8 + 2 * t + i;
                            if (key > seen || (a.window && key + a.window <= own)) scores[m][n][2 * e + i] = -INFINITY;
                        }
                }
        }
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float most = greatest[m][e];
#pragma unroll
                for (u32 n = 0; n < KEYS / 8; ++n)
                    most = fmaxf(most, fmaxf(scores[m][n][2 * e], scores[m][n][2 * e + 1]));
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
                // The window may exclude a whole tile.
                float reference = most == -INFINITY ? 0.0f : most;
                float before = power_of_two((greatest[m][e] - reference) * scale), less = reference * scale,
                      added = 0.0f;
                greatest[m][e] = most;
#pragma unroll
                for (u32 n = 0; n < KEYS / 8; ++n) {
                    // In place: a pair of rounded weights, and the pair of their rounding errors.
                    float (&pair)[4] = scores[m][n];
                    float low = power_of_two(fmaf(pair[2 * e], scale, -less)),
                          high = power_of_two(fmaf(pair[2 * e + 1], scale, -less));
                    added += low + high;
                    u32 packed = Mma<T>::pack(low, high);
                    pair[2 * e] = __uint_as_float(packed),
                             pair[2 * e + 1] = __uint_as_float(Mma<T>::rest(low, high, packed));
                }
                sum[m][e] = fmaf(sum[m][e], before, added);
#pragma unroll
                for (u32 d = 0; d < W / 8; ++d) out[m][d][2 * e] *= before, out[m][d][2 * e + 1] *= before;
            }
#pragma unroll
        for (u32 n = 0; n < KEYS / 16; ++n) {
            auto weights = [&](int m, int lost, u32(&to)[4]) {
#pragma unroll
                for (int i = 0; i < 4; ++i) to[i] = __float_as_uint(scores[m][2 * n + i / 2][2 * (i % 2) + lost]);
            };
#pragma unroll
            for (u32 d = 0; d < W / 16; ++d) {
                u32 v[4];
                matrices_turned(v, v_from + v_place + n * 16 * V_PITCH + d * 32);
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
        if constexpr (!SPLITS) continue;
        if (InSplits::begins(tile + 1) && tile + 1 < end()) {
            if (InSplits::of(tile) > first_split) merge(left(0), Yes());
            leave(left(0));
            begin();
        }
    }
    if constexpr (SPLITS) {
        if (splits > gridDim.z) merge(left(0), Yes());
        else if (splits > 1) {
            leave(left(blockIdx.z));
            if (!arrives_last(a.arrivals + 4 * (blockIdx.y * gridDim.x + blockIdx.x), 1, splits)) return;
            begin();
#pragma unroll 1
            for (u32 split = 0; split < splits; ++split) merge(left(split), No());
        }
    }
    u32 thread = thread_in_block(), g = thread % 32 / 4, t = thread % 4;
    warp = thread / 32;
    if (ASIDE) {
        first = aside.first, kv_head = block_along_heads(), group = c.heads / c.kv_heads;
        all = at<const Row>(c.places.rows)->count * group;
    }
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            float total = sum[m][e];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            u32 row = first + (warp * M + m) * 16 + g + 8 * e;
            if (row >= all) continue;
            if (a.sinks)
                total += power_of_two(at<const float>(a.sinks)[kv_head * group + row % group] * LOG2_E -
                                      greatest[m][e] * scale);
            T *to = at<T>(a.out) + (u64)(row / group) * a.stride + (kv_head * group + row % group) * D + 2 * t;
            if constexpr (W < D) to += blockIdx.z * W;
            float share = 1.0f / total;
#pragma unroll
            for (u32 d = 0; d < W / 8; ++d)
                *reinterpret_cast<u32 *>(to + d * 8) =
                    Mma<T>::pack(out[m][d][2 * e] * share, out[m][d][2 * e + 1] * share);
        }
}
