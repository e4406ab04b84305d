// RMS norms of groups of columns, with a gate before or after them. A warp has a narrow group, a block a wide one.
#include "common.cuh"

// The widest group of one warp, as in src/cuda/recurrent.rs.
#define NARROW 256

template <typename T> __device__ __forceinline__ void gated_norm(const GatedNormArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    if (is_padding(a.count, blockIdx.y)) return;
    __shared__ float scratch[WARPS];
    const bool narrow = a.group <= NARROW;
    const u32 group = narrow ? blockIdx.x * WARPS + threadIdx.x / 32 : blockIdx.x, first = group * a.group;
    const u32 begin = narrow ? threadIdx.x % 32 : threadIdx.x, by = narrow ? 32 : THREADS;
    if (first >= a.columns) return;
    const u64 from = (u64)blockIdx.y * a.columns + first;
    const float *y = at<const float>(a.y) + from, *gate = at<const float>(a.gate) + from;
    const float *norm = at<const float>(a.norm) + (a.shared ? 0 : first);
    T *out = at<T>(a.out) + (u64)blockIdx.y * a.stride + first;
    const auto factor = [&](u32 i) { return gate[i] / (1.0f + expf(-gate[i])); };
    const auto value = [&](u32 i) { return a.gate_first ? y[i] * factor(i) : y[i]; };
    float sum = 0.0f;
    for (u32 i = begin; i < a.group; i += by) {
        const float one = value(i);
        sum = fmaf(one, one, sum);
    }
    sum = narrow ? warp_sum(sum) : block_sum(sum, scratch);
    const float scale = 1.0f / sqrtf(sum / (float)a.group + a.epsilon);
    for (u32 i = begin; i < a.group; i += by) {
        const float normed = value(i) * scale * norm[i];
        out[i] = round_to<T>(a.gate_first ? normed : normed * factor(i));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) gated_norm_f16(const __grid_constant__ GatedNormArgs a) {
    gated_norm<half>(a);
}
extern "C" __global__ void __launch_bounds__(THREADS) gated_norm_bf16(const __grid_constant__ GatedNormArgs a) {
    gated_norm<__nv_bfloat16>(a);
}
