// Attention of a step over the cache, split by positions: at the positions of one split of one KV head, a block serves
// all query heads that share it. It leaves its part to the last block of its head to arrive, which merges the parts
// (Flash-Decoding, Dao et al. 2023). Where splits begin depends on the row's own position alone, and parts are merged in
// one order: so a row's bits depend neither on the grid nor on other rows.
//
// A prompt whose types the tensor cores do not multiply comes here too: a block then takes all of its row, one chunk
// after another, and merges as it goes.
#include "common.cuh"

// Positions at a time.
#define CHUNK 128
// Splits of a row; longer rows have longer ones.
#define MOST_SPLITS 64
// Query heads that share a KV head, taken at most so many at a time.
#define GROUP 4
// Threads that share a position's K.
#define PAIR (THREADS / CHUNK)
// Groups of threads that share a chunk's V.
#define MOST_SHARES 32
// Pieces of V that a thread asks for before the softmax.
#define AHEAD 8

// 16 bytes of the cache.
template <typename C> struct Piece {
    static constexpr int N = 16 / sizeof(C);
    float values[N];

    __device__ __forceinline__ explicit Piece(const uint4 &bits) {
        const C *each = reinterpret_cast<const C *>(&bits);
#pragma unroll
        for (int n = 0; n < N; ++n) values[n] = widen(each[n]);
    }
};

// Softmax over some positions, and what they add up to: merged with the next ones, always by these steps.
struct Merged {
    float greatest = -INFINITY, sum = 0.0f, out = 0.0f;

    __device__ __forceinline__ void add(float other_greatest, float other_sum, float other_out) {
        float both = fmaxf(greatest, other_greatest), mine = expf(greatest - both), its = expf(other_greatest - both);
        sum = fmaf(sum, mine, __fmul_rn(other_sum, its));
        out = fmaf(out, mine, __fmul_rn(other_out, its));
        greatest = both;
    }
};

// One chunk for `heads` query heads: leaves maximum and sum of each in `best`, and the shares of its output in
// `sums`, (shares, GROUP, head_dim).
template <typename C>
__device__ __forceinline__ void chunk_of(const C *cache_k, const C *cache_v, u32 count, u32 head_dim, u32 heads, u32 shares, float scale, const float *q,
                                         float *scores, float2 *best, float *sums) {
    constexpr int N = Piece<C>::N;
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, pieces = head_dim / N;
    u32 position = threadIdx.x / PAIR, piece = threadIdx.x % pieces, share = threadIdx.x / pieces;
    auto read = [](const C *from) { return *reinterpret_cast<const uint4 *>(from); };
    uint4 ahead[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i)
        if (share < shares && share + i * shares < count) ahead[i] = read(cache_v + (u64)(share + i * shares) * head_dim + piece * N);
    float dots[GROUP] = {};
    if (position < count) {
#pragma unroll 4
        for (u32 j = threadIdx.x % PAIR; j < pieces; j += PAIR) {
            Piece<C> k(read(cache_k + (u64)position * head_dim + j * N));
#pragma unroll
            for (int h = 0; h < GROUP; ++h)
#pragma unroll
                for (int n = 0; n < N; ++n) dots[h] = fmaf(q[h * head_dim + j * N + n], k.values[n], dots[h]);
        }
    }
#pragma unroll
    for (int h = 0; h < GROUP; ++h) {
#pragma unroll
        for (int offset = PAIR / 2; offset > 0; offset /= 2) dots[h] += __shfl_xor_sync(0xffffffffu, dots[h], offset);
        if (threadIdx.x % PAIR == 0) scores[h * CHUNK + position] = position < count ? dots[h] * scale : -INFINITY;
    }
    __syncthreads();
    // A warp a head: maximum, exponentials, sum. Positions that are not there weigh nothing.
    if (warp < heads) {
        float *mine = scores + warp * CHUNK;
        float greatest = -INFINITY, sum = 0.0f;
#pragma unroll
        for (u32 p = lane; p < CHUNK; p += 32) greatest = fmaxf(greatest, mine[p]);
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) greatest = fmaxf(greatest, __shfl_xor_sync(0xffffffffu, greatest, offset));
#pragma unroll
        for (u32 p = lane; p < CHUNK; p += 32) sum += mine[p] = expf(mine[p] - greatest);
        sum = warp_sum(sum);
        if (lane == 0) best[warp] = make_float2(greatest, sum);
    }
    __syncthreads();
    if (share >= shares) return;
    float parts[GROUP][N] = {};
    auto add = [&](u32 p, const uint4 &bits) {
        Piece<C> v(bits);
#pragma unroll
        for (int h = 0; h < GROUP; ++h)
#pragma unroll
            for (int n = 0; n < N; ++n) parts[h][n] = fmaf(scores[h * CHUNK + p], v.values[n], parts[h][n]);
    };
