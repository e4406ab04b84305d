// Attention of a step's rows on the tensor cores. attend.cuh states what both kernels guarantee.
//
// Each warp has sixteen positions of a chunk. They are the M dimension of mma where keys meet queries, and its K where
// values are weighted. Query heads that share a KV head are its N, so a group of up to eight heads wastes nothing. A
// warp copies its keys and values to its own part of shared memory. As soon as it has multiplied them, it requests
// those of the next chunk or split, so warps meet only where a split ends. The softmax's weights are multiplied twice,
// rounded to the activations' type and as their rounding errors.
//
// In a short conversation all time is latency. So everything that does not depend on the previous kernel is requested
// before this kernel's turn, and the way to the first keys has no division.
#pragma once
#include "step/splits.cuh"

// Warps of a block.
#define TILE_WARPS 4
#define TILE_THREADS (32 * TILE_WARPS)
// Positions of a warp, and of a block, at once.
#define UNIT 16
#define CHUNK_SHIFT 6
#define CHUNK (1u << CHUNK_SHIFT)
static_assert(CHUNK == TILE_WARPS * UNIT && PAGE % UNIT == 0);

__device__ __forceinline__ void copy_16_or_zero(u32 to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ __forceinline__ void matrices_turned(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}
// Transposes a matrix of eight by eight.
__device__ __forceinline__ u32 turned(u32 pair) {
    u32 to;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(pair));
    return to;
}

// The layout of shared memory. src/cuda/step_attend.rs computes the same sizes.
template <typename K, typename V, int D> struct Memory {
    static constexpr bool PACKED_K = sizeof(K) == 1, PACKED_V = sizeof(V) == 1, PACKED = PACKED_K || PACKED_V;
    // Query heads of a block.
    static constexpr u32 HEADS = D > 128 ? 4 : 8;
    // Rows are padded by 16 bytes, so that eight rows use different banks.
    static constexpr u32 PITCH = 2 * D + 16, SCALES = 2 * (D / (D % 32 ? 16 : 32));
    // Bytes of a unit's values, and of keys and values as they come from the cache.
    static constexpr u32 VALUES = UNIT * PITCH, QUANTS
    = UNIT * (D + SCALES), COMING_K = PACKED_K ? QUANTS : VALUES,
                         COMING = COMING_K + (PACKED_V ? QUANTS : VALUES);
    // In order: queries of eight heads; keys and values of the step's rows; keys and values of each warp; dequantized
    // values of each warp; each warp's part of each head, padded by four columns so that no two use the same bank.
    static constexpr u32 FRESH = 8 * PITCH, UNITS = FRESH + STEP_ROWS * 2 * 2 * D,
                         UNPACKED = UNITS + TILE_WARPS * COMING, PARTS = UNPACKED + (PACKED ? TILE_WARPS * VALUES : 0),
                         PART = D + 4;
};

extern __shared__ __align__(16) u8 memory[];

