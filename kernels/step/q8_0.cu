// Products of a step with weights in Q8_0.
#include "step/product.cuh"

STEP_KERNELS(Q8_0, q8_0)
