// Products of a step with weights in Q4_0.
#include "step/product.cuh"

STEP_KERNELS(Q4_0, q4_0)
