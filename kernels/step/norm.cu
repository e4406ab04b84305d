// RMS norm of the rows of a step of several: one block a row.
#include "norm.cuh"

template <typename T> __device__ __forceinline__ void norm(const NormArgs &a) {
    Stopwatch stopwatch(a.stamp, LATER);
    norm_row<T>(a, blockIdx.x, [&] { stopwatch.our_turn(); });
}

extern "C" __global__ void __launch_bounds__(THREADS) step_norm_f16(const __grid_constant__ NormArgs a) { norm<half>(a); }
extern "C" __global__ void __launch_bounds__(THREADS) step_norm_bf16(const __grid_constant__ NormArgs a) { norm<__nv_bfloat16>(a); }
