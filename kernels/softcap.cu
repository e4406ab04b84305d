// Bounds logits: cap tanh(logit / cap), by blocks of THREADS logits of one row.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) softcap(const __grid_constant__ SoftcapArgs a) {
    LaunchTurn launch_turn(a.stamp);
    const u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= a.vocabulary) return;
    float *logit = at<float>(a.logits) + (u64)blockIdx.y * a.vocabulary + i;
    *logit = a.cap * tanhf(*logit / a.cap);
}
