// Attention over the cache, split by positions: a block takes SPLIT positions of one KV head for one row,
// and all query heads that share it; the last block of a row and head to arrive merges the parts in the
// order of their positions (Flash-Decoding, Dao et al. 2023). Splits lie at fixed positions and a row
// never meets another, so a row's bits do not depend on how many rows run.
#include "common.cuh"

#define SPLIT 256
// Query heads that share a KV head, taken at most so many at a time.
#define GROUP 8

// Part of one head: its maximum, its sum, its output, head_dim + 2 numbers.
template <typename T, typename C> __device__ __forceinline__ void attend(const AttendArgs &a) {
    Stopwatch stopwatch(a.stamp);
    extern __shared__ __align__(16) float memory[];
    if (is_padding(a.count, blockIdx.y)) return;
    u32 split = blockIdx.z, kv_head = blockIdx.x, row = blockIdx.y, group = a.heads / a.kv_heads;
    u32 position = *at<const u32>(a.position) + row, splits = position / SPLIT + 1, part = a.head_dim + 2;
    if (split >= splits) return;
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = split * SPLIT, count = min((u32)SPLIT, position + 1 - first);
    const C *cache_k = at<const C>(a.cache_k) + ((u64)kv_head * a.context + first) * a.head_dim;
    const C *cache_v = at<const C>(a.cache_v) + ((u64)kv_head * a.context + first) * a.head_dim;
    float *q = memory, *scores = q + GROUP * a.head_dim, *scratch = scores + GROUP * SPLIT, *halves = scratch + WARPS;
    float *partials = at<float>(a.partials) + (((u64)row * a.kv_heads + kv_head) * gridDim.z) * group * part;
    for (u32 begin = 0; begin < group; begin += GROUP) {
        u32 heads = min(group - begin, (u32)GROUP);
        __syncthreads();
        const T *from = at<const T>(a.q) + (u64)row * a.stride + (kv_head * group + begin) * a.head_dim;
        for (u32 i = threadIdx.x; i < heads * a.head_dim; i += THREADS) q[i] = widen(from[i]);
        __syncthreads();
        // One position a warp at a time, the lanes sharing its dimensions.
        for (u32 p = warp; p < count; p += WARPS) {
            float dots[GROUP] = {};
            for (u32 d = lane; d < a.head_dim; d += 32) {
                float k = widen(cache_k[(u64)p * a.head_dim + d]);
#pragma unroll
                for (int h = 0; h < GROUP; ++h)
                    if (h < heads) dots[h] = fmaf(q[h * a.head_dim + d], k, dots[h]);
            }
#pragma unroll
            for (int h = 0; h < GROUP; ++h) {
                float dot = warp_sum(dots[h]);
                if (h < heads && lane == 0) scores[h * SPLIT + p] = dot * a.scale;
            }
        }
        __syncthreads();
        // A warp a head: maximum, exponentials, sum.
        if (warp < heads) {
            float greatest = -INFINITY, sum = 0.0f;
            for (u32 p = lane; p < count; p += 32) greatest = fmaxf(greatest, scores[warp * SPLIT + p]);
#pragma unroll
            for (int offset = 16; offset > 0; offset /= 2) greatest = fmaxf(greatest, __shfl_xor_sync(0xffffffffu, greatest, offset));
            for (u32 p = lane; p < count; p += 32) {
                float weight = expf(scores[warp * SPLIT + p] - greatest);
                scores[warp * SPLIT + p] = weight;
                sum += weight;
            }
            sum = warp_sum(sum);
            if (lane == 0) {
                float *to = partials + ((u64)split * group + begin + warp) * part;
                to[0] = greatest;
                to[1] = sum;
            }
        }
        __syncthreads();
        // A thread a dimension; where there are fewer than threads, they share the positions.
        u32 shares = max(1u, THREADS / a.head_dim), share = threadIdx.x / a.head_dim;
        for (u32 d = threadIdx.x % a.head_dim; d < a.head_dim; d += THREADS) {
            float sums[GROUP] = {};
            if (share < shares) {
                for (u32 p = share; p < count; p += shares) {
                    float v = widen(cache_v[(u64)p * a.head_dim + d]);
#pragma unroll
                    for (int h = 0; h < GROUP; ++h)
                        if (h < heads) sums[h] = fmaf(scores[h * SPLIT + p], v, sums[h]);
                }
#pragma unroll
                for (int h = 0; h < GROUP; ++h)
                    if (h < heads) halves[(share * GROUP + h) * a.head_dim + d] = sums[h];
            }
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < heads * a.head_dim; i += THREADS) {
            u32 h = i / a.head_dim, d = i % a.head_dim;
            float sum = 0.0f;
            for (u32 s = 0; s < shares; ++s) sum += halves[(s * GROUP + h) * a.head_dim + d];
            partials[((u64)split * group + begin + h) * part + 2 + d] = sum;
        }
    }
    // Whoever arrives last sees what the others wrote.
    __threadfence();
    __syncthreads();
    __shared__ bool last;
    u32 *arrivals = at<u32>(a.arrivals) + row * a.kv_heads + kv_head;
    if (threadIdx.x == 0) {
        last = atomicAdd(arrivals, 1) == splits - 1;
        if (last) *arrivals = 0;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (u32 i = threadIdx.x; i < group * a.head_dim; i += THREADS) {
        u32 h = i / a.head_dim, d = i % a.head_dim;
        float greatest = -INFINITY, sum = 0.0f, out = 0.0f;
        for (u32 s = 0; s < splits; ++s) greatest = fmaxf(greatest, __ldcg(partials + ((u64)s * group + h) * part));
        for (u32 s = 0; s < splits; ++s) {
            const float *from = partials + ((u64)s * group + h) * part;
            float weight = expf(__ldcg(from) - greatest);
            sum = fmaf(weight, __ldcg(from + 1), sum);
            out = fmaf(weight, __ldcg(from + 2 + d), out);
        }
        at<T>(a.out)[(u64)row * a.stride + (kv_head * group + h) * a.head_dim + d] = round_to<T>(out / sum);
    }
}

#define KERNEL(T, NAME, C, CACHE) \
    extern "C" __global__ void __launch_bounds__(THREADS) attend_##NAME##_##CACHE(const __grid_constant__ AttendArgs a) { attend<T, C>(a); }
#define KERNELS(T, NAME) KERNEL(T, NAME, float, f32) KERNEL(T, NAME, half, f16) KERNEL(T, NAME, __nv_bfloat16, bf16)
KERNELS(half, f16)
KERNELS(__nv_bfloat16, bf16)
