// Products with weights in Q5_1.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(Q5_1, q5_1)
STEP_KERNELS(Q5_1, q5_1)
