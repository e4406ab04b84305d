// Products with weights in BF16.
#include "prompt/shapes.cuh"
#include "step/product.cuh"

PROMPT_KERNELS(BF16, bf16)
PROMPT_PLAIN(BF16, bf16)
STEP_KERNELS(BF16, bf16)
