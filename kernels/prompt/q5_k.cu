// Products of prompts with weights in Q5_K.
#include "prompt/shapes.cuh"

PROMPT_KERNELS(Q5_K, q5_k)
