// RMS norm of prompt rows: one block a row.
#include "norm.cuh"

template <typename T> __device__ __forceinline__ void norm(const NormArgs &a) {
    Stopwatch stopwatch(a.stamp);
    if (!is_padding(a.count, blockIdx.x)) norm_row<T>(a, blockIdx.x, [] {});
}

extern "C" __global__ void __launch_bounds__(THREADS) norm_f16(const __grid_constant__ NormArgs a) { norm<half>(a); }
extern "C" __global__ void __launch_bounds__(THREADS) norm_bf16(const __grid_constant__ NormArgs a) { norm<__nv_bfloat16>(a); }
