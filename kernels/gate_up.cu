// out = silu(gate y) * (up y), rounded to the activations' type (SwiGLU, Shazeer 2020).
#include "matmul.cuh"

template <typename T, int N> __device__ __forceinline__ void gate_up(const GateUpArgs &a) {
    Stopwatch stopwatch(a.stamp);
    Block<N> &block = *reinterpret_cast<Block<N> *>(shared);
    Input<T> input = block_input<T, N>(a.input, a.x, a.norm, real_rows(a.count, a.rows), a.hidden, a.stride, a.epsilon, block);
    constexpr int EACH = (16 * 8 * N + THREADS - 1) / THREADS;
    float gate[EACH];
    // One copy of the product's code for both matrices.
#pragma unroll 1
    for (int matrix = 0; matrix < 2; ++matrix) {
        multiply_block<T, N>(matrix ? a.up : a.gate, blockIdx.x, input, block.scratch, block.product);
        if (matrix == 1) break;
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            u32 at = threadIdx.x + i * THREADS;
            gate[i] = at < 16 * 8 * N ? block.product[at] : 0.0f;
        }
    }
    T *out = at<T>(a.out) + (u64)blockIdx.y * 8 * N * a.out_stride;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        u32 at = threadIdx.x + i * THREADS, row = at % (8 * N), output = 16 * blockIdx.x + at / (8 * N);
        if (at < 16 * 8 * N && row < input.count && output < a.gate.rows) {
            float silu = gate[i] / (1.0f + expf(-gate[i]));
            out[(u64)row * a.out_stride + output] = round_to<T>(silu * block.product[at]);
        }
    }
}

KERNELS(gate_up, GateUpArgs)
