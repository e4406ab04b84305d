#!/usr/bin/env python3
"""Writes an assistant with random weights for a small Gemma 4, and transformers' guesses: assistant.py MODEL FOLDER [SEED].

MODEL is the folder tiny-gemma4. The guesses are those of transformers' own candidate generator. Its mask of a window shows one or
two positions more than llama.cpp's; here the keys of these layers end where llama.cpp's do: a row at the position of the chosen
token sees a window of positions, its own included, which has no keys. Needs transformers, torch and safetensors.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers.generation.candidate_generator import SinglePositionMultiTokenCandidateGenerator

LENGTHS = (1, 9, 15, 40, 120)
GUESSES = 4
HIDDEN = 32
CENTROIDS = 16


def config_of(model: dict) -> transformers.Gemma4AssistantConfig:
    alike = ["vocab_size", "num_key_value_heads", "head_dim", "global_head_dim", "sliding_window", "rope_parameters"]
    text = transformers.Gemma4TextConfig(
        **{key: model[key] for key in alike},
        max_position_embeddings=model["max_position_embeddings"],
        hidden_size=HIDDEN,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_kv_shared_layers=3,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0,
        use_double_wide_mlp=False,
        final_logit_softcapping=None,
    )
    return transformers.Gemma4AssistantConfig(text_config=text, backbone_hidden_size=model["hidden_size"])


@torch.no_grad()
def main(golden: Path, folder: Path, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        golden, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    config = config_of(json.loads((golden / "config.json").read_text()))
    config._attn_implementation = "eager"
    assistant = transformers.Gemma4AssistantForCausalLM(config).float().eval()
    tensors = {}
    for name, weights in assistant.named_parameters():
        noise = torch.randn(weights.shape, generator=generator)
        gain = weights.shape[-1] ** -0.5
        # The file has numbers of 16 bits.
        weights.copy_((1 + 0.1 * noise if weights.ndim == 1 else gain * noise).half().float())
        tensors[name] = weights.half().contiguous()
    for name, weights in assistant.named_buffers():
        if name.endswith("layer_scalar"):
            weights.fill_(0.75)
            tensors[name] = weights.half().contiguous()
    assistant.generation_config.num_assistant_tokens = GUESSES
    guesser = SinglePositionMultiTokenCandidateGenerator(
        assistant, model.get_input_embeddings(), transformers.GenerationConfig(max_length=512)
    )
    cases = []
    for length in LENGTHS:
        ids = torch.randint(model.config.vocab_size, (1, length), generator=generator)
        outputs = model(ids, use_cache=True, output_hidden_states=True, return_shared_kv_states=True)
        shared = outputs.shared_kv_states
        seen = model.config.sliding_window - 1
        windowed = tuple(side[:, :, -seen:] for side in shared["sliding_attention"])
        outputs.shared_kv_states = {"full_attention": shared["full_attention"], "sliding_attention": windowed}
        chosen = outputs.logits[:, -1:].argmax(-1)
        ids = torch.cat([ids, chosen], dim=-1)
        guesser.is_main_model_prefill = True
        tokens, logits = guesser.get_candidates(ids, {}, outputs, False, 0)
        cases.append(
            {
                "input_ids": ids[0, :-1].tolist(),
                "chosen": int(chosen),
                "guesses": tokens[0, length + 1 :].tolist(),
                "logits": [[round(float(one), 5) for one in row] for row in logits[0]],
            }
        )
        best = logits[0].topk(2).values
        print(length, cases[-1]["guesses"], "ahead by", (best[:, 0] - best[:, 1]).tolist())
    folder.mkdir(parents=True, exist_ok=True)
    source = f"transformers {transformers.__version__}, float32, eager attention, seed {seed}"
    (folder / "golden.json").write_text(json.dumps({"source": source, "cases": cases}, separators=(",", ":")))
    # Centroids, which are not read.
    tensors["masked_embedding.centroids.weight"] = torch.zeros(CENTROIDS, HIDDEN).half()
    tensors["masked_embedding.token_ordering"] = torch.arange(model.config.vocab_size)
    tensors = {name: weights for name, weights in tensors.items() if name != "lm_head.weight"}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    described = config.to_dict() | {"use_ordered_embeddings": True, "num_centroids": CENTROIDS}
    described["architectures"] = ["Gemma4AssistantForCausalLM"]
    (folder / "config.json").write_text(json.dumps(described, indent=2))


main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
