// RMS norm of prompt rows (Zhang and Sennrich 2019), rounded to the activations' type: one block a row.
#include "norm.cuh"

template <typename T> __device__ __forceinline__ void norm(const NormArgs &a) {
    Stopwatch stopwatch(a.stamp);
    if (is_padding(a.count, blockIdx.x)) return;
    __shared__ float scratch[WARPS];
    normalize(at<const float>(a.x) + (u64)blockIdx.x * a.hidden, at<const float>(a.weight), a.hidden, a.stride, a.epsilon, scratch,
              at<T>(a.out) + (u64)blockIdx.x * a.stride, at<float>(a.sums) + (u64)blockIdx.x * (a.stride / 32));
}

extern "C" __global__ void __launch_bounds__(THREADS) norm_f16(const __grid_constant__ NormArgs a) { norm<half>(a); }
extern "C" __global__ void __launch_bounds__(THREADS) norm_bf16(const __grid_constant__ NormArgs a) { norm<__nv_bfloat16>(a); }
