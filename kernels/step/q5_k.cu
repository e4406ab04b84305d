// Products of a step with weights in Q5_K.
#include "step/product.cuh"

STEP_KERNELS(Q5_K, q5_k)
