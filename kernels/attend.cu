// Attention over the cache, split by positions: at SPLIT positions of one KV head for one row, a block serves all
// query heads that share it. In a step a block takes one split and leaves its part to the last block of its head
// to arrive, which merges the parts in the order of their positions (Flash-Decoding, Dao et al. 2023); in a
// prompt a block takes all splits of its row, one after another, and merges as it goes. Splits lie at fixed
// positions, both ways merge by the same steps in the same order, and a row never meets another: so a row's bits
// do not depend on how many rows run.
#include "common.cuh"

#define SPLIT 64
// Query heads that share a KV head, taken at most so many at a time.
#define GROUP 4
// Threads that share a position's K.
#define QUAD (THREADS / SPLIT)
// Groups of threads that share a split's V.
#define MOST_SHARES 32

// 16 bytes of the cache.
template <typename C> struct Piece {
    static constexpr int N = 16 / sizeof(C);
    float values[N];

    __device__ __forceinline__ explicit Piece(const C *from) {
        uint4 bits = *reinterpret_cast<const uint4 *>(from);
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

// One split for `heads` query heads: leaves maximum and sum of each in `best`, and the shares of its output in
// `sums`, (shares, GROUP, head_dim).
template <typename C>
__device__ __forceinline__ void split_of(const C *cache_k, const C *cache_v, u32 count, u32 head_dim, u32 heads, u32 shares, float scale, const float *q,
                                         float *scores, float2 *best, float *sums) {
    constexpr int N = Piece<C>::N;
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, pieces = head_dim / N;
    u32 position = threadIdx.x / QUAD;
    float dots[GROUP] = {};
    if (position < count) {
#pragma unroll 4
        for (u32 j = threadIdx.x % QUAD; j < pieces; j += QUAD) {
            Piece<C> k(cache_k + (u64)position * head_dim + j * N);
#pragma unroll
            for (int h = 0; h < GROUP; ++h)
#pragma unroll
                for (int n = 0; n < N; ++n) dots[h] = fmaf(q[h * head_dim + j * N + n], k.values[n], dots[h]);
        }
    }
#pragma unroll
    for (int h = 0; h < GROUP; ++h) {
#pragma unroll
        for (int offset = QUAD / 2; offset > 0; offset /= 2) dots[h] += __shfl_xor_sync(0xffffffffu, dots[h], offset);
        if (threadIdx.x % QUAD == 0) scores[h * SPLIT + position] = position < count ? dots[h] * scale : -INFINITY;
    }
    __syncthreads();
    // A warp a head: maximum, exponentials, sum. Positions that are not there weigh nothing.
    if (warp < heads) {
        float *mine = scores + warp * SPLIT;
        float greatest = -INFINITY, sum = 0.0f;
#pragma unroll
        for (u32 p = lane; p < SPLIT; p += 32) greatest = fmaxf(greatest, mine[p]);
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) greatest = fmaxf(greatest, __shfl_xor_sync(0xffffffffu, greatest, offset));
#pragma unroll
        for (u32 p = lane; p < SPLIT; p += 32) sum += mine[p] = expf(mine[p] - greatest);
        sum = warp_sum(sum);
        if (lane == 0) best[warp] = make_float2(greatest, sum);
    }
    __syncthreads();
    u32 piece = threadIdx.x % pieces, share = threadIdx.x / pieces;
    if (share >= shares) return;
    float parts[GROUP][N] = {};
#pragma unroll 4
    for (u32 p = share; p < count; p += shares) {
        Piece<C> v(cache_v + (u64)p * head_dim + piece * N);
#pragma unroll
        for (int h = 0; h < GROUP; ++h)
#pragma unroll
            for (int n = 0; n < N; ++n) parts[h][n] = fmaf(scores[h * SPLIT + p], v.values[n], parts[h][n]);
    }
#pragma unroll
    for (int h = 0; h < GROUP; ++h)
#pragma unroll
        for (int n = 0; n < N; ++n) sums[(share * GROUP + h) * head_dim + piece * N + n] = parts[h][n];
}

// A part of a step's head: its maximum, its sum, its output, head_dim + 2 numbers.
template <typename T, typename C> __device__ __forceinline__ void attend(const AttendArgs &a) {
    Stopwatch stopwatch(a.stamp);
    if (is_padding(a.count, blockIdx.y)) return;
    extern __shared__ __align__(16) float memory[];
    __shared__ float2 best[GROUP];
    __shared__ bool last;
    u32 kv_head = blockIdx.x, row = blockIdx.y, head_dim = a.head_dim, group = a.heads / a.kv_heads, part = head_dim + 2;
    u32 position = *at<const u32>(a.position) + row, splits = position / SPLIT + 1;
    bool alone = gridDim.z == 1;
    u32 begin_split = blockIdx.z, end_split = alone ? splits : begin_split + 1;
    if (begin_split >= splits) return;
    u32 shares = min((u32)(THREADS * Piece<C>::N) / head_dim, (u32)MOST_SHARES);
    float *q = memory, *scores = q + GROUP * head_dim, *sums = scores + GROUP * SPLIT;
    const C *cache_k = at<const C>(a.cache_k) + (u64)kv_head * a.context * head_dim;
    const C *cache_v = at<const C>(a.cache_v) + (u64)kv_head * a.context * head_dim;
    const T *from = at<const T>(a.q) + (u64)row * a.stride + kv_head * group * head_dim;
    T *out = at<T>(a.out) + (u64)row * a.stride + kv_head * group * head_dim;
    float *partials = at<float>(a.partials) + (u64)kv_head * gridDim.z * group * part;
    for (u32 first = 0; first < group; first += GROUP) {
        u32 heads = min(group - first, (u32)GROUP);
        __syncthreads();
        for (u32 i = threadIdx.x; i < GROUP * head_dim; i += THREADS) q[i] = i < heads * head_dim ? widen(from[first * head_dim + i]) : 0.0f;
        __syncthreads();
        // GROUP heads of at most THREADS numbers each.
        Merged merged[GROUP];
        for (u32 split = begin_split; split < end_split; ++split) {
            u64 skip = (u64)split * SPLIT * head_dim;
            u32 count = min((u32)SPLIT, position + 1 - split * SPLIT);
            split_of(cache_k + skip, cache_v + skip, count, head_dim, heads, shares, a.scale, q, scores, best, sums);
            __syncthreads();
#pragma unroll
            for (int e = 0; e < GROUP; ++e) {
                u32 i = threadIdx.x + e * THREADS, h = i / head_dim;
                if (h >= heads) continue;
                float sum = 0.0f;
                for (u32 s = 0; s < shares; ++s) sum += sums[s * GROUP * head_dim + i];
                if (alone) {
                    merged[e].add(best[h].x, best[h].y, sum);
                } else {
                    float *to = partials + ((u64)split * group + first + h) * part;
                    to[2 + i % head_dim] = sum;
                    if (i % head_dim == 0) to[0] = best[h].x, to[1] = best[h].y;
                }
            }
            __syncthreads();
        }
#pragma unroll
        for (int e = 0; e < GROUP; ++e) {
            u32 i = threadIdx.x + e * THREADS;
            if (alone && i < heads * head_dim) out[first * head_dim + i] = round_to<T>(merged[e].out / merged[e].sum);
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
    for (u32 i = threadIdx.x; i < group * head_dim; i += THREADS) {
        const float *of = partials + i / head_dim * part;
        Merged merged;
#pragma unroll 4
        for (u32 s = 0; s < splits; ++s, of += group * part) merged.add(__ldcg(of), __ldcg(of + 1), __ldcg(of + 2 + i % head_dim));
        out[i] = round_to<T>(merged.out / merged.sum);
    }
}

#define KERNEL(T, NAME, C, CACHE) \
    extern "C" __global__ void __launch_bounds__(THREADS) attend_##NAME##_##CACHE(const __grid_constant__ AttendArgs a) { attend<T, C>(a); }
#define KERNELS(T, NAME) KERNEL(T, NAME, float, f32) KERNEL(T, NAME, half, f16) KERNEL(T, NAME, __nv_bfloat16, bf16)
KERNELS(half, f16)
KERNELS(__nv_bfloat16, bf16)
