// Products of a step with weights in F32.
#include "step/product.cuh"

STEP_KERNELS(F32, f32)
