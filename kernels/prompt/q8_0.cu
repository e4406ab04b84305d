// Products of prompts with weights in Q8_0.
#include "prompt/shapes.cuh"

PROMPT_KERNELS(Q8_0, q8_0)
