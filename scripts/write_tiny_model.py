"""Write a made-up Llama of two layers and a tokenizer of 512 words, for vLLM without weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import _checkout  # noqa: F401
import typer

from online.commands.console import run, say

WORDS = 512

CONFIGURATION = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": WORDS,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float32",
}


def write_configuration(folder: Path) -> None:
    """Write ``config.json``, which is all that prompts of token numbers need."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIGURATION), encoding="utf-8")


def write_tiny_model(
    folder: Annotated[Path, typer.Argument(help="Made if it is not there.")],
) -> None:
    """Write the model; with ``--load-format dummy`` vLLM makes its weights up."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    write_configuration(folder)
    words = ["<unk>", "<s>", "</s>", *[f"w{number}" for number in range(3, WORDS)]]
    vocabulary = {word: place for place, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    say(f"{folder}: a model of {WORDS} words")


if __name__ == "__main__":
    run(write_tiny_model)
