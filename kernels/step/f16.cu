// Products of a step with weights in F16.
#include "step/product.cuh"

STEP_KERNELS(F16, f16)
