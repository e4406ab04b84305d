// Products of prompts with weights in Q6_K.
#include "prompt/shapes.cuh"

PROMPT_KERNELS(Q6_K, q6_k)
