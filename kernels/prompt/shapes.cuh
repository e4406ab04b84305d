// The kernels of one format: each number type and shape. A shape is named by its tokens and rows; src/tape/cuda/shapes.rs
// chooses between them.
#pragma once
#include "prompt/product.cuh"

typedef Shape<1, 4, 8, 3> Shape128x128;
typedef Shape<2, 2, 4, 3> Shape128x64;
typedef Shape<2, 2, 2, 4> Shape64x64;
typedef Shape<1, 2, 1, 8> Shape16x64;

// BLOCKS: at least as many on a multiprocessor.
#define PROMPT_KERNEL(FORMAT, NAME, T, TYPE, SHAPE, BLOCKS) \
    extern "C" __global__ void __launch_bounds__(Shape##SHAPE::threads, BLOCKS) prompt_##TYPE##_##NAME##_##SHAPE(const __grid_constant__ PromptArgs a) { \
        prompt_product<FORMAT, T, Shape##SHAPE>(a); \
    }
// A warp of the largest has no registers for minima, nor a stage of it shared memory for f32.
#define PROMPT_SHAPES(FORMAT, NAME, T, TYPE) \
    PROMPT_KERNEL(FORMAT, NAME, T, TYPE, 128x64, 2) PROMPT_KERNEL(FORMAT, NAME, T, TYPE, 64x64, 3) PROMPT_KERNEL(FORMAT, NAME, T, TYPE, 16x64, 4)
#define PROMPT_KERNELS_BUT_LARGEST(FORMAT, NAME) PROMPT_SHAPES(FORMAT, NAME, half, f16) PROMPT_SHAPES(FORMAT, NAME, __nv_bfloat16, bf16)
#define PROMPT_KERNELS(FORMAT, NAME) \
    PROMPT_KERNEL(FORMAT, NAME, half, f16, 128x128, 2) PROMPT_KERNEL(FORMAT, NAME, __nv_bfloat16, bf16, 128x128, 2) PROMPT_KERNELS_BUT_LARGEST(FORMAT, NAME)
