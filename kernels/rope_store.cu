// Rotary embedding (Su et al. 2021) of q and k after an optional norm of each head (Qwen3); k and v go
// into the cache. One warp a head, one block column a row.
#include "common.cuh"

// Each lane holds the pairs lane, lane + 32, ... of a head: (i, i + head_dim / 2).
#define PAIRS 4

template <typename T, typename C> __device__ __forceinline__ void rope_store(const RopeStoreArgs &a) {
    Stopwatch stopwatch(a.stamp);
    if (is_padding(a.count, blockIdx.y)) return;
    u32 lane = threadIdx.x % 32, head = blockIdx.x * WARPS + threadIdx.x / 32, row = blockIdx.y, half_dim = a.head_dim / 2;
    if (head >= a.heads + 2 * a.kv_heads) return;
    u32 position = *at<const u32>(a.position) + row;
    bool is_q = head < a.heads, is_k = !is_q && head < a.heads + a.kv_heads;
    u32 index = head - (is_q ? 0 : is_k ? a.heads : a.heads + a.kv_heads), heads = is_q ? a.heads : a.kv_heads;
    const float *from = at<const float>(is_q ? a.q : is_k ? a.k : a.v) + ((u64)row * heads + index) * a.head_dim;
    float first[PAIRS], second[PAIRS];
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        u32 pair = lane + 32 * i;
        first[i] = pair < half_dim ? from[pair] : 0.0f;
        second[i] = pair < half_dim ? from[pair + half_dim] : 0.0f;
    }
    const float *norm = at<const float>(is_q ? a.q_norm : is_k ? a.k_norm : 0);
    if (norm) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) sum += first[i] * first[i] + second[i] * second[i];
        float scale = 1.0f / sqrtf(warp_sum(sum) / (float)a.head_dim + a.epsilon);
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            u32 pair = lane + 32 * i;
            if (pair < half_dim) first[i] = first[i] * scale * norm[pair], second[i] = second[i] * scale * norm[pair + half_dim];
        }
    }
    if (is_q || is_k) {
        // (position, head_dim / 2) of (cos, sin)
        const float2 *angles = at<const float2>(a.angles) + (u64)position * half_dim;
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            u32 pair = lane + 32 * i;
            if (pair >= half_dim) continue;
            float2 angle = angles[pair];
            float low = first[i] * angle.x - second[i] * angle.y;
            second[i] = second[i] * angle.x + first[i] * angle.y;
            first[i] = low;
        }
    }
    T *rotated = at<T>(a.rotated) + (u64)row * a.stride + index * a.head_dim;
    C *cache = at<C>(is_k ? a.cache_k : a.cache_v) + ((u64)index * a.context + position) * a.head_dim;
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        u32 pair = lane + 32 * i;
        if (pair >= half_dim) continue;
        if (is_q) {
            rotated[pair] = round_to<T>(first[i]);
            rotated[pair + half_dim] = round_to<T>(second[i]);
        } else {
            cache[pair] = round_to<C>(first[i]);
            cache[pair + half_dim] = round_to<C>(second[i]);
        }
    }
}

// Of a step and of a prompt: the same, but for how a multiprocessor's memory is divided.
#define KERNEL(T, NAME, C, CACHE) \
    extern "C" __global__ void __launch_bounds__(THREADS) rope_store_##NAME##_##CACHE(const __grid_constant__ RopeStoreArgs a) { rope_store<T, C>(a); } \
    extern "C" __global__ void __launch_bounds__(THREADS) prompt_rope_store_##NAME##_##CACHE(const __grid_constant__ RopeStoreArgs a) { rope_store<T, C>(a); }
#define KERNELS(T, NAME) KERNEL(T, NAME, float, f32) KERNEL(T, NAME, half, f16) KERNEL(T, NAME, __nv_bfloat16, bf16)
KERNELS(half, f16)
KERNELS(__nv_bfloat16, bf16)
