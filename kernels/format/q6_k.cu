// Products with weights in Q6_K.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(Q6_K, q6_k)
STEP_KERNELS(Q6_K, q6_k)
