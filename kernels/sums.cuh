// Sums of 32 columns each, which formats with a minimum multiply: as two bf16 whose sum has 16 bits of them, for the tensor cores
// multiply minima (product.cuh).
#pragma once
#include "common.cuh"

// Two numbers as bf16, and what these lack of them, as bf16 too.
__device__ __forceinline__ void split_in_two(float first, float second, u32 &high, u32 &low) {
    __nv_bfloat162 rounded = __floats2bfloat162_rn(first, second);
    __nv_bfloat162 rest = __floats2bfloat162_rn(first - __low2float(rounded), second - __high2float(rounded));
    high = *reinterpret_cast<u32 *>(&rounded), low = *reinterpret_cast<u32 *>(&rest);
}

// Where the sums of a row lie in 64 columns: those of neighbouring rows side by side, so that a tile's are one piece of memory.
__device__ __forceinline__ uint2 *sums_at(u64 sums, u32 rows, u32 unit, u32 row) { return at<uint2>(sums) + (u64)unit * (rows + rows % 2) + row; }

// Of 64 columns, by all threads of a warp, of which eight neighbours have the sums of eight columns each: both halves' numbers, then
// what those lack.
__device__ __forceinline__ void leave_sums(u64 sums, u32 rows, u32 row, u32 column, u32 columns, float eight) {
    eight += __shfl_xor_sync(0xffffffffu, eight, 1);
    eight += __shfl_xor_sync(0xffffffffu, eight, 2);
    float second = __shfl_xor_sync(0xffffffffu, eight, 4);
    if (column % 64 != 0 || column >= columns) return;
    uint2 both;
    split_in_two(eight, second, both.x, both.y);
    *sums_at(sums, rows, column / 64, row) = both;
}
