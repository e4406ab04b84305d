// Attention of a step's rows over the cache, each over its own conversation's. The positions of a row are split: a block
// serves the query heads that share a KV head, at most GROUP of them, at the positions of one split, and leaves its part
// to the last block of its heads to arrive, which merges the parts (Flash-Decoding, Dao et al. 2023). Where splits begin
// depends on the row's own position alone, and parts are merged in one order: so a row's bits depend neither on the grid,
// nor on where its pages lie, nor on other rows.
//
// A step's q, k and v come as they left their product. Each block rotates what it needs of them, while the first of the
// cache is under way, and whoever serves the row's own position stores its k and v. What other rows of the same
// conversation store in this step nobody reads before the next: those positions are made again from their k and v,
// rounded through the cache's type.
//
// A prompt whose types the tensor cores do not multiply comes here too, rotated and stored, in one split.
#include "rope.cuh"
#include "tile.cuh"

// Splits of a row, at most.
#define MOST_SPLITS 64
#define GROUP 4
// Less than any score, and a number.
#define LEAST -1e30f

// A KV head of 16-byte pieces over LANES lanes, PIECES each; LANES lanes take a position, a warp several.
template <typename C, int LANES, int PIECES> struct Shape {
    // Elements of a piece.
    static constexpr u32 N = 16 / sizeof(C);
    // Positions that a lane has under way; that a warp reads at once, that it has under way, and that a block has.
    static constexpr u32 LOADS = 4 / PIECES, SIDE = 32 / LANES, EACH = LOADS * SIDE, CHUNK = WARPS * EACH;
};

template <typename C, int N> __device__ __forceinline__ void widened(const uint4 &bits, float (&to)[N]) {
    const C *each = reinterpret_cast<const C *>(&bits);
#pragma unroll
    for (int n = 0; n < N; ++n) to[n] = widen(each[n]);
}

// N elements in shared memory, read again wherever they are needed: registers are for the cache.
template <typename T> __device__ __forceinline__ void widened_pairs(u32 from, float (&to)[8]) {
    uint4 bits;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w) : "r"(from));
    widened<T>(bits, to);
}
template <typename T> __device__ __forceinline__ void widened_pairs(u32 from, float (&to)[4]) {
    uint2 bits;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(bits.x), "=r"(bits.y) : "r"(from));
    const T *each = reinterpret_cast<const T *>(&bits);
#pragma unroll
    for (int n = 0; n < 4; ++n) to[n] = widen(each[n]);
}

// Merges the parts of `splits` splits of some heads, (split, head, head_dim + 2): maximum, sum, and what is to be divided by it.
template <typename T> __device__ __forceinline__ void merge(const float *parts, u32 splits, u32 heads, u32 head_dim, const float *sinks, float *weights, T *out) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = head_dim + 2;
    if (warp < heads) {
        const float *of = parts + warp * part;
        float greatest[MOST_SPLITS / 32], mine[MOST_SPLITS / 32], most = LEAST, sum = 0.0f;
#pragma unroll
        for (int i = 0; i < MOST_SPLITS / 32; ++i) {
            u32 s = lane + 32 * i;
            greatest[i] = s < splits ? __ldcg(of + (u64)s * GROUP * part) : LEAST;
            mine[i] = s < splits ? __ldcg(of + (u64)s * GROUP * part + 1) : 0.0f;
            most = fmaxf(most, greatest[i]);
        }
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, offset));
#pragma unroll
        for (int i = 0; i < MOST_SPLITS / 32; ++i) {
            greatest[i] = expf(greatest[i] - most);
            sum = fmaf(mine[i], greatest[i], sum);
        }
        sum = warp_sum(sum) + (sinks ? expf(sinks[warp] - most) : 0.0f);
#pragma unroll
        for (int i = 0; i < MOST_SPLITS / 32; ++i) weights[warp * MOST_SPLITS + lane + 32 * i] = greatest[i] / sum;
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < heads * head_dim; i += THREADS) {
        u32 h = i / head_dim;
        const float *of = parts + h * part + 2 + i % head_dim;
        float sum = 0.0f;
#pragma unroll 8
        for (u32 s = 0; s < splits; ++s) sum = fmaf(weights[h * MOST_SPLITS + s], __ldcg(of + (u64)s * GROUP * part), sum);
        out[i] = round_to<T>(sum);
    }
}

