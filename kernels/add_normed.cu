// Adds the RMS norm (Zhang and Sennrich 2019) of a result to the residual stream, in f32, and multiplies it by a
// layer's factor: one block a row.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) add_normed(const __grid_constant__ AddNormedArgs a) {
    LaunchTurn launch_turn(a.stamp);
    if (is_padding(a.count, blockIdx.x)) return;
    __shared__ float scratch[WARPS];
    const float *y = at<const float>(a.y) + (u64)blockIdx.x * a.hidden, *weight = at<const float>(a.weight);
    float *x = at<float>(a.x) + (u64)blockIdx.x * a.hidden, sum = 0.0f;
    for (u32 i = threadIdx.x; i < a.hidden; i += THREADS) sum = fmaf(y[i], y[i], sum);
    const float scale = 1.0f / sqrtf(block_sum(sum, scratch) / (float)a.hidden + a.epsilon);
    const float by = a.scale ? *at<const float>(a.scale) : 1.0f;
    for (u32 i = threadIdx.x; i < a.hidden; i += THREADS) x[i] = by * (x[i] + y[i] * scale * weight[i]);
}
