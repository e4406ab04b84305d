// The kernels of one format, for each number type and shape. A shape's name is its tokens and rows; src/cuda/shapes.rs
// chooses between them.
#pragma once
#include "prompt/product.cuh"

typedef Shape<1, 4, 4, 2, 3, 1> Shape64x128;
// For plain values and many rows: a warp reads two thirds as much per product.
typedef Shape<2, 2, 4, 4, 3, 1> Shape128x128;
typedef Shape<2, 2, 2, 2, 4, 1> Shape64x64;
// For plain values, which need no dequantizing: each warp multiplies all rows. It cannot pair gate and up.
typedef Shape<4, 1, 1, 5, 4, 1> Shape64x80;
// For few rows, or few weights: a warp sums one tile of weights.
typedef Shape<1, 4, 2, 1, 6, 2> Shape32x64;
typedef Shape<1, 2, 1, 1, 8, 2> Shape16x32;

// BLOCKS: blocks that fit on a multiprocessor, at least.
#define PROMPT_KERNEL_OF(NAME, TYPE, SHAPE, BLOCKS, ...) \
    extern "C" __global__ void __launch_bounds__(Shape##SHAPE::threads, BLOCKS) \
        prompt_product_##TYPE##_##NAME##_##SHAPE(const __grid_constant__ PromptArgs a) { \
        __VA_ARGS__; \
    }
#define PROMPT_KERNEL(FORMAT, NAME, T, TYPE, SHAPE, BLOCKS) \
    PROMPT_KERNEL_OF( \
        NAME, TYPE, SHAPE, BLOCKS, \
        prompt_tile<FORMAT, T, Shape##SHAPE>(a, blockIdx.x * Shape##SHAPE::tokens, blockIdx.y * Shape##SHAPE::tiles))
// 64x128, and 32x64 with as many threads, in one kernel.
typedef Shape64x128 Shape64x128_32x64;
#define PROMPT_KERNEL_OF_TWO(FORMAT, NAME, T, TYPE) \
    PROMPT_KERNEL_OF(NAME, TYPE, 64x128_32x64, 3, prompt_product<FORMAT, T, Shape64x128, Shape32x64>(a))
#define PROMPT_BOTH(FORMAT, NAME, SHAPE, BLOCKS) \
    PROMPT_KERNEL(FORMAT, NAME, half, f16, SHAPE, BLOCKS) \
    PROMPT_KERNEL(FORMAT, NAME, __nv_bfloat16, bf16, SHAPE, BLOCKS)
#define PROMPT_PLAIN(FORMAT, NAME) \
    PROMPT_BOTH(FORMAT, NAME, 64x80, 3) \
    PROMPT_BOTH(FORMAT, NAME, 128x128, 2)
#define PROMPT_OTHERS(FORMAT, NAME) \
    PROMPT_BOTH(FORMAT, NAME, 64x64, 4) \
    PROMPT_BOTH(FORMAT, NAME, 16x32, 4)
// Values of four bytes leave no room for the largest tile.
#define PROMPT_WIDE(FORMAT, NAME) \
    PROMPT_OTHERS(FORMAT, NAME) \
    PROMPT_BOTH(FORMAT, NAME, 32x64, 3)
#define PROMPT_KERNELS(FORMAT, NAME) \
    PROMPT_OTHERS(FORMAT, NAME) \
    PROMPT_KERNEL_OF_TWO(FORMAT, NAME, half, f16) \
    PROMPT_KERNEL_OF_TWO(FORMAT, NAME, __nv_bfloat16, bf16)
