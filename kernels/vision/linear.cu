// What surrounds a product whose inputs and outputs are clamped (Gemma 4), or whose outputs begin at an uneven column:
// by blocks of THREADS columns of one row. Other products do it themselves (prompt/epilogue.cuh).
#include "common.cuh"

// A value within a range; not a number stays so.
__device__ __forceinline__ float bounded(float value, float least, float greatest) {
    if (value < least) value = least;
    return value > greatest ? greatest : value;
}

template <typename T> __device__ __forceinline__ void vision_clamp(const VisionClampArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    const u32 column = blockIdx.y * THREADS + threadIdx.x;
    if (column >= a.stride) return;
    float value = 0.0f;
    if (column < a.columns) {
        const u64 from = (u64)blockIdx.x * a.input_stride + column;
        value = a.rounded ? widen(at<const T>(a.input)[from]) : at<const float>(a.input)[from];
    }
    // Zero may be outside of the range, and the columns that pad a row must be zero.
    if (column < a.columns) value = bounded(value, a.least, a.greatest);
    at<T>(a.out)[(u64)blockIdx.x * a.stride + column] = round_to<T>(value);
}

template <typename T> __device__ __forceinline__ void vision_finish(const VisionFinishArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    const u32 column = blockIdx.y * THREADS + threadIdx.x;
    if (column >= a.columns) return;
    float value = bounded(at<const float>(a.y)[(u64)blockIdx.x * a.columns + column], a.least, a.greatest);
    value = activated_of_tower(a.activation, value);
    const u64 to = (u64)blockIdx.x * a.stride + column;
    if (a.rounded) at<T>(a.out)[to] = round_to<T>(value);
    else at<float>(a.out)[to] = a.adds ? at<float>(a.out)[to] + value : value;
}

#define KERNELS(T, NAME) \
    extern "C" __global__ void __launch_bounds__(THREADS) \
        vision_clamp_##NAME(const __grid_constant__ VisionClampArgs a) { \
        vision_clamp<T>(a); \
    } \
    extern "C" __global__ void __launch_bounds__(THREADS) \
        vision_finish_##NAME(const __grid_constant__ VisionFinishArgs a) { \
        vision_finish<T>(a); \
    }
KERNELS(half, f16)
KERNELS(__nv_bfloat16, bf16)
