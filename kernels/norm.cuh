// The norm of one row, by a whole block: the same code, and so the same bits, in a kernel of its own
// (prompts) and at the head of a matrix product (steps).
#pragma once
#include "common.cuh"

template <typename T>
__device__ __forceinline__ void normalize(const float *x, const float *weight, u32 hidden, u32 stride, float epsilon, float *scratch, T *out) {
    float scale = rms_scale(x, hidden, epsilon, scratch);
    for (u32 i = threadIdx.x; i < stride; i += THREADS) out[i] = round_to<T>(i < hidden ? x[i] * scale * weight[i] : 0.0f);
}
