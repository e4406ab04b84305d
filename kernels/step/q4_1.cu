// Products of a step with weights in Q4_1.
#include "step/product.cuh"

STEP_KERNELS(Q4_1, q4_1)
