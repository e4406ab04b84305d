// Products of prompts with weights in Q5_1.
#include "prompt/shapes.cuh"

PROMPT_KERNELS(Q5_1, q5_1)
