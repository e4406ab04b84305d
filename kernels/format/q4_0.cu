// Products with weights in Q4_0.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(Q4_0, q4_0)
STEP_KERNELS(Q4_0, q4_0)
