// Products with weights in Q2_K.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(Q2_K, q2_k)
STEP_KERNELS(Q2_K, q2_k)
