// How a block shares its tile of a prompt's product over warps, and how it lays out its shared memory.
//
// The shared memory holds a ring of stages. A stage has the inputs of 64 columns for every token of the tile, and the
// units of 64 columns of every weight tile. Behind the stages lie the rings of sums and scales, and then the scales
// that each warp prepares for itself.
#pragma once
#include "prompt/registers.cuh"
#include "sums.cuh"
#include "tile.cuh"

// WARPS_ALONG_TOKENS x WARPS_ALONG_ROWS warps share a tile. Each has M tiles of 16 tokens by N tiles of 16 weight rows.
// The ring has STAGES stages of 64 columns. Scaled weights are multiplied UNITS stages at a time: a warp that is alone
// on its scheduler waits for each result, and independent units fill that wait.
template <int WARPS_ALONG_TOKENS_, int WARPS_ALONG_ROWS_, int M_, int N_, int STAGES_, int UNITS_> struct Shape {
    static constexpr int WARPS_ALONG_TOKENS = WARPS_ALONG_TOKENS_, WARPS_ALONG_ROWS = WARPS_ALONG_ROWS_, M = M_, N = N_,
                         STAGES = STAGES_, UNITS = UNITS_;
    static_assert(STAGES % UNITS == 0);
    static constexpr int threads = 32 * WARPS_ALONG_TOKENS * WARPS_ALONG_ROWS, tokens = 16 * M * WARPS_ALONG_TOKENS,
                         tiles = N * WARPS_ALONG_ROWS;
};

// Sums of inputs, and scales, that outlive their stage: minima are multiplied once for several units. Scales are here
// only where four units share a factor and no warp prepares them. The gap of 32 bytes puts units that are read together
// into different banks.
template <int F, class S> struct Rings {
    static constexpr bool of_sums = Layout<F>::minimum && Layout<F>::kind != NIBBLE_PAIRS,
                          of_scales = Layout<F>::kind == BYTE_PAIRS;
    static constexpr u32 units = S::STAGES > 6 ? 16 : 8;
    static constexpr u32 scales = of_scales ? S::tiles * Layout<F>::scales + 32 : 0;
    static constexpr u32 sums = of_sums ? S::tokens * 8 + 32 : 0;
};

// Bytes of a stage: inputs, then units with their heads, without the parts that lie in rings.
template <int F, class S> struct Stage {
    static constexpr u32 in_ring = Rings<F, S>::of_scales ? Layout<F>::scales : 0;
    static constexpr u32 unit = Layout<F>::unit - in_ring + Layout<F>::head;
    static constexpr u32 inputs = S::tokens * 128;
    static constexpr u32 bytes = (inputs + S::tiles * unit + 127) / 128 * 128;
};

// How the loop over columns takes its stages: UNITS at a time, from a ring of STAGES such groups.
template <int F, typename T, class S> struct Pipeline {
    // Weights that need no dequantizing are read from shared memory one quarter ahead of their products, across the
    // border of stages too. Other weights keep the tensor cores waiting for the dequantizing, not for shared memory.
    static constexpr bool ahead = !Layout<F>::scaled && Layout<F>::quants == 2048 && Mma<T>::template holds<F>();
    // With few tokens the weights take all the time, so they are requested before this kernel's turn.
    static constexpr bool early = S::tokens <= 32;
    static constexpr u32 UNITS = ahead ? 1 : S::UNITS, STAGES = S::STAGES / UNITS, BYTES = UNITS * Stage<F, S>::bytes;
    static constexpr u32 scales_ring = S::STAGES * Stage<F, S>::bytes;
    static constexpr u32 sums_ring = scales_ring + Rings<F, S>::units * Rings<F, S>::scales;
    static constexpr u32 prepared = sums_ring + Rings<F, S>::units * Rings<F, S>::sums;
    // `stage` is multiplied, `next` is filled.
    static constexpr u32 first_stage = 0, last_stage = (STAGES - 1) * BYTES;
    static __device__ __forceinline__ void advance(u32 &stage, u32 &next) {
        next = stage, stage = stage + BYTES == STAGES * BYTES ? 0 : stage + BYTES;
    }
};

// A thread's position in its warp, in mma's fragments (g, t), and in the block's tile.
template <class S> struct Thread {
    u32 lane, warp, g, t, along_tokens, along_rows;
    __device__ __forceinline__ Thread() {
        lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
        along_tokens = warp % S::WARPS_ALONG_TOKENS, along_rows = warp / S::WARPS_ALONG_TOKENS;
    }
};

// Matrix and tile that a block's tile `index` is: gate and up alternate, other matrices follow one another.
__device__ __forceinline__ void tile_of(const PromptArgs &a, u32 index, u32 &matrix, u32 &tile) {
    if (a.epilogue == Epilogue::Gated) {
        matrix = index % 2, tile = index / 2;
        return;
    }
    u32 tiles0 = (a.weight0.rows + 15) / 16, tiles1 = (a.weight1.rows + 15) / 16;
    matrix = index < tiles0 ? 0 : index < tiles0 + tiles1 ? 1 : 2;
    tile = index - (matrix == 0 ? 0 : matrix == 1 ? tiles0 : tiles0 + tiles1);
}

__device__ __forceinline__ const Tiles &matrix_of(const PromptArgs &a, u32 matrix) {
    return matrix == 0 ? a.weight0 : matrix == 1 ? a.weight1 : a.weight2;
}

// Tiles of all matrices of a product.
__device__ __forceinline__ u32 tiles_of(const PromptArgs &a) {
    return (a.weight0.rows + 15) / 16 + (a.weight1.rows + 15) / 16 + (a.weight2.rows + 15) / 16;
}

extern __shared__ __align__(128) u8 staged[];
