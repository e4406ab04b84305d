// Products with weights in Q3_K.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(Q3_K, q3_k)
STEP_KERNELS(Q3_K, q3_k)