template <typename T, typename C, int LANES, int PIECES> __device__ __forceinline__ void attend(const AttendArgs &a) {
    typedef Shape<C, LANES, PIECES> S;
    constexpr u32 N = S::N, LOADS = S::LOADS;
    Stopwatch stopwatch(a.stamp);
    extern __shared__ __align__(16) float memory[];
    __shared__ float2 best[WARPS][GROUP];
    __shared__ bool last;
    const Cache &c = a.cache;
    u32 row = blockIdx.z, head_dim = c.head_dim, group = c.heads / c.kv_heads, subgroups = (group + GROUP - 1) / GROUP;
    u32 kv_head = blockIdx.y / subgroups, begun = blockIdx.y % subgroups * GROUP, heads = min(group - begun, (u32)GROUP);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, piece = lane % LANES, side = lane / LANES;
    const Row *rows = at<const Row>(c.places.rows);
    // Before anything is waited for: what the warp will rotate, a query or the row's own k or v.
    bool raw = a.k != 0, takes_q = warp < heads, takes_kv = warp == GROUP || warp == GROUP + 1;
    u32 head = kv_head * group + begun + warp, kv_columns = c.kv_heads * head_dim;
    const float *own = at<const float>(takes_q ? a.q : warp == GROUP ? a.k : a.v);
    own += takes_q ? ((u64)row * c.heads + head) * head_dim : (u64)row * kv_columns + kv_head * head_dim;
    Head taken(c, raw && (takes_q || takes_kv) ? own : nullptr, lane);
    Row mine = rows[c.places.step ? row : 0];
    if (c.places.step ? mine.entry == NOBODY : row >= mine.count) return;
    u32 position = mine.position + (c.places.step ? 0 : row), length = position + 1, split = S::CHUNK;
    while (split * a.splits < length) split *= 2;
    u32 seen_from = a.window && length > a.window ? length - a.window : 0, first_split = seen_from / split;
    u32 end_split = (length + split - 1) / split, splits = end_split - first_split;
    if (blockIdx.x < first_split || blockIdx.x >= end_split) return;
    u32 begin = blockIdx.x * split, end = min(length, begin + split);
    // From here on positions are of this step, and their k and v are in `fresh`.
    u32 fresh_from = !raw ? length : mine.first == row ? position : rows[mine.first].position;
    const u64 *table = table_of(c, mine.entry);
    uint4 k[LOADS][PIECES], v[LOADS][PIECES];
    auto there = [&](u32 p, int j) { return (piece + j * LANES) * N < head_dim && p < end; };
    auto load = [&](uint4(&to)[LOADS][PIECES], u64 layer, u32 chunk) {
        // Those of a warp lie in one page.
        u32 first = chunk + warp * S::EACH;
        const C *from = in_page<C>(first < end ? table[first / PAGE] : 0, layer, c, kv_head, first);
#pragma unroll
        for (u32 i = 0; i < LOADS; ++i)
#pragma unroll
            for (int j = 0; j < PIECES; ++j) {
                to[i][j] = make_uint4(0, 0, 0, 0);
                u32 p = first + i * S::SIDE + side;
                if (there(p, j) && p < fresh_from) to[i][j] = *reinterpret_cast<const uint4 *>(from + (i * S::SIDE + side) * head_dim + (piece + j * LANES) * N);
            }
    };
    load(k, c.k, begin);
    load(v, c.v, begin);

    // (GROUP, padded) of T, then (rows of the step, K and V, head_dim) of this split, in whose place come the warps' parts.
    constexpr u32 padded = LANES * PIECES * N;
    T *queries = reinterpret_cast<T *>(memory);
    float *parts = memory + GROUP * padded / 2;
    C *fresh = reinterpret_cast<C *>(parts);
    u32 fresh_begin = max(begin, fresh_from);
    auto store = [&](Head &values, u32 p, u32 is_v) {
        if (!is_v) {
            if (a.k_norm) values.normalize(c, at<const float>(a.k_norm), a.epsilon, lane);
            values.rotate(c, a.angles, p, lane);
        }
        values.put<C>(c, fresh + ((p - fresh_begin) * 2 + is_v) * head_dim, lane);
        if (p == position && begun == 0) values.put<C>(c, in_page<C>(table[p / PAGE], is_v ? c.v : c.k, c, kv_head, p), lane);
    };
    if (warp < GROUP) {
        T *to = queries + warp * padded;
        for (u32 i = (takes_q ? head_dim : 0) + lane; i < padded; i += 32) to[i] = round_to<T>(0.0f);
        if (takes_q && raw) {
            if (a.q_norm) taken.normalize(c, at<const float>(a.q_norm), a.epsilon, lane);
            taken.rotate(c, a.angles, position, lane);
            taken.put<T>(c, to, lane);
        } else if (takes_q) {
            const T *q = at<const T>(a.q) + (u64)row * a.stride + head * head_dim;
            for (u32 i = lane; i < head_dim; i += 32) to[i] = q[i];
        }
    } else if (raw) {
        if (takes_kv && position < end) store(taken, position, warp - GROUP);
        // Of the conversation's earlier rows of this step.
        for (u32 task = 2 * fresh_begin + warp - GROUP; task < 2 * min(end, position); task += WARPS - GROUP) {
            u32 p = task / 2, is_v = task % 2;
            Head values(c, at<const float>(is_v ? a.v : a.k) + (u64)(mine.first + p - fresh_from) * kv_columns + kv_head * head_dim, lane);
            store(values, p, is_v);
        }
    }
    __syncthreads();
    u32 query = (u32)__cvta_generic_to_shared(queries) + piece * N * sizeof(T);
    auto renew = [&](uint4(&to)[LOADS][PIECES], u32 is_v, u32 chunk) {
        if (chunk + S::CHUNK <= fresh_from) return;
#pragma unroll
        for (u32 i = 0; i < LOADS; ++i)
#pragma unroll
            for (int j = 0; j < PIECES; ++j) {
                u32 p = chunk + warp * S::EACH + i * S::SIDE + side;
                if (there(p, j) && p >= fresh_from) to[i][j] = *reinterpret_cast<const uint4 *>(fresh + ((p - fresh_begin) * 2 + is_v) * head_dim + (piece + j * LANES) * N);
            }
    };
    // Of each head: of all positions of the warp the greatest, and of this lane's the sum, and what they add up to.
    float greatest[GROUP], sum[GROUP] = {}, out[GROUP][PIECES][N] = {};
#pragma unroll
    for (int h = 0; h < GROUP; ++h) greatest[h] = LEAST;
    for (u32 chunk = begin; chunk < end; chunk += S::CHUNK) {
        float scores[LOADS][GROUP] = {};
        renew(k, 0, chunk);
#pragma unroll
        for (u32 i = 0; i < LOADS; ++i)
#pragma unroll
            for (int j = 0; j < PIECES; ++j) {
                float values[N];
                widened<C>(k[i][j], values);
#pragma unroll
                for (int h = 0; h < GROUP; ++h) {
                    float of[N];
                    widened_pairs<T>(query + (h * padded + j * LANES * N) * sizeof(T), of);
#pragma unroll
                    for (u32 n = 0; n < N; ++n) scores[i][h] = fmaf(of[n], values[n], scores[i][h]);
                }
            }
        load(k, c.k, chunk + S::CHUNK);
#pragma unroll
        for (int h = 0; h < GROUP; ++h) {
            if (h >= heads) continue;
            float most = greatest[h];
#pragma unroll
            for (u32 i = 0; i < LOADS; ++i) {
#pragma unroll
                for (int offset = LANES / 2; offset > 0; offset /= 2) scores[i][h] += __shfl_xor_sync(0xffffffffu, scores[i][h], offset);
                u32 p = chunk + warp * S::EACH + i * S::SIDE + side;
                scores[i][h] *= a.scale;
                if (a.softcap != 0.0f) scores[i][h] = a.softcap * tanhf(scores[i][h] / a.softcap);
                if (p >= end || p < seen_from) scores[i][h] = -INFINITY;
                most = fmaxf(most, scores[i][h]);
            }
#pragma unroll
            for (int offset = LANES; offset < 32; offset *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, offset));
            float before = expf(greatest[h] - most);
            greatest[h] = most, sum[h] *= before;
#pragma unroll
            for (int j = 0; j < PIECES; ++j)
#pragma unroll
                for (u32 n = 0; n < N; ++n) out[h][j][n] *= before;
#pragma unroll
            for (u32 i = 0; i < LOADS; ++i) sum[h] += scores[i][h] = expf(scores[i][h] - most);
        }
        renew(v, 1, chunk);
#pragma unroll
        for (u32 i = 0; i < LOADS; ++i)
#pragma unroll
            for (int j = 0; j < PIECES; ++j) {
                float values[N];
                widened<C>(v[i][j], values);
#pragma unroll
                for (int h = 0; h < GROUP; ++h)
#pragma unroll
                    for (u32 n = 0; n < N; ++n) out[h][j][n] = fmaf(scores[i][h], values[n], out[h][j][n]);
            }
        load(v, c.v, chunk + S::CHUNK);
    }
    __syncthreads();
    // Of `parts`: (WARPS, GROUP, head_dim).
