// Products of prompts with weights in Q4_0.
#include "prompt/shapes.cuh"

PROMPT_KERNELS(Q4_0, q4_0)
