// Products of prompts with weights in Q4_K.
#include "prompt/shapes.cuh"

PROMPT_KERNELS(Q4_K, q4_k)
