// The activation of a gate, times an input where there is one, by blocks of THREADS columns of one row.
#include "common.cuh"

template <typename T> __device__ __forceinline__ void gate(const GateArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    const u32 i = blockIdx.x * THREADS + threadIdx.x, row = blockIdx.y;
    if (i >= a.width || is_padding(a.count, row)) return;
    float x = at<const float>(a.gate)[(u64)row * a.width + i], value;
    if (a.activation == Activation::SquaredRelu) value = fmaxf(x, 0.0f) * fmaxf(x, 0.0f);
    else if (a.activation == Activation::Sigmoid) value = 1.0f / (1.0f + expf(-x));
    else value = activated_of_tower(a.activation, x);
    const u64 from = (u64)row * a.input_stride + i;
    if (a.input) value *= a.rounded ? widen(at<const T>(a.input)[from]) : at<const float>(a.input)[from];
    at<T>(a.out)[(u64)row * a.stride + i] = round_to<T>(value);
}

extern "C" __global__ void __launch_bounds__(THREADS) gate_f16(const __grid_constant__ GateArgs a) { gate<half>(a); }
extern "C" __global__ void __launch_bounds__(THREADS) gate_bf16(const __grid_constant__ GateArgs a) {
    gate<__nv_bfloat16>(a);
}
