// Products with weights in IQ4_XS.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(IQ4_XS, iq4_xs)
STEP_KERNELS(IQ4_XS, iq4_xs)