#pragma unroll
    for (int h = 0; h < GROUP; ++h) {
        if (h >= heads) continue;
#pragma unroll
        for (int offset = LANES; offset < 32; offset *= 2) sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], offset);
#pragma unroll
        for (int j = 0; j < PIECES; ++j)
#pragma unroll
            for (u32 n = 0; n < N; ++n) {
#pragma unroll
                for (int offset = LANES; offset < 32; offset *= 2) out[h][j][n] += __shfl_xor_sync(0xffffffffu, out[h][j][n], offset);
            }
        if (lane == 0) best[warp][h] = make_float2(greatest[h], sum[h]);
        if (side == 0) {
#pragma unroll
            for (int j = 0; j < PIECES; ++j) {
                u32 at_ = (piece + j * LANES) * N;
                float *to = parts + (warp * GROUP + h) * head_dim + at_;
#pragma unroll
                for (u32 n = 0; n < N; n += 4)
                    if (at_ < head_dim) *reinterpret_cast<float4 *>(to + n) = make_float4(out[h][j][n], out[h][j][n + 1], out[h][j][n + 2], out[h][j][n + 3]);
            }
        }
    }
    __syncthreads();
    u32 of = row * gridDim.y + blockIdx.y, part = head_dim + 2;
    const float *sinks = a.sinks ? at<const float>(a.sinks) + kv_head * group + begun : nullptr;
    T *to = at<T>(a.out) + (u64)row * a.stride + (kv_head * group + begun) * head_dim;
    float *left = at<float>(a.partials) + ((u64)of * MOST_SPLITS + blockIdx.x) * GROUP * part;
    for (u32 i = threadIdx.x; i < heads * head_dim; i += THREADS) {
        u32 h = i / head_dim;
        float most = LEAST, all = 0.0f, value = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) most = fmaxf(most, best[w][h].x);
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            float weight = expf(best[w][h].x - most);
            all = fmaf(best[w][h].y, weight, all);
            value = fmaf(parts[w * GROUP * head_dim + i], weight, value);
        }
        if (splits == 1) {
            to[i] = round_to<T>(value / (all + (sinks ? expf(sinks[h] - most) : 0.0f)));
            continue;
        }
        left[h * part + 2 + i % head_dim] = value;
        if (i % head_dim == 0) left[h * part] = most, left[h * part + 1] = all;
    }
    if (splits == 1) return;
    // Whoever arrives last sees what the others wrote.
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 *arrivals = at<u32>(a.arrivals) + of;
        last = atomicAdd(arrivals, 1) == splits - 1;
        if (last) *arrivals = 0;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    merge(at<const float>(a.partials) + ((u64)of * MOST_SPLITS + first_split) * GROUP * part, splits, heads, head_dim, sinks, memory, to);
}

#define KERNEL(T, NAME, C, CACHE, LANES, PIECES) \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) attend_##NAME##_##CACHE##_##LANES##x##PIECES(const __grid_constant__ AttendArgs a) { \
        attend<T, C, LANES, PIECES>(a); \
    }
#define KERNELS(T, NAME) \
    KERNEL(T, NAME, float, f32, 8, 1) KERNEL(T, NAME, float, f32, 16, 1) KERNEL(T, NAME, float, f32, 32, 1) KERNEL(T, NAME, float, f32, 32, 2) \
    KERNEL(T, NAME, half, f16, 8, 1) KERNEL(T, NAME, half, f16, 16, 1) KERNEL(T, NAME, half, f16, 32, 1) \
    KERNEL(T, NAME, __nv_bfloat16, bf16, 8, 1) KERNEL(T, NAME, __nv_bfloat16, bf16, 16, 1) KERNEL(T, NAME, __nv_bfloat16, bf16, 32, 1)
KERNELS(half, f16)
KERNELS(__nv_bfloat16, bf16)
