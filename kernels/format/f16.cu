// Products with weights in F16.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(F16, f16)
PROMPT_PLAIN(F16, f16)
STEP_KERNELS(F16, f16)
