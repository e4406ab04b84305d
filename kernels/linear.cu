// out = W y + bias for up to three matrices over the same input: Q, K and V in one launch, or the head.
#include "matmul.cuh"

template <typename T, int N> __device__ __forceinline__ void linear(const LinearArgs &a) {
    Stopwatch stopwatch(a.stamp);
    Block<N> &block = *reinterpret_cast<Block<N> *>(shared);
    u64 x = a.x + (a.count && a.rows == 1 ? 4ull * a.hidden * (*at<const u32>(a.count) - 1) : 0);
    Input<T> input = block_input<T, N>(a.input, x, a.norm, real_rows(a.count, a.rows), a.hidden, a.stride, a.epsilon, block);
    u32 tile = blockIdx.x, tiles0 = (a.weight0.rows + 15) / 16, tiles1 = (a.weight1.rows + 15) / 16;
    bool first = tile < tiles0, second = !first && tile < tiles0 + tiles1;
    tile -= first ? 0 : second ? tiles0 : tiles0 + tiles1;
    const Tiles w = first ? a.weight0 : second ? a.weight1 : a.weight2;
    const float *bias = at<const float>(first ? a.bias0 : second ? a.bias1 : a.bias2);
    u32 stride = a.out_stride ? a.out_stride : w.rows;
    float *out = at<float>(first ? a.out0 : second ? a.out1 : a.out2) + (u64)blockIdx.y * 8 * N * stride;
    multiply_block<T, N>(w, tile, input, block.scratch, block.product);
    for (u32 i = threadIdx.x; i < 16 * 8 * N; i += THREADS) {
        u32 row = i / 16, output = 16 * tile + i % 16;
        if (row < input.count && output < w.rows) out[(u64)row * stride + output] = block.product[(i % 16) * (8 * N) + row] + (bias ? bias[output] : 0.0f);
    }
}

KERNELS(linear, LinearArgs)
