// Matrix products, one block for each tile of 16 output rows, its warps sharing the columns.
#pragma once
#include "norm.cuh"
#include "tile.cuh"

// Shared memory of a block whose warps multiply 8 N input rows; a step keeps its normed row behind it.
template <int N> struct Block {
    float scratch[WARPS * 16 * 8 * N];
    float product[16 * 8 * N];
};

// Input rows of this block: those in memory, or the one normed here.
template <typename T, int N>
__device__ __forceinline__ Input<T> block_input(u64 input, u64 x, u64 norm, u32 rows, u32 hidden, u32 stride, float epsilon, Block<N> &block) {
    if (input) {
        u32 first = blockIdx.y * 8 * N;
        // Of padding nothing is read, and nothing written.
        return Input<T>{at<const T>(input) + (u64)first * stride, stride, rows > first ? min(rows - first, 8u * N) : 0};
    }
    T *row = reinterpret_cast<T *>(&block + 1);
    normalize(at<const float>(x), at<const float>(norm), hidden, stride, epsilon, block.scratch, row);
    __syncthreads();
    return Input<T>{row, stride, 1};
}

extern __shared__ __align__(16) u8 shared[];

// Kernels come in four: number type, and 8 or 64 input rows a block.
#define KERNELS(NAME, ARGS) \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME##_f16_8(const __grid_constant__ ARGS a) { NAME<half, 1>(a); } \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME##_f16_64(const __grid_constant__ ARGS a) { NAME<half, 8>(a); } \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME##_bf16_8(const __grid_constant__ ARGS a) { NAME<__nv_bfloat16, 1>(a); } \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME##_bf16_64(const __grid_constant__ ARGS a) { NAME<__nv_bfloat16, 8>(a); }
