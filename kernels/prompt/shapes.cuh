// The kernels of one format: each number type and shape. A shape is named by its tokens and rows; src/cuda/shapes.rs
// chooses between them.
#pragma once
#include "prompt/product.cuh"

typedef Shape<1, 4, 4, 2, 3, 1> Shape64x128;
// Of plain values, for many rows: a warp reads two thirds as much for each product.
typedef Shape<2, 2, 4, 4, 3, 1> Shape128x128;
typedef Shape<2, 2, 2, 2, 4, 1> Shape64x64;
// Of plain values, which no warp has to make first: each warp meets all rows. It has no pairs of gate and up.
typedef Shape<4, 1, 1, 5, 4, 1> Shape64x80;
// Of few rows, or few weights: warps that sum as few outputs as a tile of weights has.
typedef Shape<1, 4, 2, 1, 6, 2> Shape32x64;
typedef Shape<1, 2, 1, 1, 8, 2> Shape16x32;

// BLOCKS: at least as many on a multiprocessor.
#define PROMPT_KERNEL_OF(NAME, TYPE, SHAPE, BLOCKS, ...) \
    extern "C" __global__ void __launch_bounds__(Shape##SHAPE::threads, BLOCKS) prompt_##TYPE##_##NAME##_##SHAPE(const __grid_constant__ PromptArgs a) { __VA_ARGS__; }
#define PROMPT_KERNEL(FORMAT, NAME, T, TYPE, SHAPE, BLOCKS) \
    PROMPT_KERNEL_OF(NAME, TYPE, SHAPE, BLOCKS, prompt_tile<FORMAT, T, Shape##SHAPE>(a, blockIdx.x * Shape##SHAPE::tokens, blockIdx.y * Shape##SHAPE::tiles))
// 64x128 and, of as many threads, 32x64.
typedef Shape64x128 Shape64x128_32x64;
#define PROMPT_KERNEL_OF_TWO(FORMAT, NAME, T, TYPE) PROMPT_KERNEL_OF(NAME, TYPE, 64x128_32x64, 3, prompt_product<FORMAT, T, Shape64x128, Shape32x64>(a))
#define PROMPT_BOTH(FORMAT, NAME, SHAPE, BLOCKS) \
    PROMPT_KERNEL(FORMAT, NAME, half, f16, SHAPE, BLOCKS) PROMPT_KERNEL(FORMAT, NAME, __nv_bfloat16, bf16, SHAPE, BLOCKS)
#define PROMPT_PLAIN(FORMAT, NAME) PROMPT_BOTH(FORMAT, NAME, 64x80, 3) PROMPT_BOTH(FORMAT, NAME, 128x128, 2)
#define PROMPT_OTHERS(FORMAT, NAME) PROMPT_BOTH(FORMAT, NAME, 64x64, 4) PROMPT_BOTH(FORMAT, NAME, 16x32, 4)
// Of four bytes: the largest tile leaves no room.
#define PROMPT_WIDE(FORMAT, NAME) PROMPT_OTHERS(FORMAT, NAME) PROMPT_BOTH(FORMAT, NAME, 32x64, 3)
#define PROMPT_KERNELS(FORMAT, NAME) PROMPT_OTHERS(FORMAT, NAME) PROMPT_KERNEL_OF_TWO(FORMAT, NAME, half, f16) PROMPT_KERNEL_OF_TWO(FORMAT, NAME, __nv_bfloat16, bf16)
