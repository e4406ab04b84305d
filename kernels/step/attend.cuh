// Attention of a step's rows over the cache by lanes, for types and heads that the tensor cores do not multiply (see
// attend_tiles.cuh). Each row attends to its own conversation. A row's positions are split. A block serves up to GROUP
// query heads that share a KV head, in every gridDim.x-th split. Where splits begin depends on the row's position
// alone, and parts are merged in one order. So neither the grid, nor the places of pages, nor other rows change a row's
// bits.
//
// A step's q, k and v are the plain outputs of their product. Each block rotates what it needs of them while the first
// part of the cache is in flight. The block that serves the row's own position stores its k and v. Positions that other
// rows of the same conversation store in this step are not visible yet: each block computes them from k and v, rounded
// through the cache's type.
//
// A prompt with types that the tensor cores do not multiply comes here, too, rotated and stored, in one split.
#pragma once
#include "step/splits.cuh"

#define GROUP 4

// What a lane loads of the cache at once: adjacent elements, and their scale if they have one.
template <typename C> struct Piece {
    static constexpr u32 N = 16 / sizeof(C);
    uint4 bits;

    __device__ __forceinline__ Piece() : bits(make_uint4(0, 0, 0, 0)) {}
    __device__ __forceinline__ Piece(const C *side, u32 element, u32, u32)
        : bits(*reinterpret_cast<const uint4 *>(side + element)) {}
    template <typename T> __device__ __forceinline__ void widened(float (&to)[N]) const {
        const C *each = reinterpret_cast<const C *>(&bits);
#pragma unroll
        for (u32 n = 0; n < N; ++n) to[n] = widen(each[n]);
    }
};
template <> struct Piece<Q8> {
    static constexpr u32 N = 8;
    uint2 bits;
    half scale;

    __device__ __forceinline__ Piece() : bits(make_uint2(0, 0)), scale(__ushort_as_half(0)) {}
    // From `element` of K or V, of which 2^shift share a scale. Scales begin `scales` bytes behind the first element.
    __device__ __forceinline__ Piece(const Q8 *side, u32 element, u32 scales, u32 shift)
        : bits(*reinterpret_cast<const uint2 *>(side + element)),
          scale(reinterpret_cast<const half *>(side + scales)[element >> shift]) {}
    template <typename T> __device__ __forceinline__ void widened(float (&to)[N]) const {
#pragma unroll
        for (u32 n = 0; n < N; n += 2) {
            u32 pair = dequantized<T>(n < 4 ? bits.x : bits.y, n / 2 % 2, scale);
            const T *each = reinterpret_cast<const T *>(&pair);
            to[n] = widen(each[0]), to[n + 1] = widen(each[1]);
        }
    }
};

// A KV head as pieces over LANES lanes, PIECES each. LANES lanes take a position, and a warp takes several positions.
template <typename C, int LANES, int PIECES> struct Shape {
    // Elements of a piece.
    static constexpr u32 N = Piece<C>::N;
    // Positions that a lane has in flight, that a warp reads at once, that a warp has in flight, and that a block has
    // in flight.
    static constexpr u32 LOADS = 4 / PIECES, SIDE = 32 / LANES, EACH = LOADS * SIDE, CHUNK = WARPS * EACH;
};

// N elements in shared memory, read wherever they are needed: the registers are for the cache.
template <typename T> __device__ __forceinline__ void widened_pairs(u32 from, float (&to)[8]) {
    uint4 bits;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "r"(from));
    const T *each = reinterpret_cast<const T *>(&bits);
#pragma unroll
    for (int n = 0; n < 8; ++n) to[n] = widen(each[n]);
}
template <typename T> __device__ __forceinline__ void widened_pairs(u32 from, float (&to)[4]) {
    uint2 bits;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(bits.x), "=r"(bits.y) : "r"(from));
    const T *each = reinterpret_cast<const T *>(&bits);
#pragma unroll
    for (int n = 0; n < 4; ++n) to[n] = widen(each[n]);
}