template <typename T, typename K, typename V, int D> __device__ __forceinline__ void attend(const AttendArgs &a) {
    typedef Memory<K, V, D> At;
    LaunchTurn launch_turn(a.stamp, LATER);
    __shared__ float2 best[TILE_WARPS][8];
    Cache c = a.cache;
    c.head_dim = D;
    u32 row = blockIdx.z, group = a.group, subgroups = (group + At::HEADS - 1) / At::HEADS;
    // Usually each KV head has one block, and nothing is divided.
    u32 kv_head = subgroups == 1 ? blockIdx.y : blockIdx.y / subgroups,
        begun = (blockIdx.y - kv_head * subgroups) * At::HEADS, heads = min(group - begun, At::HEADS);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const Row *rows = at<const Row>(c.places.rows);
    bool raw = a.k != 0;
    // The cache is complete since the previous step if this kernel stores this step's k and v.
    if (!raw) launch_turn.our_turn();
    Row mine = row_now(rows + row);
    if (mine.slot == NO_SLOT) return;
    u32 position = mine.position, length = position + 1, shift = CHUNK_SHIFT;
    while (a.splits << shift < length) ++shift;
    u32 split = 1u << shift, seen_from = a.window && length > a.window ? length - a.window : 0,
        first_split = seen_from >> shift;
    u32 end_split = (length + split - 1) >> shift, splits = end_split - first_split;
    if (first_split + blockIdx.x >= end_split) return;
    // Positions from here on belong to this step; their keys and values are in `fresh`.
    u32 fresh_from = raw ? position - (row - mine.first) : length;
    const u64 *table = table_of(c, mine.slot);
    u32 base = in_shared(memory), units = base + At::UNITS + warp * At::COMING;

    // A warp fetches keys, then values, of one unit after the other. In its first split, a window skips the chunks
    // before its own first one.
    u32 first_chunk = seen_from / CHUNK * CHUNK;
    u32 fetched_split = first_split + blockIdx.x, fetched = max(fetched_split << shift, first_chunk);
    // A unit is in one page, whose address is requested before it is needed.
    u64 page;
    auto ask = [&]() { page = __ldcg(table + min(fetched + warp * UNIT, position) / PAGE); };
    auto fetch = [&](auto side_of, u32 is_v) {
        typedef typename decltype(side_of)::Type C;
        constexpr bool PACKED = sizeof(C) == 1;
        if (fetched_split < end_split) {
            u32 first = fetched + warp * UNIT, end = min(length, fresh_from), to = units + is_v * At::COMING_K;
            u64 side = page + (is_v ? c.v : c.k);
            u32 element = (kv_head * PAGE + first % PAGE) * D;
            const C *from = at<const C>(side) + element;
            constexpr u32 PIECES = D * sizeof(C) / 16, ALL = UNIT * PIECES;
#pragma unroll
            for (u32 i = 0; i < (ALL + 31) / 32; ++i) {
                u32 piece = i * 32 + lane, within = piece / PIECES;
                if (ALL % 32 == 0 || piece < ALL)
                    copy_16_or_zero(to + (PACKED ? piece * 16 : within * At::PITCH + piece % PIECES * 16),
                                    reinterpret_cast<const u8 *>(from) + piece * 16, first + within < end);
            }
            if constexpr (PACKED) {
                const u8 *scales = at<const u8>(side) + c.kv_heads * PAGE * D + element / D * At::SCALES;
                if (lane < UNIT * At::SCALES / 16)
                    copy_16_or_zero(to + UNIT * D + lane * 16, scales + lane * 16, first < end);
            }
            if (is_v) {
                fetched += CHUNK;
                if (fetched >= min(length, (fetched_split + 1) << shift))
                    fetched_split += gridDim.x, fetched = fetched_split << shift;
                if (fetched_split < end_split) ask();
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    ask();
    // The last split that the block serves. It has the step's own positions, if the block serves any. The block that
    // serves the row's own position stores its k and v.
    u32 last = end_split - 1 - (end_split - 1 - first_split - blockIdx.x) % gridDim.x;
    bool has_fresh = min(length, (last + 1) << shift) > fresh_from, stores = begun == 0 && last == end_split - 1;
    u64 own_page = raw && stores ? __ldcg(table + position / PAGE) : 0;
    // Heads of the query, then k and v of the row's position and of its conversation's earlier rows in this step. A
    // warp takes every fourth. Norms and angles of its first two are read together, before the heads are there.
    u32 tasks = heads + (has_fresh ? 2 * (position - fresh_from + 1) : 0);
    auto norm_of = [&](u32 task) {
        return NormWeights(c,
                           at<const float>(!raw                 ? 0
                                           : task < heads       ? a.q_norm
                                           : (task - heads) % 2 ? 0
                                                                : a.k_norm),
                           lane);
    };
    auto angles_of = [&](u32 task) {
        return Angles(c, a.angles, mine.turned - (task < heads ? 0 : (task - heads) / 2), lane);
    };
    u32 first_task = min(warp, tasks - 1), second_task = min(warp + TILE_WARPS, tasks - 1);
    NormWeights norm = norm_of(first_task), next_norm = norm_of(second_task);
    Angles angles = angles_of(first_task), next_angles = angles_of(second_task);
    fetch(SideOf<K>(), 0);
    fetch(SideOf<V>(), 1);
    if (raw) launch_turn.our_turn();

    T *queries = reinterpret_cast<T *>(memory), *fresh = reinterpret_cast<T *>(memory + At::FRESH);
    for (u32 i = heads * At::PITCH / 4 + threadIdx.x; i < 8 * At::PITCH / 4; i += TILE_THREADS)
        reinterpret_cast<u32 *>(queries)[i] = 0;
    auto head_of = [&](u32 task) {
        u32 back = task < heads ? 0 : (task - heads) / 2, is_v = (task - heads) % 2,
            kv_heads = task < heads ? c.heads : c.kv_heads;
        const float *from = at<const float>(!raw || task >= tasks ? 0 : task < heads ? a.q : is_v ? a.v : a.k);
        return Head(
            c,
            from ? from + ((u64)(row - back) * kv_heads + (task < heads ? kv_head * group + begun + task : kv_head)) * D
                 : nullptr,
            lane);
    };
    Head next = head_of(warp);
    for (u32 task = warp; task < tasks; task += TILE_WARPS) {
        if (task != warp) norm = next_norm, angles = next_angles;
        if (task != warp && task + TILE_WARPS < tasks)
            next_norm = norm_of(task + TILE_WARPS), next_angles = angles_of(task + TILE_WARPS);
        Head values = next;
        next = head_of(task + TILE_WARPS);
        if (task < heads) {
            T *query = queries + task * (At::PITCH / 2);
            u32 head = kv_head * group + begun + task;
            if (raw) {
                if (norm.all) values.normalize(c, norm, a.epsilon, lane);
                values.rotate(c, angles, lane);
                values.scale(c, position);
                values.put<T>(c, query, lane);
            } else {
                const T *q = at<const T>(a.q) + (u64)row * a.stride + head * D;
                for (u32 i = lane; i < D; i += 32) query[i] = q[i];
            }
            continue;
        }
        u32 back = (task - heads) / 2, is_v = (task - heads) % 2, p = position - back,
            index = (p - fresh_from) * 2 + is_v;
        if (!is_v) {
            if (norm.all) values.normalize(c, norm, a.epsilon, lane);
            values.rotate(c, angles, lane);
        }
        bool kept = back == 0 && stores;
        u64 side = is_v ? c.v : c.k;
        auto keep = [&](auto side_of) {
            typedef typename decltype(side_of)::Type C;
            if constexpr (sizeof(C) == 1) {
                __shared__ __align__(8) float plain[TILE_WARPS][D];
                __shared__ __align__(4) Q8 quants[TILE_WARPS][D];
                __shared__ half scales[TILE_WARPS][At::SCALES / 2];
                __syncwarp();
                values.template put<float>(c, plain[warp], lane);
                __syncwarp();
                quantize(plain[warp], D, lane, quants[warp], scales[warp]);
                if (kept)
                    quantize(plain[warp], D, lane, in_page<C>(own_page, side, c, kv_head, p),
                             scales_in_page(own_page, side, c, kv_head, p));
                __syncwarp();
                for (u32 i = lane; i < D / 2; i += 32) {
                    u32 word = reinterpret_cast<const u32 *>(quants[warp])[i / 2];
                    reinterpret_cast<u32 *>(fresh + index * D)[i] =
                        dequantized<T>(word, i % 2, scales[warp][2 * i * (At::SCALES / 2) / D]);
                }
            } else {
                values.template put<C>(c, fresh + index * D, lane);
                if (kept) values.template put<C>(c, in_page<C>(own_page, side, c, kv_head, p), lane);
            }
        };
        if constexpr (IsSame<K, V>::value) keep(SideOf<K>());
        else if (is_v) keep(SideOf<V>());
        else keep(SideOf<K>());
    }
    __syncthreads();

    // The next unit as rows of values, once it has arrived; zeros where there are no positions.
    auto arrived = [&](auto side_of, u32 is_v, u32 first, u32 end) -> u32 {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncwarp();
        u32 values = units + is_v * At::COMING_K;
        if constexpr (sizeof(typename decltype(side_of)::Type) == 1) {
            const u8 *packed = memory + (values - base);
            values = base + At::UNPACKED + warp * At::VALUES;
            u32 there = min(end, fresh_from);
#pragma unroll
            for (u32 i = 0; i < (UNIT * D / 8 + 31) / 32; ++i) {
                u32 piece = i * 32 + lane, within = piece / (D / 8), column = piece % (D / 8) * 8;
                if (UNIT * D / 8 % 32 && piece >= UNIT * D / 8) break;
                uint2 quants = *reinterpret_cast<const uint2 *>(packed + piece * 8);
                half scale = reinterpret_cast<const half *>(
                    packed + UNIT * D)[within * (At::SCALES / 2) + column * (At::SCALES / 2) / D];
                uint4 four = make_uint4(0, 0, 0, 0);
                if (first + within < there)
                    four = make_uint4(dequantized<T>(quants.x, 0, scale), dequantized<T>(quants.x, 1, scale),
                                      dequantized<T>(quants.y, 0, scale), dequantized<T>(quants.y, 1, scale));
                *reinterpret_cast<uint4 *>(memory + (values - base) + within * At::PITCH + column * 2) = four;
            }
            __syncwarp();
        }
        if (first + UNIT > fresh_from) {
#pragma unroll 1
            for (u32 p = max(first, fresh_from); p < min(first + UNIT, end); ++p)
#pragma unroll 1
                for (u32 i = lane; i < D / 8; i += 32)
                    *reinterpret_cast<uint4 *>(memory + (values - base) + (p - first) * At::PITCH + i * 16) =
                        *reinterpret_cast<const uint4 *>(fresh + ((p - fresh_from) * 2 + is_v) * D + i * 8);
            __syncwarp();
        }
        return values;
    };

    // Queries, sixteen columns at a time.
    u32 queries_of[(D + 31) / 32][4];
#pragma unroll
    for (u32 d = 0; d < D; d += 32) matrices(queries_of[d / 32], base + lane % 8 * At::PITCH + lane / 8 * 16 + d * 2);
    // To base 2, except with a cap, which applies before.
    float scale = a.softcap != 0.0f ? a.scale / a.softcap : a.scale * LOG2_E;
    u32 of = row * gridDim.y + blockIdx.y, done = 0;
    constexpr u32 part = part_of(D);
    const float *sinks = a.sinks ? at<const float>(a.sinks) + kv_head * group + begun : nullptr;
    float *parts = reinterpret_cast<float *>(memory + At::PARTS);
    T *out = at<T>(a.out) + (u64)row * a.stride + (kv_head * group + begun) * D;
    float *left_by_all = at<float>(a.partials) + (u64)of * MOST_SPLITS * min(group, At::HEADS) * part;
    for (u32 s = first_split + blockIdx.x; s < end_split; s += gridDim.x, ++done) {
        u32 end = min(length, (s + 1) << shift);
        // For heads 2 t and 2 t + 1: the greatest score, and this lane's part of the sum of weights; the weighted sum
        // of values, for the columns g and g + 8 of each sixteen.
        float greatest[2] = {LEAST, LEAST}, sum[2] = {}, sums[D / 16][4] = {};
        for (u32 chunk = max(s << shift, first_chunk); chunk < end; chunk += CHUNK) {
            u32 first = chunk + warp * UNIT;
            u32 keys = arrived(SideOf<K>(), 0, first, end) + lane % 16 * At::PITCH + lane / 16 * 16;
            float scores[4] = {}, others[4] = {};
#pragma unroll
            for (u32 d = 0; d < D / 16; ++d) {
                u32 k[4];
                matrices(k, keys + d * 32);
                Mma<T>::run(d % 2 ? others : scores, k, queries_of[d / 2][d % 2 * 2], queries_of[d / 2][d % 2 * 2 + 1]);
            }
            // All lanes have read the keys.
            __syncwarp();
            fetch(SideOf<K>(), 0);
#pragma unroll
            for (int i = 0; i < 4; ++i) scores[i] = (scores[i] + others[i]) * scale;
            if (a.softcap != 0.0f) {
#pragma unroll 1
                for (int i = 0; i < 2; ++i) {
                    float first_of = a.softcap * LOG2_E * tanhf(scores[0]),
                          second_of = a.softcap * LOG2_E * tanhf(scores[1]);
                    scores[0] = scores[2], scores[1] = scores[3], scores[2] = first_of, scores[3] = second_of;
                }
            }
            if (first + UNIT > end || first < seen_from) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    u32 p = first + g + i / 2 * 8;
                    if (p >= end || p < seen_from) scores[i] = -INFINITY;
                }
            }
            float before[2];
            bool renewed = false;
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                float most = fmaxf(scores[h], scores[h + 2]);
#pragma unroll
                for (int offset = 4; offset < 32; offset *= 2)
                    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, offset));
                most = fmaxf(most, greatest[h]);
                before[h] = power_of_two(greatest[h] - most);
                renewed |= most != greatest[h];
                greatest[h] = most;
                scores[h] = power_of_two(scores[h] - most), scores[h + 2] = power_of_two(scores[h + 2] - most);
                sum[h] = fmaf(sum[h], before[h], scores[h] + scores[h + 2]);
            }
            // Weights of positions g and g + 8, transposed to two adjacent positions of each head, as mma needs them.
            u32 weights[2], lost[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                u32 pair = Mma<T>::pack(scores[2 * i], scores[2 * i + 1]);
                lost[i] = turned(Mma<T>::rest(scores[2 * i], scores[2 * i + 1], pair));
                weights[i] = turned(pair);
            }
            // Otherwise every factor is one, or every sum is zero.
            if (chunk > max(s << shift, first_chunk) && __any_sync(0xffffffffu, renewed)) {
#pragma unroll
                for (u32 n = 0; n < D / 16; ++n)
                    sums[n][0] *= before[0], sums[n][1] *= before[1], sums[n][2] *= before[0], sums[n][3] *= before[1];
            }
            u32 values =
                arrived(SideOf<V>(), 1, first, end) + (lane % 8 + lane / 16 * 8) * At::PITCH + lane / 8 % 2 * 16;
#pragma unroll
            for (u32 n = 0; n < D / 16; ++n) {
                u32 v[4];
                matrices_turned(v, values + n * 32);
                Mma<T>::run(sums[n], v, weights[0], weights[1]);
                Mma<T>::run(sums[n], v, lost[0], lost[1]);
            }
            __syncwarp();
            fetch(SideOf<V>(), 1);
        }
        // `parts` is (warps, heads, PART). The previous split has been merged.
        if (done) __syncthreads();
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            u32 head = 2 * t + h;
#pragma unroll
            for (int offset = 4; offset < 32; offset *= 2) sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], offset);
            if (head >= heads) continue;
            if (g == 0) best[warp][head] = make_float2(greatest[h], sum[h]);
            float *to = parts + (warp * heads + head) * At::PART + g;
#pragma unroll
            for (u32 n = 0; n < D / 16; ++n) to[n * 16] = sums[n][h], to[n * 16 + 8] = sums[n][h + 2];
        }
        __syncthreads();
        float *left = left_by_all + (u64)s * heads * part;
        for (u32 i = 4 * threadIdx.x; i < heads * D; i += 4 * TILE_THREADS) {
            u32 h = i / D, column = i % D;
            float greatests[TILE_WARPS], totals[TILE_WARPS];
            Columns<4> columns[TILE_WARPS];
#pragma unroll
            for (int w = 0; w < TILE_WARPS; ++w) {
                greatests[w] = best[w][h].x, totals[w] = best[w][h].y;
                columns[w].read(parts + (w * heads + h) * At::PART + column);
            }
            Merged<4> merged;
            merged.add(greatests, totals, columns);
            if (splits == 1) {
                merged.put(out + i, sinks ? sinks + h : nullptr);
                continue;
            }
            merged.leave(left + h * part, column, D);
        }
    }
    if (splits == 1 || !arrives_last(a.arrivals + 4 * of, done, splits)) return;
    merge<T, TILE_THREADS, 16, 4>(left_by_all + (u64)first_split * heads * part, splits, heads, heads, D, sinks, out);
}
