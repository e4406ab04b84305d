// The matrix products of a prompt: tiles of tokens and weight rows, filled ahead of the tensor cores by cp.async.
//
// One warp sums each output over all columns, in their order: a row's bits depend neither on the shape of the tile nor
// on the number of rows in flight. A step's products (step/product.cuh) split the columns over warps, and have other
// last bits.
#pragma once
#include "prompt/copy.cuh"
#include "prompt/epilogue.cuh"
#include "prompt/multiply.cuh"

// Requests the first stages: all but one of the ring.
template <class P, class Copies>
__device__ __forceinline__ void fill_stages(const Copies &copies, LaunchTurn &launch_turn) {
    constexpr u32 STAGES = P::STAGES;
    if constexpr (P::early) {
        // Weights do not depend on the kernel before this one, inputs do.
#pragma unroll
        for (u32 k = 0; k < STAGES - 1; ++k) copies.load_weights(k, k * P::BYTES);
        launch_turn.wait();
#pragma unroll
        for (u32 k = 0; k < STAGES - 1; ++k) {
            copies.load_inputs(k, k * P::BYTES);
            copies_end();
        }
    } else {
#pragma unroll
        for (u32 k = 0; k < STAGES - 1; ++k) copies.load(k, k * P::BYTES);
    }
}

// The tile of S's outputs that begins with token `first` and weight tile `first_tile`.
template <int F, typename T, class S>
__device__ __forceinline__ void prompt_tile(const PromptArgs &a, u32 first, u32 first_tile) {
    typedef Pipeline<F, T, S> P;
    LaunchTurn launch_turn(a.stamp, P::early ? LATER : HELD);
    const u32 rows = real_rows(a.count, a.rows);
    if (first >= rows) return;
    const Thread<S> thread;
    const u32 base = in_shared(staged), units = a.weight0.columns / 64, all_tiles = tiles_of(a);
    u8 *const prepared = staged + P::prepared + thread.warp * Prepared<F, T, S>::bytes;

    const u8 *begins[Copies<F, T, S>::EACH];
    Copies<F, T, S>::find_tiles(a, thread, first_tile, all_tiles, begins);
    const Copies<F, T, S> copies(a, thread, first, rows, base, units, begins);
    float sums[S::M][S::N][2][4] = {};
    fill_stages<P>(copies, launch_turn);

    Products<F, T, S> products(thread, sums, base, units, prepared);
    // Not members of a struct: that changes the order of registers in the loop.
    u32 stage = P::first_stage, next = P::last_stage;
    products.multiply_all(copies, stage, next);

    LaunchTurn::let_next_begin();
    static_assert(S::tokens / 2 * SharedSums<S>::PITCH * sizeof(float) <= S::STAGES * Stage<F, S>::bytes);
    copies_wait<0>();
    __syncthreads();
    leave_sums_of_warp<F, S>(sums, thread, base);
    __syncthreads();
    finish<F, T, S>(a, reinterpret_cast<float *>(staged), first, first_tile, rows, all_tiles);
}

// Outputs in tiles of S; those that would be a last turn of few blocks, or all of them, in smaller tiles.
template <int F, typename T, class S, class Smaller>
__device__ __forceinline__ void prompt_product(const PromptArgs &a) {
    if (blockIdx.y < a.whole) {
        prompt_tile<F, T, S>(a, blockIdx.x * S::tokens, blockIdx.y * S::tiles);
        return;
    }
    const u32 index = (blockIdx.y - a.whole) * gridDim.x + blockIdx.x;
    prompt_tile<F, T, Smaller>(a, index % a.along * Smaller::tokens,
                               a.whole * S::tiles + index / a.along * Smaller::tiles);
}
