// Products of a step with weights in Q5_0.
#include "step/product.cuh"

STEP_KERNELS(Q5_0, q5_0)
