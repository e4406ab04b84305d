// Rotates q, and stores rotated k, and v, in the cache: for a prompt's rows, and for a step's where attention does not
// do it. One warp a head, one block column a row.
#pragma once
#include "rope.cuh"

template <typename T, typename K, typename V> __device__ __forceinline__ void rope_store(const RopeStoreArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    const Cache &c = a.cache;
    u32 lane = threadIdx.x % 32, head = blockIdx.x * WARPS + threadIdx.x / 32, row = blockIdx.y;
    if (head >= c.heads + (a.k ? 2 * c.kv_heads : 0)) return;
    bool is_q = head < c.heads, is_k = !is_q && head < c.heads + c.kv_heads;
    u32 index = head - (is_q ? 0 : is_k ? c.heads : c.heads + c.kv_heads), heads = is_q ? c.heads : c.kv_heads;
    // Requested before the kernel knows whether the row exists; there are values in any case.
    Head values(c, at<const float>(is_q ? a.q : is_k ? a.k : a.v) + ((u64)row * heads + index) * c.head_dim, lane);
    NormWeights norm(c, at<const float>(is_q ? a.q_norm : is_k ? a.k_norm : 0), lane);
    const Row *mine = at<const Row>(c.places.rows) + (c.places.step ? row : 0);
    if (c.places.step ? mine->slot == NO_SLOT : row >= mine->count) return;
    u32 after = c.places.step ? 0 : row, position = mine->position + after;
    if (norm.all) values.normalize(c, norm, a.epsilon, lane);
    if (a.norms_v && !is_q && !is_k) values.normalize(c, a.epsilon);
    if (is_q || is_k) {
        if (a.shown) values.rotate(c, ShownAngles(a, row, lane), lane);
        else values.rotate(c, Angles(c, a.angles, mine->turned + after, lane), lane);
    }
    if (is_q) {
        values.scale(c, position);
        values.put<T>(c, at<T>(a.out) + (u64)row * a.stride + index * c.head_dim, lane);
        return;
    }
    u64 page = table_of(c, mine->slot)[position / PAGE], side = is_k ? c.k : c.v;
    auto keep = [&](auto side_of) {
        typedef typename decltype(side_of)::Type C;
        C *to = in_page<C>(page, side, c, index, position);
        if constexpr (sizeof(C) == 1) {
            __shared__ __align__(8) float plain[WARPS][MOST_HEAD_DIM];
            float *mine = plain[threadIdx.x / 32];
            values.template put<float>(c, mine, lane);
            __syncwarp();
            quantize(mine, c.head_dim, lane, to, scales_in_page(page, side, c, index, position));
        } else {
            values.template put<C>(c, to, lane);
        }
    };
    if constexpr (IsSame<K, V>::value) keep(SideOf<K>());
    else if (is_k) keep(SideOf<K>());
    else keep(SideOf<V>());
}

// Kernels for all types of a cache, whose names begin with PREFIX. Mixed caches are named by K's type, then V's.
#define ROPE_STORE(PREFIX, T, NAME, K, V) \
    extern "C" __global__ void __launch_bounds__(THREADS) PREFIX##_##NAME(const __grid_constant__ RopeStoreArgs a) { \
        rope_store<T, K, V>(a); \
    }
#define ROPE_STORES(PREFIX, T, NAME) \
    ROPE_STORE(PREFIX, T, NAME##_f32, float, float) \
    ROPE_STORE(PREFIX, T, NAME##_f16, half, half) \
    ROPE_STORE(PREFIX, T, NAME##_bf16, __nv_bfloat16, __nv_bfloat16) \
    ROPE_STORE(PREFIX, T, q8_##NAME, Q8, Q8) \
    ROPE_STORE(PREFIX, T, NAME##_f16_q8, half, Q8) \
    ROPE_STORE(PREFIX, T, NAME##_bf16_q8, __nv_bfloat16, Q8) \
    ROPE_STORE(PREFIX, T, NAME##_q8_f16, Q8, half) \
    ROPE_STORE(PREFIX, T, NAME##_q8_bf16, Q8, __nv_bfloat16)
