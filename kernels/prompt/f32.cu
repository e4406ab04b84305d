// Products of prompts with weights in F32.
#include "prompt/shapes.cuh"

PROMPT_WIDE(F32, f32)
