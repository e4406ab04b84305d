// Products with weights in IQ2_S.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(IQ2_S, iq2_s)
STEP_KERNELS(IQ2_S, iq2_s)
