// x += W input: the two products that return to the residual stream.
#include "matmul.cuh"

template <typename T, int N> __device__ __forceinline__ void project(const ProjectArgs &a) {
    Stopwatch stopwatch(a.stamp);
    Block<N> &block = *reinterpret_cast<Block<N> *>(shared);
    Input<T> input = block_input<T, N>(a.input, 0, 0, real_rows(a.count, a.rows), 0, a.stride, 0.0f, block);
    multiply_block<T, N>(a.weight, blockIdx.x, input, block.scratch, block.product);
    float *x = at<float>(a.x) + (u64)blockIdx.y * 8 * N * a.weight.rows;
    for (u32 i = threadIdx.x; i < 16 * 8 * N; i += THREADS) {
        u32 row = i / 16, output = 16 * blockIdx.x + i % 16;
        if (row < input.count && output < a.weight.rows) x[(u64)row * a.weight.rows + output] += block.product[(i % 16) * (8 * N) + row];
    }
}

KERNELS(project, ProjectArgs)
