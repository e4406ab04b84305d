// Products with weights in Q8_0.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(Q8_0, q8_0)
STEP_KERNELS(Q8_0, q8_0)
