// Sums of 32 columns each, which multiply the minima of formats that have them. A sum is two bf16, its value and its
// rounding error, because the tensor cores multiply minima (prompt/multiply.cuh).
#pragma once
#include "common.cuh"

// Two numbers as bf16, and their rounding errors, as bf16, too.
__device__ __forceinline__ void split_in_two(float first, float second, u32 &high, u32 &low) {
    __nv_bfloat162 rounded = __floats2bfloat162_rn(first, second);
    __nv_bfloat162 rest = __floats2bfloat162_rn(first - __low2float(rounded), second - __high2float(rounded));
    high = *reinterpret_cast<u32 *>(&rounded), low = *reinterpret_cast<u32 *>(&rest);
}

// The sums of 64 columns of sixteen rows: for each row both halves' values, then both rounding errors.
__device__ __forceinline__ u32 *sums_of_sixteen(u64 sums, u32 rows, u32 unit, u32 row) {
    return at<u32>(sums) + ((u64)unit * ((rows + 15) / 16) + row / 16) * 32;
}

// Stores the sums of 64 columns, by all threads of a warp; each of eight neighbours has the sum of eight columns.
__device__ __forceinline__ void leave_sums(u64 sums, u32 rows, u32 row, u32 column, u32 columns, float eight) {
    eight += __shfl_xor_sync(0xffffffffu, eight, 1);
    eight += __shfl_xor_sync(0xffffffffu, eight, 2);
    float second = __shfl_xor_sync(0xffffffffu, eight, 4);
    if (column % 64 != 0 || column >= columns) return;
    u32 *const to = sums_of_sixteen(sums, rows, column / 64, row) + row % 16 * 2;
    split_in_two(eight, second, to[0], to[1]);
}
