// Products of a step with weights in SCALED_F16.
#include "step/product.cuh"

STEP_KERNELS(SCALED_F16, scaled_f16)
