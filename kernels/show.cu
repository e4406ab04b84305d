// x = values, or x += values, for the rows of images, by blocks of THREADS columns of one row.
#include "common.cuh"
#include "state.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) show(const __grid_constant__ ShowArgs a) {
    LaunchTurn launch_turn(a.stamp);
    const u32 row = blockIdx.x, column = blockIdx.y * THREADS + threadIdx.x;
    if (column >= a.hidden || is_padding(a.count, row) || at<const Shown>(a.shown)[row].length == 0) return;
    const float value = at<const float>(a.values)[(u64)row * a.stride + column];
    float *const x = at<float>(a.x) + (u64)row * a.hidden + column;
    *x = a.adds ? *x + value : value;
}
