// Products with weights in Q5_K.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(Q5_K, q5_k)
STEP_KERNELS(Q5_K, q5_k)
