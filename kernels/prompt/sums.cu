// Sums of a prompt's inputs over 32 columns each, for formats with a minimum: eight columns a thread, a block a row.
#include "sums.cuh"

template <typename T> __device__ __forceinline__ void column_sums(const SumsArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    u32 row = blockIdx.x;
    if (is_padding(a.count, row)) return;
    const T *from = at<const T>(a.input) + (u64)row * a.stride;
    // `stride` is a multiple of 64: eight neighbouring threads are all inside it, or all outside.
    for (u32 first = 0; first < a.stride; first += 8 * THREADS) {
        u32 column = first + 8 * threadIdx.x;
        uint4 bits = column < a.stride ? *reinterpret_cast<const uint4 *>(from + column) : make_uint4(0, 0, 0, 0);
        const T *each = reinterpret_cast<const T *>(&bits);
        float sum = 0.0f;
#pragma unroll
        for (u32 i = 0; i < 8; i += 2) sum += widen(each[i]) + widen(each[i + 1]);
        leave_sums(a.sums, a.rows, row, column, a.stride, sum);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) column_sums_f16(const __grid_constant__ SumsArgs a) {
    column_sums<half>(a);
}
extern "C" __global__ void __launch_bounds__(THREADS) column_sums_bf16(const __grid_constant__ SumsArgs a) {
    column_sums<__nv_bfloat16>(a);
}
