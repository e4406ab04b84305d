// Products with weights in Q5_0.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(Q5_0, q5_0)
STEP_KERNELS(Q5_0, q5_0)
