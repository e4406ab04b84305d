// Products of prompts with weights in Q5_0.
#include "prompt/shapes.cuh"

PROMPT_KERNELS(Q5_0, q5_0)
