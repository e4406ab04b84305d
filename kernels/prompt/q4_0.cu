// Products of prompts with weights in Q4_0.
#include "prompt/shapes.cuh"

PROMPT_BLOCKS(Q4_0, q4_0)
