// Products with weights in IQ3_XXS.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(IQ3_XXS, iq3_xxs)
STEP_KERNELS(IQ3_XXS, iq3_xxs)