#pragma unroll
    for (int i = 0; i < AHEAD; ++i)
        if (share + i * shares < count) add(share + i * shares, ahead[i]);
#pragma unroll 4
    for (u32 p = share + AHEAD * shares; p < count; p += shares) add(p, read(cache_v + (u64)p * head_dim + piece * N));
#pragma unroll
    for (int h = 0; h < GROUP; ++h)
#pragma unroll
        for (int n = 0; n < N; ++n) sums[(share * GROUP + h) * head_dim + piece * N + n] = parts[h][n];
}

// Merges the parts of `splits` for a KV head's queries: their weights by one warp a head, then the sums.
template <typename T> __device__ __forceinline__ void merge(const float *partials, u32 splits, u32 group, u32 head_dim, float *weights, T *out) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = head_dim + 2;
    for (u32 first = 0; first < group; first += GROUP) {
        u32 heads = min(group - first, (u32)GROUP);
        __syncthreads();
        if (warp < heads) {
            const float *of = partials + (u64)(first + warp) * part;
            float greatest[MOST_SPLITS / 32], mine[MOST_SPLITS / 32], most = -INFINITY, sum = 0.0f;
#pragma unroll
            for (int i = 0; i < MOST_SPLITS / 32; ++i) {
                u32 s = lane + 32 * i;
                bool there = s < splits;
                greatest[i] = there ? __ldcg(of + (u64)s * group * part) : -INFINITY;
                mine[i] = there ? __ldcg(of + (u64)s * group * part + 1) : 0.0f;
                most = fmaxf(most, greatest[i]);
            }
#pragma unroll
            for (int offset = 16; offset > 0; offset /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, offset));
#pragma unroll
            for (int i = 0; i < MOST_SPLITS / 32; ++i) {
                greatest[i] = expf(greatest[i] - most);
                sum = fmaf(mine[i], greatest[i], sum);
            }
            sum = warp_sum(sum);
#pragma unroll
            for (int i = 0; i < MOST_SPLITS / 32; ++i) weights[warp * MOST_SPLITS + lane + 32 * i] = greatest[i] / sum;
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < heads * head_dim; i += THREADS) {
            u32 h = i / head_dim;
            const float *of = partials + (u64)(first + h) * part + 2 + i % head_dim;
            float sum = 0.0f;
#pragma unroll 16
            for (u32 s = 0; s < splits; ++s) sum = fmaf(weights[h * MOST_SPLITS + s], __ldcg(of + (u64)s * group * part), sum);
            out[first * head_dim + i] = round_to<T>(sum);
        }
    }
}

