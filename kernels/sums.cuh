// Sums of 32 columns each, which formats with a minimum multiply.
#pragma once
#include "common.cuh"

// The sum of 32 columns, of which each of four neighbouring threads has that of eight: by all threads of a warp.
__device__ __forceinline__ void leave_sum(float *sums, u32 column, u32 columns, float eight) {
    eight += __shfl_xor_sync(0xffffffffu, eight, 1);
    eight += __shfl_xor_sync(0xffffffffu, eight, 2);
    if (column % 32 == 0 && column < columns) sums[column / 32] = eight;
}