// K, V: the types of the cache's keys and values; pieces of both have equally many elements.
template <typename T, typename K, typename V, int LANES, int PIECES>
__device__ __forceinline__ void attend(const AttendArgs &a) {
    typedef Shape<K, LANES, PIECES> S;
    static_assert(Piece<K>::N == Piece<V>::N);
    constexpr u32 N = S::N, LOADS = S::LOADS;
    LaunchTurn launch_turn(a.stamp, LATER);
    extern __shared__ __align__(16) float memory[];
    __shared__ float2 best[WARPS][GROUP];
    const Cache &c = a.cache;
    u32 row = blockIdx.z, head_dim = c.head_dim, group = a.group, subgroups = (group + GROUP - 1) / GROUP;
    u32 kv_head = blockIdx.y / subgroups, begun = blockIdx.y % subgroups * GROUP,
        heads = min(group - begun, (u32)GROUP);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, piece = lane % LANES, side = lane / LANES;
    const Row *rows = at<const Row>(c.places.rows);
    bool raw = a.k != 0, takes_q = warp < heads, takes_kv = warp == GROUP || warp == GROUP + 1;
    // The cache is complete since the previous step if this kernel stores this step's k and v.
    if (!raw) launch_turn.our_turn();
    u32 head = kv_head * group + begun + warp, kv_columns = c.kv_heads * head_dim;
    Row mine = row_now(rows + (c.places.step ? row : 0));
    if (c.places.step ? mine.slot == NO_SLOT : row >= mine.count) return;
    u32 position = mine.position + (c.places.step ? 0 : row);
    u32 seen_from = a.window && position >= a.window ? position + 1 - a.window : 0;
    // A row of an image sees all positions of the image, as its last row does.
    if (a.shown) position = max(position + 1, at<const Shown>(a.shown)[row].length) - 1;
    u32 length = position + 1, split = S::CHUNK;
    // Added to a position, the one that it turns by. In shared memory, because no registers are left.
    __shared__ volatile u32 offsets[WARPS];
    if (lane == 0) offsets[warp] = mine.turned - mine.position;
    __syncwarp();
    while (split * a.splits < length) split *= 2;
    u32 first_split = seen_from / split;
    u32 end_split = (length + split - 1) / split, splits = end_split - first_split;
    if (first_split + blockIdx.x >= end_split) return;
    // In its first split, a window skips the chunks before its own first one.
    u32 first_chunk = seen_from / S::CHUNK * S::CHUNK;
    u32 begin = max((first_split + blockIdx.x) * split, first_chunk),
        end = min(length, (first_split + blockIdx.x + 1) * split);
    // Positions from here on belong to this step; their k and v are in `fresh`.
    u32 fresh_from = raw ? position - (row - mine.first) : length;
    const u64 *table = table_of(c, mine.slot);
    u32 shift = block_of(head_dim) == 32 ? 5 : 4;
    Piece<K> k[LOADS][PIECES];
    Piece<V> v[LOADS][PIECES];
    auto there = [&](u32 p, int j) { return (piece + j * LANES) * N < head_dim && p < end; };
    auto load = [&](auto side_of, auto &to, u64 layer, u32 chunk) {
        typedef typename decltype(side_of)::Type C;
        // The positions of a warp are in one page.
        u32 first = chunk + warp * S::EACH;
        const C *all = at<const C>((first < end ? __ldcg(table + first / PAGE) : 0) + layer);
        u32 begins = (kv_head * PAGE + first % PAGE) * head_dim;
#pragma unroll
        for (u32 i = 0; i < LOADS; ++i)
#pragma unroll
            for (int j = 0; j < PIECES; ++j) {
                u32 within = i * S::SIDE + side, p = first + within;
                to[i][j] = Piece<C>();
                if (there(p, j) && p < fresh_from)
                    to[i][j] = Piece<C>(all, begins + within * head_dim + (piece + j * LANES) * N,
                                        c.kv_heads * PAGE * head_dim, shift);
            }
    };
    load(SideOf<K>(), k, c.k, begin);
    load(SideOf<V>(), v, c.v, begin);
    if (raw) launch_turn.our_turn();
    // What the warp rotates: a query, or the row's own k or v.
    const float *own = at<const float>(takes_q ? a.q : warp == GROUP ? a.k : a.v);
    own += takes_q ? ((u64)row * c.heads + head) * head_dim : (u64)row * kv_columns + kv_head * head_dim;
    Head taken(c, raw && (takes_q || takes_kv) ? own : nullptr, lane);

    // Shared memory: (GROUP, padded) queries in T; the warps' parts; (rows of the step, K and V, head_dim), and the
    // scales of blocks behind them. Keys and values of two types lie apart, each with room for four bytes an element.
    constexpr u32 padded = LANES * PIECES * N;
    T *queries = reinterpret_cast<T *>(memory);
    float *parts = memory + GROUP * padded / 2;
    float *fresh = parts + WARPS * GROUP * head_dim;
    constexpr bool SAME = IsSame<K, V>::value;
    constexpr u32 SIDES = SAME ? 2 : 1;
    bool stores = begun == 0 && blockIdx.x == (end_split - 1 - first_split) % gridDim.x;
    auto keep = [&](auto side_of, Head &values, u32 p, u32 is_v) {
        typedef typename decltype(side_of)::Type C;
        C *to = reinterpret_cast<C *>(!SAME && is_v ? fresh + STEP_ROWS * head_dim : fresh);
        u32 index = (p - fresh_from) * SIDES + (SAME ? is_v : 0);
        bool kept = p == position && stores;
        u64 page = kept ? table[p / PAGE] : 0, layer = is_v ? c.v : c.k;
        if constexpr (sizeof(C) == 1) {
            __shared__ __align__(8) float plain[WARPS - GROUP][MOST_HEAD_DIM];
            float *mine = plain[warp - GROUP];
            __syncwarp();
            values.template put<float>(c, mine, lane);
            __syncwarp();
            quantize(mine, head_dim, lane, to + index * head_dim,
                     reinterpret_cast<half *>(to + SIDES * STEP_ROWS * head_dim) + (index * head_dim >> shift));
            if (kept)
                quantize(mine, head_dim, lane, in_page<C>(page, layer, c, kv_head, p),
                         scales_in_page(page, layer, c, kv_head, p));
        } else {
            values.template put<C>(c, to + index * head_dim, lane);
            if (kept) values.template put<C>(c, in_page<C>(page, layer, c, kv_head, p), lane);
        }
    };
    auto store = [&](Head &values, u32 p, u32 is_v) {
        if (!is_v) {
            if (a.k_norm) values.normalize(c, NormWeights(c, at<const float>(a.k_norm), lane), a.epsilon, lane);
            values.rotate(c, Angles(c, a.angles, p + offsets[warp], lane), lane);
        }
        if constexpr (SAME) keep(SideOf<K>(), values, p, is_v);
        else if (is_v) keep(SideOf<V>(), values, p, is_v);
        else keep(SideOf<K>(), values, p, is_v);
    };
    if (warp < GROUP) {
        T *to = queries + warp * padded;
        for (u32 i = (takes_q ? head_dim : 0) + lane; i < padded; i += 32) to[i] = round_to<T>(0.0f);
        if (takes_q && raw) {
            if (a.q_norm) taken.normalize(c, NormWeights(c, at<const float>(a.q_norm), lane), a.epsilon, lane);
            taken.rotate(c, Angles(c, a.angles, position + offsets[warp], lane), lane);
            taken.scale(c, position);
            taken.put<T>(c, to, lane);
        } else if (takes_q) {
            const T *q = at<const T>(a.q) + (u64)row * a.stride + head * head_dim;
            for (u32 i = lane; i < head_dim; i += 32) to[i] = q[i];
        }
    } else if (raw) {
        if (takes_kv) store(taken, position, warp - GROUP);
        // The conversation's earlier rows of this step.
        for (u32 task = 2 * fresh_from + warp - GROUP; task < 2 * position; task += WARPS - GROUP) {
            u32 p = task / 2, is_v = task % 2;
            Head values(c,
                        at<const float>(is_v ? a.v : a.k) + (u64)(mine.first + p - fresh_from) * kv_columns +
                            kv_head * head_dim,
                        lane);
            store(values, p, is_v);
        }
    }
    __syncthreads();
    u32 query = in_shared(queries) + piece * N * sizeof(T);
    auto renew = [&](auto side_of, auto &to, u32 is_v, u32 chunk) {
        typedef typename decltype(side_of)::Type C;
        if (chunk + S::CHUNK <= fresh_from) return;
        const C *from = reinterpret_cast<const C *>(!SAME && is_v ? fresh + STEP_ROWS * head_dim : fresh);
#pragma unroll
        for (u32 i = 0; i < LOADS; ++i)
#pragma unroll
            for (int j = 0; j < PIECES; ++j) {
                u32 p = chunk + warp * S::EACH + i * S::SIDE + side,
                    index = (p - fresh_from) * SIDES + (SAME ? is_v : 0);
                if (there(p, j) && p >= fresh_from)
                    to[i][j] =
                        Piece<C>(from, index * head_dim + (piece + j * LANES) * N, SIDES * STEP_ROWS * head_dim, shift);
            }
    };
    // To base 2, except with a cap, which applies before.
    float scale = a.softcap != 0.0f ? a.scale / a.softcap : a.scale * LOG2_E;
    u32 of = row * gridDim.y + blockIdx.y, part = part_of(head_dim), done = 0;
    const float *sinks = a.sinks ? at<const float>(a.sinks) + kv_head * group + begun : nullptr;
    T *to = at<T>(a.out) + (u64)row * a.stride + (kv_head * group + begun) * head_dim;
    float *left_by_all = at<float>(a.partials) + (u64)of * MOST_SPLITS * GROUP * part;
    for (u32 s = first_split + blockIdx.x; s < end_split; s += gridDim.x, ++done) {
        if (done) {
            begin = s * split, end = min(length, begin + split);
            load(SideOf<K>(), k, c.k, begin);
            load(SideOf<V>(), v, c.v, begin);
        }
        // For each head: the greatest score of all the warp's positions; this lane's sum of weights, and weighted sum
        // of values.
        float greatest[GROUP], sum[GROUP] = {}, out[GROUP][PIECES][N] = {};
#pragma unroll
        for (int h = 0; h < GROUP; ++h) greatest[h] = LEAST;
        for (u32 chunk = begin; chunk < end; chunk += S::CHUNK) {
            float scores[LOADS][GROUP] = {};
            renew(SideOf<K>(), k, 0, chunk);
#pragma unroll
            for (u32 i = 0; i < LOADS; ++i)
#pragma unroll
                for (int j = 0; j < PIECES; ++j) {
                    float values[N];
                    k[i][j].template widened<T>(values);
#pragma unroll
                    for (int h = 0; h < GROUP; ++h) {
                        float of[N];
                        widened_pairs<T>(query + (h * padded + j * LANES * N) * sizeof(T), of);
#pragma unroll
                        for (u32 n = 0; n < N; ++n) scores[i][h] = fmaf(of[n], values[n], scores[i][h]);
                    }
                }
            load(SideOf<K>(), k, c.k, chunk + S::CHUNK);
            // All sums advance together, because each addition waits for the one before.
#pragma unroll
            for (int offset = LANES / 2; offset > 0; offset /= 2)
#pragma unroll
                for (u32 i = 0; i < LOADS; ++i)
#pragma unroll
                    for (int h = 0; h < GROUP; ++h) scores[i][h] += __shfl_xor_sync(0xffffffffu, scores[i][h], offset);
            float most[GROUP];
#pragma unroll
            for (int h = 0; h < GROUP; ++h) {
                most[h] = greatest[h];
#pragma unroll
                for (u32 i = 0; i < LOADS; ++i) {
                    u32 p = chunk + warp * S::EACH + i * S::SIDE + side;
                    scores[i][h] *= scale;
                    if (a.softcap != 0.0f) scores[i][h] = a.softcap * LOG2_E * tanhf(scores[i][h]);
                    if (p >= end || p < seen_from) scores[i][h] = -INFINITY;
                    most[h] = fmaxf(most[h], scores[i][h]);
                }
            }
#pragma unroll
            for (int offset = LANES; offset < 32; offset *= 2)
#pragma unroll
                for (int h = 0; h < GROUP; ++h) most[h] = fmaxf(most[h], __shfl_xor_sync(0xffffffffu, most[h], offset));
#pragma unroll
            for (int h = 0; h < GROUP; ++h) {
                float before = power_of_two(greatest[h] - most[h]);
                greatest[h] = most[h], sum[h] *= before;
#pragma unroll
                for (int j = 0; j < PIECES; ++j)
#pragma unroll
                    for (u32 n = 0; n < N; ++n) out[h][j][n] *= before;
#pragma unroll
                for (u32 i = 0; i < LOADS; ++i) sum[h] += scores[i][h] = power_of_two(scores[i][h] - most[h]);
            }
            renew(SideOf<V>(), v, 1, chunk);
#pragma unroll
            for (u32 i = 0; i < LOADS; ++i)
#pragma unroll
                for (int j = 0; j < PIECES; ++j) {
                    float values[N];
                    v[i][j].template widened<T>(values);
#pragma unroll
                    for (int h = 0; h < GROUP; ++h)
#pragma unroll
                        for (u32 n = 0; n < N; ++n) out[h][j][n] = fmaf(scores[i][h], values[n], out[h][j][n]);
                }
            load(SideOf<V>(), v, c.v, chunk + S::CHUNK);
        }
        __syncthreads();
        // `parts` is (WARPS, GROUP, head_dim).
#pragma unroll
        for (int offset = LANES; offset < 32; offset *= 2)
#pragma unroll
            for (int h = 0; h < GROUP; ++h) {
                sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], offset);
#pragma unroll
                for (int j = 0; j < PIECES; ++j)
#pragma unroll
                    for (u32 n = 0; n < N; ++n) out[h][j][n] += __shfl_xor_sync(0xffffffffu, out[h][j][n], offset);
            }
