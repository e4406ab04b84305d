// Products of a step with weights in Q6_K.
#include "step/product.cuh"

STEP_KERNELS(Q6_K, q6_k)
