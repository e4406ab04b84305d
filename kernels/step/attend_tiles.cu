// Attention of a step's rows on the tensor cores: mma's m are the query heads that share a KV head, as many as there is room for. See
// attend.cu for what both promise.
//
// Each warp has eight positions of a chunk. It copies their keys and values to a ring of its own in shared memory, ahead of
// what it multiplies and across chunks and splits, so that no warp waits for another until a split ends. The softmax's
// weights are rounded to the activations' type twice, the second time what the first has lost.
#include "step/splits.cuh"

// Rows of mma.
#define GROUP 16
// Positions of a warp; of a block at once.
#define UNIT 8
#define CHUNK (WARPS * UNIT)
// Keys or values of so many units lie in a warp's ring.
#define DEPTH 3

__device__ __forceinline__ void copy_16_or_zero(u32 to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ __forceinline__ void matrices(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}
__device__ __forceinline__ void matrices_turned(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}

// d += a b of eight columns of a.
template <typename T> __device__ __forceinline__ void multiply_eight(float (&d)[4], u32 a0, u32 a1, u32 b);
template <> __device__ __forceinline__ void multiply_eight<half>(float (&d)[4], u32 a0, u32 a1, u32 b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b));
}
template <> __device__ __forceinline__ void multiply_eight<__nv_bfloat16>(float (&d)[4], u32 a0, u32 a1, u32 b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b));
}

// The bytes that it lays out in shared memory: src/cuda/kernels.rs knows them too.
template <typename C, int D> struct Memory {
    static constexpr bool PACKED = sizeof(C) == 1;
    // Query heads of a block.
    static constexpr u32 HEADS = D > 128 ? 4 : GROUP;
    // Rows lie apart by 16 bytes more than they are long: no two of eight are in the same banks.
    static constexpr u32 PITCH = 2 * D + 16, SCALES = 2 * (D / (D % 32 ? 16 : 32));
    // Values of a unit, and as it comes from the cache.
    static constexpr u32 VALUES = UNIT * PITCH, COMING = PACKED ? UNIT * (D + SCALES) : VALUES;
    // Queries; keys and values of the step's rows; rings; what integers become; what each warp has of each head.
    static constexpr u32 FRESH = GROUP * PITCH, RINGS = FRESH + STEP_ROWS * 2 * 2 * D, UNPACKED = RINGS + WARPS * DEPTH * COMING,
                         PARTS = UNPACKED + (PACKED ? WARPS * VALUES : 0);
};

extern __shared__ __align__(16) u8 memory[];