#pragma unroll
        for (int h = 0; h < GROUP; ++h) {
            if (lane == 0) best[warp][h] = make_float2(greatest[h], sum[h]);
            if (side != 0 || h >= heads) continue;
#pragma unroll
            for (int j = 0; j < PIECES; ++j) {
                u32 column = (piece + j * LANES) * N;
                float *to = parts + (warp * GROUP + h) * head_dim + column;
#pragma unroll
                for (u32 n = 0; n < N; n += 4)
                    if (column < head_dim)
                        *reinterpret_cast<float4 *>(to + n) =
                            make_float4(out[h][j][n], out[h][j][n + 1], out[h][j][n + 2], out[h][j][n + 3]);
            }
        }
        __syncthreads();
        float *left = left_by_all + (u64)s * GROUP * part;
        for (u32 i = 2 * threadIdx.x; i < heads * head_dim; i += 2 * THREADS) {
            u32 h = i / head_dim, column = i % head_dim;
            float greatests[WARPS], sums[WARPS];
            Columns<2> columns[WARPS];
#pragma unroll
            for (int w = 0; w < WARPS; ++w) {
                greatests[w] = best[w][h].x, sums[w] = best[w][h].y;
                columns[w].read(parts + w * GROUP * head_dim + i);
            }
            Merged<2> merged;
            merged.add(greatests, sums, columns);
            if (splits == 1) {
                merged.put(to + i, sinks ? sinks + h : nullptr);
                continue;
            }
            merged.leave(left + h * part, column, head_dim);
        }
    }
    if (splits == 1 || !arrives_last(a.arrivals + 4 * of, done, splits)) return;
    merge<T, THREADS, 8, 2>(left_by_all + (u64)first_split * GROUP * part, splits, GROUP, heads, head_dim, sinks, to);
}
