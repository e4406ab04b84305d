// Products of prompts with weights in F16.
#include "prompt/shapes.cuh"

PROMPT_KERNELS(F16, f16)