template <typename T, typename C, int D> __device__ __forceinline__ void attend(const AttendArgs &a) {
    typedef Memory<C, D> At;
    Stopwatch stopwatch(a.stamp, LATER);
    __shared__ float2 best[WARPS][GROUP];
    const Cache &c = a.cache;
    u32 row = blockIdx.z, group = c.heads / c.kv_heads, subgroups = (group + At::HEADS - 1) / At::HEADS;
    u32 kv_head = blockIdx.y / subgroups, begun = blockIdx.y % subgroups * At::HEADS, heads = min(group - begun, At::HEADS);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const Row *rows = at<const Row>(c.places.rows);
    bool raw = a.k != 0;
    // What the cache holds has been there since the step before, if this step's comes on the way.
    if (!raw) stopwatch.our_turn();
    Row mine = row_now(rows + row);
    if (mine.entry == NOBODY) return;
    u32 position = mine.position, length = position + 1, split = CHUNK;
    while (split * a.splits < length) split *= 2;
    u32 seen_from = a.window && length > a.window ? length - a.window : 0, first_split = seen_from / split;
    u32 end_split = (length + split - 1) / split, splits = end_split - first_split;
    if (first_split + blockIdx.x >= end_split) return;
    // From here on positions are of this step, and their keys and values are in `fresh`.
    u32 fresh_from = !raw ? length : mine.first == row ? position : row_now(rows + mine.first).position;
    const u64 *table = table_of(c, mine.entry);
    u32 base = (u32)__cvta_generic_to_shared(memory), ring = base + At::RINGS + warp * DEPTH * At::COMING;

    // Keys, then values of each unit of the warp, one unit after the other.
    // Of its first split a window skips what lies before its first chunk.
    u32 first_chunk = seen_from / CHUNK * CHUNK;
    u32 fetched_split = first_split + blockIdx.x, fetched = max(fetched_split * split, first_chunk), to = 0;
    auto fetch = [&](bool is_v) {
        if (fetched_split < end_split) {
            u32 first = fetched + warp * UNIT, end = min(length, fresh_from);
            // Those of a unit lie in one page.
            u64 side = __ldcg(table + min(first, position) / PAGE) + (is_v ? c.v : c.k);
            u32 element = (kv_head * PAGE + first % PAGE) * D;
            const C *from = at<const C>(side) + element;
            constexpr u32 PIECES = D * sizeof(C) / 16, ALL = UNIT * PIECES;
#pragma unroll
            for (u32 i = 0; i < (ALL + 31) / 32; ++i) {
                u32 piece = i * 32 + lane, within = piece / PIECES;
                if (ALL % 32 == 0 || piece < ALL)
                    copy_16_or_zero(ring + to + (At::PACKED ? piece * 16 : within * At::PITCH + piece % PIECES * 16), reinterpret_cast<const u8 *>(from) + piece * 16, first + within < end);
            }
            if constexpr (At::PACKED) {
                const u8 *scales = at<const u8>(side) + c.kv_heads * PAGE * D + element / D * At::SCALES;
                if (lane < UNIT * At::SCALES / 16) copy_16_or_zero(ring + to + UNIT * D + lane * 16, scales + lane * 16, first < end);
            }
            if (is_v) {
                fetched += CHUNK;
                if (fetched >= min(length, (fetched_split + 1) * split)) fetched_split += gridDim.x, fetched = fetched_split * split;
            }
        }
        to = to == (DEPTH - 1) * At::COMING ? 0 : to + At::COMING;
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    fetch(false);
    fetch(true);
    if (raw) stopwatch.our_turn();

    T *queries = reinterpret_cast<T *>(memory), *fresh = reinterpret_cast<T *>(memory + At::FRESH);
    bool stores = begun == 0 && blockIdx.x == (end_split - 1 - first_split) % gridDim.x;
    for (u32 i = heads * At::PITCH / 4 + threadIdx.x; i < GROUP * At::PITCH / 4; i += THREADS) reinterpret_cast<u32 *>(queries)[i] = 0;
    // Heads of the query, then k and v of the row's position and of its conversation's earlier rows of this step.
    u32 tasks = heads + (raw ? 2 * (position - fresh_from + 1) : 0);
    for (u32 task = warp; task < tasks; task += WARPS) {
        if (task < heads) {
            T *query = queries + task * (At::PITCH / 2);
            u32 head = kv_head * group + begun + task;
            if (raw) {
                Head values(c, at<const float>(a.q) + ((u64)row * c.heads + head) * D, lane);
                if (a.q_norm) values.normalize(c, at<const float>(a.q_norm), a.epsilon, lane);
                values.rotate(c, a.angles, position, lane);
                values.scale(c, position);
                values.put<T>(c, query, lane);
            } else {
                const T *q = at<const T>(a.q) + (u64)row * a.stride + head * D;
                for (u32 i = lane; i < D; i += 32) query[i] = q[i];
            }
            continue;
        }
        u32 back = (task - heads) / 2, is_v = (task - heads) % 2, p = position - back, index = (p - fresh_from) * 2 + is_v;
        Head values(c, at<const float>(is_v ? a.v : a.k) + ((u64)(row - back) * c.kv_heads + kv_head) * D, lane);
        if (!is_v) {
            if (a.k_norm) values.normalize(c, at<const float>(a.k_norm), a.epsilon, lane);
            values.rotate(c, a.angles, p, lane);
        }
        bool kept = back == 0 && stores;
        u64 page = kept ? table[p / PAGE] : 0, side = is_v ? c.v : c.k;
        if constexpr (At::PACKED) {
            __shared__ __align__(8) float plain[WARPS][D];
            __shared__ __align__(4) Q8 quants[WARPS][D];
            __shared__ half scales[WARPS][At::SCALES / 2];
            __syncwarp();
            values.put<float>(c, plain[warp], lane);
            __syncwarp();
            quantize(plain[warp], D, lane, quants[warp], scales[warp]);
            if (kept) quantize(plain[warp], D, lane, in_page<C>(page, side, c, kv_head, p), scales_in_page(page, side, c, kv_head, p));
            __syncwarp();
            for (u32 i = lane; i < D / 2; i += 32) {
                u32 word = reinterpret_cast<const u32 *>(quants[warp])[i / 2];
                reinterpret_cast<u32 *>(fresh + index * D)[i] = dequantized<T>(word, i % 2, scales[warp][2 * i * (At::SCALES / 2) / D]);
            }
        } else {
            values.put<C>(c, fresh + index * D, lane);
            if (kept) values.put<C>(c, in_page<C>(page, side, c, kv_head, p), lane);
        }
    }
    __syncthreads();

    // What the next unit in the ring holds, as rows of values; nothing where there is nothing.
    u32 from = 0;
    auto arrived = [&](bool is_v, u32 first, u32 end) -> u32 {
        asm volatile("cp.async.wait_group %0;" ::"n"(DEPTH - 2) : "memory");
        __syncwarp();
        u32 values = ring + from;
        from = from == (DEPTH - 1) * At::COMING ? 0 : from + At::COMING;
        if constexpr (At::PACKED) {
            const u8 *packed = memory + (values - base);
            values = base + At::UNPACKED + warp * At::VALUES;
            u32 there = min(end, fresh_from);
#pragma unroll
            for (u32 i = 0; i < (UNIT * D / 8 + 31) / 32; ++i) {
                u32 piece = i * 32 + lane, within = piece / (D / 8), column = piece % (D / 8) * 8;
                if (UNIT * D / 8 % 32 && piece >= UNIT * D / 8) break;
                uint2 quants = *reinterpret_cast<const uint2 *>(packed + piece * 8);
                half scale = reinterpret_cast<const half *>(packed + UNIT * D)[within * (At::SCALES / 2) + column * (At::SCALES / 2) / D];
                uint4 four = make_uint4(0, 0, 0, 0);
                if (first + within < there) four = make_uint4(dequantized<T>(quants.x, 0, scale), dequantized<T>(quants.x, 1, scale), dequantized<T>(quants.y, 0, scale), dequantized<T>(quants.y, 1, scale));
                *reinterpret_cast<uint4 *>(memory + (values - base) + within * At::PITCH + column * 2) = four;
            }
            __syncwarp();
        }
        for (u32 p = max(first, fresh_from); p < min(first + UNIT, end); ++p)
            for (u32 i = lane; i < D / 8; i += 32) *reinterpret_cast<uint4 *>(memory + (values - base) + (p - first) * At::PITCH + i * 16) = *reinterpret_cast<const uint4 *>(fresh + ((p - fresh_from) * 2 + is_v) * D + i * 8);
        __syncwarp();
        return values;
    };

    // To base 2; a cap is met before.
    float scale = a.softcap != 0.0f ? a.scale / a.softcap : a.scale * LOG2_E;
    u32 of = row * gridDim.y + blockIdx.y, done = 0;
    constexpr u32 part = D + 2;
    const float *sinks = a.sinks ? at<const float>(a.sinks) + kv_head * group + begun : nullptr;
    float *parts = reinterpret_cast<float *>(memory + At::PARTS);
    T *out = at<T>(a.out) + (u64)row * a.stride + (kv_head * group + begun) * D;
    float *left_by_all = at<float>(a.partials) + (u64)of * MOST_SPLITS * min(group, At::HEADS) * part;
    for (u32 s = first_split + blockIdx.x; s < end_split; s += gridDim.x, ++done) {
        u32 end = min(length, (s + 1) * split);
        // Of the heads g and g + 8: the greatest score, this lane's part of the sum, and what the weights add up to.
        float greatest[2] = {LEAST, LEAST}, sum[2] = {}, sums[D / 8][4] = {};
        for (u32 chunk = max(s * split, first_chunk); chunk < end; chunk += CHUNK) {
            u32 first = chunk + warp * UNIT;
            u32 keys = arrived(false, first, end) + lane % 8 * At::PITCH + lane / 8 * 16;
            fetch(false);
            float scores[4] = {}, others[4] = {};
#pragma unroll
            for (u32 d = 0; d < D / 16; d += 2) {
                u32 k[4], q[4];
                // Of the last sixteen columns of an odd number of them, half is not used.
                matrices(k, keys + d * 32);
                matrices(q, base + lane % 16 * At::PITCH + lane / 16 * 16 + d * 32);
                Mma<T>::run(scores, q, k[0], k[1]);
                if (d + 1 == D / 16) break;
                matrices(q, base + lane % 16 * At::PITCH + lane / 16 * 16 + d * 32 + 32);
                Mma<T>::run(others, q, k[2], k[3]);
            }
            u32 weights[2], lost[2];
            bool renewed = false;
            float before[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float pair[2], most = greatest[e];
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    u32 p = first + 2 * t + i;
                    pair[i] = (scores[2 * e + i] + others[2 * e + i]) * scale;
                    if (a.softcap != 0.0f) pair[i] = a.softcap * LOG2_E * tanhf(pair[i]);
                    if (p >= end || p < seen_from) pair[i] = -INFINITY;
                    most = fmaxf(most, pair[i]);
                }
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
                before[e] = power_of_two(greatest[e] - most);
                renewed |= most != greatest[e];
                greatest[e] = most;
                pair[0] = power_of_two(pair[0] - most), pair[1] = power_of_two(pair[1] - most);
                sum[e] = fmaf(sum[e], before[e], pair[0] + pair[1]);
                weights[e] = Mma<T>::pack(pair[0], pair[1]);
                lost[e] = Mma<T>::rest(pair[0], pair[1], weights[e]);
            }
            // Else all would be multiplied by one.
            if (__any_sync(0xffffffffu, renewed)) {
#pragma unroll
                for (u32 n = 0; n < D / 8; ++n) sums[n][0] *= before[0], sums[n][1] *= before[0], sums[n][2] *= before[1], sums[n][3] *= before[1];
            }
            u32 values = arrived(true, first, end) + lane % 8 * At::PITCH + lane / 8 * 16;
            fetch(true);
#pragma unroll
            for (u32 n = 0; n < D / 8; n += 4) {
                u32 v[4];
                matrices_turned(v, values + n * 16);
#pragma unroll
                for (u32 i = 0; i < 4 && n + i < D / 8; ++i) {
                    multiply_eight<T>(sums[n + i], weights[0], weights[1], v[i]);
                    multiply_eight<T>(sums[n + i], lost[0], lost[1], v[i]);
                }
            }
        }
        // Of `parts`: (WARPS, heads, D). What was there has been merged.
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            u32 head = g + 8 * e;
            sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], 1);
            sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], 2);
            if (head >= heads) continue;
            if (t == 0) best[warp][head] = make_float2(greatest[e], sum[e]);
            float *to = parts + (warp * heads + head) * D + 2 * t;
