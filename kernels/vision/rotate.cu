// Norms the heads of q, k and v, and turns those of q and k in two dimensions: one warp a head.
#include "common.cuh"

// Pairs of a head that a lane holds, at most: src/cuda/limits.rs has the widest head.
#define HELD_PAIRS 4

template <typename T> __device__ __forceinline__ void vision_rotate(const VisionRotateArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    const u32 lane = threadIdx.x % 32, head = blockIdx.y * WARPS + threadIdx.x / 32, row = blockIdx.x;
    if (head >= 3 * a.heads) return;
    const u32 which = head / a.heads, pairs = a.head_dim / 2, of_part = pairs / a.parts;
    const float *from = at<const float>(a.qkv) + ((u64)row * 3 * a.heads + head) * a.head_dim;
    // An element pairs with the one half a part later.
    auto first_of = [&](u32 pair) { return pair + pair / of_part * of_part; };
    float first[HELD_PAIRS], second[HELD_PAIRS], sum = 0.0f;
#pragma unroll
    for (u32 i = 0; i < HELD_PAIRS; ++i) {
        const u32 pair = i * 32 + lane;
        first[i] = second[i] = 0.0f;
        if (pair < pairs) first[i] = from[first_of(pair)], second[i] = from[first_of(pair) + of_part];
        sum += first[i] * first[i] + second[i] * second[i];
    }
    const float *norm = at<const float>(which == 0 ? a.q_norm : which == 1 ? a.k_norm : 0);
    if (norm || (which == 2 && a.norms_v)) {
        const float scale = 1.0f / sqrtf(warp_sum(sum) / (float)a.head_dim + a.epsilon);
#pragma unroll
        for (u32 i = 0; i < HELD_PAIRS; ++i) {
            const u32 pair = i * 32 + lane;
            first[i] *= scale, second[i] *= scale;
            if (norm && pair < pairs) first[i] *= norm[first_of(pair)], second[i] *= norm[first_of(pair) + of_part];
        }
    }
    const float2 *turns = at<const float2>(a.turns) + (u64)row * pairs;
    T *to = at<T>(a.out) + (u64)row * a.stride + head * a.head_dim;
#pragma unroll
    for (u32 i = 0; i < HELD_PAIRS; ++i) {
        const u32 pair = i * 32 + lane;
        if (pair >= pairs) break;
        float low = first[i], high = second[i];
        if (which < 2) {
            const float2 turn = turns[pair];
            low = first[i] * turn.x - second[i] * turn.y, high = second[i] * turn.x + first[i] * turn.y;
        }
        to[first_of(pair)] = round_to<T>(low), to[first_of(pair) + of_part] = round_to<T>(high);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) vision_rotate_f16(const __grid_constant__ VisionRotateArgs a) {
    vision_rotate<half>(a);
}
extern "C" __global__ void __launch_bounds__(THREADS) vision_rotate_bf16(const __grid_constant__ VisionRotateArgs a) {
    vision_rotate<__nv_bfloat16>(a);
}
