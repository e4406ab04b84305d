// Squares of patches become tokens: concatenated or averaged, by blocks of THREADS columns of one token.
#include "common.cuh"

// The row of a token's patch; patches are counted row by row of the square.
__device__ __forceinline__ u32 patch_of(const VisionSquareArgs &a, u32 token, u32 patch) {
    if (!a.across) return token * a.side * a.side + patch;
    const u32 wide = a.across / a.side, down = patch / a.side;
    return (token / wide * a.side + down) * a.across + token % wide * a.side + patch % a.side;
}

template <typename T> __device__ __forceinline__ float read(const VisionSquareArgs &a, u32 row, u32 column) {
    const u64 from = (u64)row * a.x_stride + column;
    return a.x_rounded ? widen(at<const T>(a.x)[from]) : at<const float>(a.x)[from];
}

template <typename T> __device__ __forceinline__ void put(const VisionSquareArgs &a, u32 column, float value) {
    const u64 to = (u64)blockIdx.x * a.stride + column;
    if (a.rounded) at<T>(a.out)[to] = round_to<T>(value);
    else at<float>(a.out)[to] = value;
}

template <typename T> __device__ __forceinline__ void vision_merge(const VisionSquareArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    const u32 column = blockIdx.y * THREADS + threadIdx.x;
    if (column >= a.side * a.side * a.columns) return;
    put<T>(a, column, read<T>(a, patch_of(a, blockIdx.x, column / a.columns), column % a.columns));
}

template <typename T> __device__ __forceinline__ void vision_pool(const VisionSquareArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    const u32 column = blockIdx.y * THREADS + threadIdx.x, patches = a.side * a.side;
    if (column >= a.columns) return;
    float sum = 0.0f;
    for (u32 patch = 0; patch < patches; ++patch) sum += read<T>(a, patch_of(a, blockIdx.x, patch), column);
    float value = sum / (float)patches * a.scale;
    if (a.bias) value = (value - at<const float>(a.bias)[column]) * at<const float>(a.factor)[column];
    put<T>(a, column, value);
}

#define KERNELS(T, NAME) \
    extern "C" __global__ void __launch_bounds__(THREADS) \
        vision_merge_##NAME(const __grid_constant__ VisionSquareArgs a) { \
        vision_merge<T>(a); \
    } \
    extern "C" __global__ void __launch_bounds__(THREADS) \
        vision_pool_##NAME(const __grid_constant__ VisionSquareArgs a) { \
        vision_pool<T>(a); \
    }
KERNELS(half, f16)
KERNELS(__nv_bfloat16, bf16)
