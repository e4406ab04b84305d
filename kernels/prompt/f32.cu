// Products of prompts with weights in F32.
#include "prompt/shapes.cuh"

PROMPT_KERNELS_BUT_LARGEST(F32, f32)
