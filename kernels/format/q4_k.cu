// Products with weights in Q4_K.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(Q4_K, q4_k)
STEP_KERNELS(Q4_K, q4_k)
