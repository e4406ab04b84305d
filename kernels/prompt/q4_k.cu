// Products of prompts with weights in Q4_K.
#include "prompt/shapes.cuh"

PROMPT_BLOCKS(Q4_K, q4_k)
