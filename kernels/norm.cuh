// The norm of a prompt's row, by a whole block. It also leaves the sums of 32 columns each, for weights with a minimum.
#pragma once
#include "common.cuh"

template <typename T>
__device__ __forceinline__ void normalize(const float *x, const float *weight, u32 hidden, u32 stride, float epsilon, float *scratch, T *out, float *sums) {
    float sum = 0.0f;
#pragma unroll 8
    for (u32 i = threadIdx.x; i < hidden; i += THREADS) sum = fmaf(x[i], x[i], sum);
    float scale = 1.0f / sqrtf(block_sum(sum, scratch) / (float)hidden + epsilon);
    // `stride` is a multiple of 64, so that whole warps go on.
#pragma unroll 4
    for (u32 i = threadIdx.x; i < stride; i += THREADS) {
        out[i] = round_to<T>(i < hidden ? x[i] * scale * weight[i] : 0.0f);
        float sum = warp_sum(widen(out[i]));
        if (i % 32 == 0) sums[i / 32] = sum;
    }
}
