// Products with weights in Q4_1.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(Q4_1, q4_1)
STEP_KERNELS(Q4_1, q4_1)
