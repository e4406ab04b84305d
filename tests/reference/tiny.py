#!/usr/bin/env python3
"""Writes a small model with random weights and transformers' results for it: tiny.py FOLDER [SEED].

FOLDER holds its config.json, as models of its kind are published. Needs transformers, torch and safetensors.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

LENGTHS = (1, 7, 64, 200)
GREEDY = 48


@torch.no_grad()
def main(folder: Path, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    config = transformers.AutoConfig.from_pretrained(folder)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for name, weights in model.named_parameters():
        noise = torch.randn(weights.shape, generator=generator)
        # Norms are near one. A product is about as large as its input. Logits are twice that, so that tokens differ.
        gain = (2 if name == "lm_head.weight" else 1) * weights.shape[-1] ** -0.5
        weights.copy_(1 + 0.1 * noise if weights.ndim == 1 else gain * noise)

    def logprobs(ids: list[int]) -> torch.Tensor:
        return model(torch.tensor([ids]), use_cache=False).logits[0].log_softmax(-1)

    cases, margin = [], float("inf")
    for length in LENGTHS:
        ids = torch.randint(config.vocab_size, (length,), generator=generator).tolist()
        scores = logprobs(ids)
        top = scores[-1].topk(10)
        said = []
        for _ in range(GREEDY):
            best = logprobs(ids + said)[-1].topk(2)
            margin = min(margin, float(best.values[0] - best.values[1]))
            said.append(int(best.indices[0]))
        cases.append(
            {
                "input_ids": ids,
                "token_logprobs": [float(scores[at, id]) for at, id in enumerate(ids[1:])],
                "argmax": scores.argmax(-1).tolist(),
                "last_top10": [[int(id), float(value)] for value, id in zip(*top)],
                "greedy": said,
            }
        )
    source = f"transformers {transformers.__version__}, float32, eager attention, seed {seed}"
    (folder / "golden.json").write_text(json.dumps({"source": source, "cases": cases}))
    tensors = {name: weights.contiguous() for name, weights in model.named_parameters()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    print(f"{folder}: the greedy tokens are {margin:.4f} ahead of the next ones, or more")


main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
