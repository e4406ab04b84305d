// Products with weights in SCALED_F16.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(SCALED_F16, scaled_f16)
PROMPT_PLAIN(SCALED_F16, scaled_f16)
STEP_KERNELS(SCALED_F16, scaled_f16)
