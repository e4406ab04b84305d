// Products of a step with weights in Q4_K.
#include "step/product.cuh"

STEP_KERNELS(Q4_K, q4_k)
