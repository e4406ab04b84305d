// Products with weights in F32.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_WIDE(F32, f32)
STEP_KERNELS(F32, f32)
