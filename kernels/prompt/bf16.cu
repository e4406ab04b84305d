// Products of prompts with weights in BF16.
#include "prompt/shapes.cuh"

PROMPT_KERNELS(BF16, bf16)
