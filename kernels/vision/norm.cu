// Norms of the rows of a vision tower: layer norm (Ba et al. 2016) or RMS norm (Zhang and Sennrich 2019), one block a
// row.
#include "common.cuh"

template <typename T> __device__ __forceinline__ void vision_norm(const VisionNormArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    __shared__ float scratch[WARPS];
    const float *x = at<const float>(a.x) + (u64)blockIdx.x * a.columns;
    const float *weight = at<const float>(a.weight), *bias = at<const float>(a.bias);
    // The first columns stay in registers.
    constexpr u32 KEPT = 8, HELD = KEPT * THREADS;
    float kept[KEPT], sum = 0.0f;
#pragma unroll
    for (u32 k = 0; k < KEPT; ++k) {
        const u32 column = k * THREADS + threadIdx.x;
        kept[k] = column < a.columns ? x[column] : 0.0f;
        sum += kept[k];
    }
    for (u32 column = HELD + threadIdx.x; column < a.columns; column += THREADS) sum += x[column];
    const float mean = a.centered ? block_sum(sum, scratch) / (float)a.columns : 0.0f;
    float squares = 0.0f;
#pragma unroll
    for (u32 k = 0; k < KEPT; ++k) {
        kept[k] -= mean;
        if (k * THREADS + threadIdx.x < a.columns) squares = fmaf(kept[k], kept[k], squares);
    }
    for (u32 column = HELD + threadIdx.x; column < a.columns; column += THREADS) {
        const float value = x[column] - mean;
        squares = fmaf(value, value, squares);
    }
    const float scale = 1.0f / sqrtf(block_sum(squares, scratch) / (float)a.columns + a.epsilon);
    const u64 to = (u64)blockIdx.x * a.stride;
    auto put = [&](u32 column, float value) {
        value *= scale;
        if (weight) value *= weight[column];
        if (bias) value += bias[column];
        if (a.rounded) at<T>(a.out)[to + column] = round_to<T>(value);
        else at<float>(a.out)[to + column] = value;
    };
#pragma unroll
    for (u32 k = 0; k < KEPT; ++k)
        if (k * THREADS + threadIdx.x < a.columns) put(k * THREADS + threadIdx.x, kept[k]);
    for (u32 column = HELD + threadIdx.x; column < a.columns; column += THREADS) put(column, x[column] - mean);
}

extern "C" __global__ void __launch_bounds__(THREADS) vision_norm_f16(const __grid_constant__ VisionNormArgs a) {
    vision_norm<half>(a);
}
extern "C" __global__ void __launch_bounds__(THREADS) vision_norm_bf16(const __grid_constant__ VisionNormArgs a) {
    vision_norm<__nv_bfloat16>(a);
}