#pragma unroll
            for (u32 n = 0; n < D / 8; ++n) *reinterpret_cast<float2 *>(to + n * 8) = make_float2(sums[n][2 * e], sums[n][2 * e + 1]);
        }
        __syncthreads();
        float *left = left_by_all + (u64)s * heads * part;
        for (u32 i = 2 * threadIdx.x; i < heads * D; i += 2 * THREADS) {
            u32 h = i / D, column = i % D;
            float greatests[WARPS], totals[WARPS];
            float2 columns[WARPS];
#pragma unroll
            for (int w = 0; w < WARPS; ++w) {
                greatests[w] = best[w][h].x, totals[w] = best[w][h].y;
                columns[w] = *reinterpret_cast<const float2 *>(parts + w * heads * D + i);
            }
            Merged merged;
            merged.add(greatests, totals, columns);
            if (splits == 1) {
                merged.put(out + i, sinks ? sinks + h : nullptr);
                continue;
            }
            *reinterpret_cast<float2 *>(left + h * part + column) = make_float2(merged.first, merged.second);
            if (column == 0) *reinterpret_cast<float2 *>(left + h * part + D) = make_float2(merged.greatest, merged.sum);
        }
    }
    if (splits == 1 || !arrives_last(a.arrivals + 4 * of, done, splits)) return;
    merge(left_by_all + (u64)first_split * heads * part, splits, heads, heads, D, sinks, out);
}

#define KERNEL(T, NAME, C, D, BLOCKS) \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attend_##NAME##_##D(const __grid_constant__ AttendArgs a) { attend<T, C, D>(a); }
#define KERNELS(T, NAME, C) KERNEL(T, NAME, C, 64, 2) KERNEL(T, NAME, C, 80, 2) KERNEL(T, NAME, C, 96, 2) KERNEL(T, NAME, C, 128, 2) KERNEL(T, NAME, C, 256, 1)
KERNELS(half, f16_f16, half)
KERNELS(__nv_bfloat16, bf16_bf16, __nv_bfloat16)
KERNELS(half, q8_f16, Q8)
KERNELS(__nv_bfloat16, q8_bf16, Q8)
