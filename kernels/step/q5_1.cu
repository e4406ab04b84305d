// Products of a step with weights in Q5_1.
#include "step/product.cuh"

STEP_KERNELS(Q5_1, q5_1)
