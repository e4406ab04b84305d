// Products of prompts with weights in Q4_1.
#include "prompt/shapes.cuh"

PROMPT_KERNELS(Q4_1, q4_1)
