// Products of prompts with weights in SCALED_F16.
#include "prompt/shapes.cuh"

PROMPT_KERNELS(SCALED_F16, scaled_f16)
