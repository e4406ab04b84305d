// Products of a step with weights in BF16.
#include "step/product.cuh"

STEP_KERNELS(BF16, bf16)
