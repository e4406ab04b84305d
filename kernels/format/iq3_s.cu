// Products with weights in IQ3_S.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(IQ3_S, iq3_s)
STEP_KERNELS(IQ3_S, iq3_s)