// A part of a step's head: its maximum, its sum, its output, head_dim + 2 numbers.
template <typename T, typename C> __device__ __forceinline__ void attend(const AttendArgs &a) {
    Stopwatch stopwatch(a.stamp);
    if (is_padding(a.count, blockIdx.y)) return;
    extern __shared__ __align__(16) float memory[];
    __shared__ float2 best[GROUP];
    __shared__ bool last;
    u32 kv_head = blockIdx.x, row = blockIdx.y, head_dim = a.head_dim, group = a.heads / a.kv_heads, part = head_dim + 2;
    u32 length = *at<const u32>(a.position) + row + 1, split = CHUNK;
    bool alone = gridDim.z == 1 && a.count;
    while (!alone && split * MOST_SPLITS < length) split *= 2;
    u32 splits = (length + split - 1) / split, begin = alone ? 0 : blockIdx.z * split, end = alone ? length : min(length, begin + split);
    if (begin >= length) return;
    u32 shares = min((u32)(THREADS * Piece<C>::N) / head_dim, (u32)MOST_SHARES);
    float *q = memory, *scores = q + GROUP * head_dim, *sums = scores + GROUP * CHUNK;
    const C *cache_k = at<const C>(a.cache_k) + (u64)kv_head * a.context * head_dim;
    const C *cache_v = at<const C>(a.cache_v) + (u64)kv_head * a.context * head_dim;
    const T *from = at<const T>(a.q) + (u64)row * a.stride + kv_head * group * head_dim;
    T *out = at<T>(a.out) + (u64)row * a.stride + kv_head * group * head_dim;
    float *partials = at<float>(a.partials) + (u64)kv_head * MOST_SPLITS * group * part;
    for (u32 first = 0; first < group; first += GROUP) {
        u32 heads = min(group - first, (u32)GROUP);
        __syncthreads();
        for (u32 i = threadIdx.x; i < GROUP * head_dim; i += THREADS) q[i] = i < heads * head_dim ? widen(from[first * head_dim + i]) : 0.0f;
        __syncthreads();
        // GROUP heads of at most THREADS numbers each.
        Merged merged[GROUP];
        for (u32 chunk = begin; chunk < end; chunk += CHUNK) {
            u64 skip = (u64)chunk * head_dim;
            chunk_of(cache_k + skip, cache_v + skip, min((u32)CHUNK, end - chunk), head_dim, heads, shares, a.scale, q, scores, best, sums);
            __syncthreads();
#pragma unroll
            for (int e = 0; e < GROUP; ++e) {
                u32 i = threadIdx.x + e * THREADS, h = i / head_dim;
                if (h >= heads) continue;
                float sum = 0.0f;
                for (u32 s = 0; s < shares; ++s) sum += sums[s * GROUP * head_dim + i];
                merged[e].add(best[h].x, best[h].y, sum);
            }
            __syncthreads();
        }
#pragma unroll
        for (int e = 0; e < GROUP; ++e) {
            u32 i = threadIdx.x + e * THREADS, h = i / head_dim;
            if (h >= heads) continue;
            if (alone) {
                out[first * head_dim + i] = round_to<T>(merged[e].out / merged[e].sum);
                continue;
            }
            float *to = partials + ((u64)blockIdx.z * group + first + h) * part;
            to[2 + i % head_dim] = merged[e].out;
            if (i % head_dim == 0) to[0] = merged[e].greatest, to[1] = merged[e].sum;
        }
    }
    if (alone) return;
    // Whoever arrives last sees what the others wrote.
    __threadfence();
    __syncthreads();
    u32 *arrivals = at<u32>(a.arrivals) + kv_head;
    if (threadIdx.x == 0) {
        last = atomicAdd(arrivals, 1) == splits - 1;
        if (last) *arrivals = 0;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    merge(partials, splits, group, head_dim, scores, out);
}

#define KERNEL(T, NAME, C, CACHE) \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) attend_##NAME##_##CACHE(const __grid_constant__ AttendArgs a) { attend<T, C>(a); }
#define KERNELS(T, NAME) KERNEL(T, NAME, float, f32) KERNEL(T, NAME, half, f16) KERNEL(T, NAME, __nv_bfloat16, bf16)
KERNELS(half, f16)
KERNELS(__nv_bfloat16, bf16)
