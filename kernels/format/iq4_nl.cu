// Products with weights in IQ4_NL.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(IQ4_NL, iq4_nl)
STEP_KERNELS(IQ4_NL, iq4_nl)
